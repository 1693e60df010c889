/** All seeded faults, by what they break. */
import { agentFaults } from "./agents.ts";
import { aheadFaults } from "./ahead.ts";
import { archiveFaults } from "./archives.ts";
import { causeFaults } from "./causes.ts";
import { claimAndSettle } from "./claim-and-settle.ts";
import { connectionFaults } from "./connections.ts";
import { dashboardFaults } from "./dashboard.ts";
import { databaseFaults } from "./database.ts";
import { dialectFaults } from "./dialects.ts";
import { drainFaults } from "./drains.ts";
import { encryptionFaults } from "./encryption.ts";
import { executingFaults } from "./executing.ts";
import { failureFaults } from "./failures.ts";
import { hookFaults } from "./hooks.ts";
import { limitFaults } from "./limits.ts";
import { moveFaults } from "./moves.ts";
import type { Mutant } from "./mutant.ts";
import { observingFaults } from "./observing.ts";
import { queueFaults } from "./queue.ts";
import { runningFaults } from "./running.ts";
import { scheduleFaults } from "./schedules.ts";
import { serverFaults } from "./servers.ts";
import { statsFaults } from "./stats.ts";
import { testingFaults } from "./testing.ts";
import { uniquenessFaults } from "./uniqueness.ts";
import { upkeepFaults } from "./upkeep.ts";
import { validationFaults } from "./validation.ts";
import { valueFaults } from "./values.ts";
import { workflowFaults } from "./workflows.ts";

/** Faults of the claim and of the settlement: CI tries these on each commit. */
export const coreFaults: readonly Mutant[] = claimAndSettle;

export const mutants: readonly Mutant[] = [
  ...claimAndSettle,
  ...upkeepFaults,
  ...runningFaults,
  ...aheadFaults,
  ...queueFaults,
  ...databaseFaults,
  ...valueFaults,
  ...connectionFaults,
  ...serverFaults,
  ...dialectFaults,
  ...moveFaults,
  ...archiveFaults,
  ...observingFaults,
  ...encryptionFaults,
  ...executingFaults,
  ...drainFaults,
  ...agentFaults,
  ...uniquenessFaults,
  ...scheduleFaults,
  ...limitFaults,
  ...dashboardFaults,
  ...statsFaults,
  ...failureFaults,
  ...causeFaults,
  ...hookFaults,
  ...workflowFaults,
  ...validationFaults,
  ...testingFaults,
];
