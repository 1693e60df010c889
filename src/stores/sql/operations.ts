/** The operations of the core on one store, by what they are about. Each is a program, which a synchronous or asynchronous driver runs. */
import { ClaimPipeline } from "./claim.ts";
import type { ClaimFeatures } from "./claim-features.ts";
import { ClaimSteps } from "./claim-steps.ts";
import type { DueLooks } from "./due-looks.ts";
import { ExpiryOperations } from "./expiry.ts";
import { LogOperations } from "./logs.ts";
import { MaintenanceOperations } from "./maintenance.ts";
import { SettleAndClaimOperations } from "./settle-and-claim.ts";
import { TaskOperations } from "./tasks.ts";
import type { Texts } from "./texts.ts";
import { Transitions } from "./transitions.ts";

/** A feature calls these, and adds to them what it does when a task ends, crashes or is removed. */
export interface CoreOperations {
  texts: Texts;
  transitions: Transitions;
  tasks: TaskOperations;
  logs: LogOperations;
  /** A worker's cycle. */
  cycle: SettleAndClaimOperations;
  maintenance: MaintenanceOperations;
  expiry: ExpiryOperations;
}

/** How a store makes the operations of its workers' cycles. */
export type CycleOf = (transitions: Transitions, claims: ClaimPipeline) => SettleAndClaimOperations;

/** What features add to the core's own statements. */
export interface CoreFeatures {
  claims: ClaimFeatures;
  looks: DueLooks;
}

/** Operations remember how their claims went: each store has its own. */
export function coreOperationsOf(
  texts: Texts,
  { claims, looks }: CoreFeatures,
  cycleOf: CycleOf = (transitions, claims) => new SettleAndClaimOperations(texts, transitions, claims),
): CoreOperations {
  const transitions = new Transitions(texts.statements);
  const maintenance = new MaintenanceOperations(texts, transitions, looks);
  const tasks = new TaskOperations(texts, transitions, maintenance);
  return {
    texts,
    transitions,
    tasks,
    logs: new LogOperations(texts.statements),
    cycle: cycleOf(transitions, new ClaimPipeline(new ClaimSteps(texts, transitions), claims)),
    maintenance,
    expiry: new ExpiryOperations(texts, transitions, tasks),
  };
}
