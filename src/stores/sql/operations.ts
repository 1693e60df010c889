/** The operations of one store, by what they are about. Each is a program, which a synchronous or asynchronous driver runs. */
import type { AdmissionPolicy } from "./admission.ts";
import { LogOperations } from "./logs.ts";
import { MaintenanceOperations } from "./maintenance.ts";
import { SettleAndClaimOperations } from "./settle-and-claim.ts";
import { TaskOperations } from "./tasks.ts";
import type { Texts } from "./texts.ts";
import { TransferOperations } from "./transfer.ts";
import { Transitions } from "./transitions.ts";

export interface Operations {
  texts: Texts;
  transitions: Transitions;
  tasks: TaskOperations;
  logs: LogOperations;
  /** A worker's cycle. */
  cycle: SettleAndClaimOperations;
  maintenance: MaintenanceOperations;
  transfer: TransferOperations;
}

/** Operations remember how their claims went: each store has its own. */
export function operationsOf(
  texts: Texts,
  cycleOf = (transitions: Transitions, policies?: readonly AdmissionPolicy[]) =>
    new SettleAndClaimOperations(texts, transitions, policies),
): Operations {
  const transitions = new Transitions(texts.statements);
  const maintenance = new MaintenanceOperations(texts.statements, transitions);
  return {
    texts,
    transitions,
    tasks: new TaskOperations(texts, transitions, maintenance),
    logs: new LogOperations(texts.statements),
    cycle: cycleOf(transitions),
    maintenance,
    transfer: new TransferOperations(texts),
  };
}
