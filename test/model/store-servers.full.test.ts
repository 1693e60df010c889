/**
 * Invariant: a store on a server is the queue that its interface describes, with either strategy that keeps claims
 * apart. Calls, steps of the server's clock, and statements that fail for good or for a moment are drawn as for SQLite.
 */
import { describe } from "vitest";
import { amount } from "../support/amount.ts";
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { isMissing } from "../support/server.ts";
import { agentAgreement } from "./agents.ts";
import { agreement } from "./agreement.ts";
import { drainAgreement } from "./drains.ts";
import type { Compared } from "./drawn-commands.ts";
import { limiterAgreement } from "./limiter.ts";
import { openRealMysql } from "./real-mysql.ts";
import { openRealPostgres } from "./real-postgres.ts";
import { scheduleAgreement } from "./schedules.ts";
import { workflowAgreement } from "./workflows.ts";

type Strategy = Parameters<typeof openRealPostgres>[0];

const servers = [
  { name: "Postgres", open: openRealPostgres, missing: isMissing(await postgresServer()) },
  { name: "MySQL", open: openRealMysql, missing: isMissing(await mysqlServer()) },
];

describe.each(servers)("on $name", ({ name, open, missing }) => {
  const compared = (what: string, runs: number, strategy: Strategy = "skip-locked"): Compared => ({
    name: `${what} on ${name}`,
    open: () => open(strategy),
    faults: ["throws", "commit", "passes"],
    runs,
  });
  describe.skipIf(missing).each(["skip-locked", "optimistic"] as const)("%s", (strategy) => {
    agreement(compared(`model of the store, ${strategy},`, amount(8, 8, 120), strategy));
  });
  describe.skipIf(missing)("schedules", () => {
    scheduleAgreement(compared("model of schedules", amount(3, 3, 60)));
  });
  describe.skipIf(missing)("limits", () => {
    limiterAgreement(compared("model of limits", amount(3, 3, 60)));
  });
  describe.skipIf(missing)("drains", () => {
    drainAgreement(compared("model of drains", amount(3, 3, 40)));
  });
  describe.skipIf(missing)("workflows", () => {
    workflowAgreement(compared("model of workflows", amount(3, 3, 40)));
  });
  describe.skipIf(missing)("agents", () => {
    agentAgreement(compared("model of agents", amount(3, 3, 40)));
  });
});
