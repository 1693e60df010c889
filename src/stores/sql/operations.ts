/** The operations of one store, by what they are about. Each is a program, which a synchronous or asynchronous driver runs. */
import { groupFunction } from "../../features/workflows/contract.ts";
import type { AdmissionPolicy } from "./admission.ts";
import { AgentOperations } from "./agents.ts";
import { CauseReportOperations } from "./cause-reports.ts";
import { CauseOperations } from "./causes.ts";
import { DrainOperations } from "./drains.ts";
import { EncryptionOperations } from "./encryption.ts";
import { FailureOperations } from "./failures.ts";
import { HealthOperations } from "./health.ts";
import { LimitOperations } from "./limits.ts";
import { LogOperations } from "./logs.ts";
import { LookOperations } from "./look.ts";
import { MaintenanceOperations } from "./maintenance.ts";
import { OwedHookOperations } from "./owed-hooks.ts";
import { ScheduleOperations } from "./schedules.ts";
import { SettleAndClaimOperations } from "./settle-and-claim.ts";
import { StatsOperations } from "./stats.ts";
import { TaskOperations } from "./tasks.ts";
import { TestingOperations } from "./testing.ts";
import type { Texts } from "./texts.ts";
import { TransferOperations } from "./transfer.ts";
import { Transitions } from "./transitions.ts";
import { UndoOperations } from "./undo.ts";
import { WorkflowOperations } from "./workflows.ts";

export interface Operations {
  texts: Texts;
  transitions: Transitions;
  tasks: TaskOperations;
  logs: LogOperations;
  /** A worker's cycle. */
  cycle: SettleAndClaimOperations;
  maintenance: MaintenanceOperations;
  agents: AgentOperations;
  drains: DrainOperations;
  limits: LimitOperations;
  schedules: ScheduleOperations;
  transfer: TransferOperations;
  look: LookOperations;
  stats: StatsOperations;
  failures: FailureOperations;
  health: HealthOperations;
  causes: CauseOperations;
  causeReports: CauseReportOperations;
  encryption: EncryptionOperations;
  hooks: OwedHookOperations;
  testing: TestingOperations;
  workflows: WorkflowOperations;
  undo: UndoOperations;
}

/** Operations remember how their claims went: each store has its own. */
export function operationsOf(
  texts: Texts,
  cycleOf = (transitions: Transitions, policies?: readonly AdmissionPolicy[]) =>
    new SettleAndClaimOperations(texts, transitions, policies),
): Operations {
  const transitions = new Transitions(texts.statements);
  const maintenance = new MaintenanceOperations(texts, transitions);
  const tasks = new TaskOperations(texts, transitions, maintenance);
  const hooks = new OwedHookOperations(texts);
  const undo = new UndoOperations(texts, tasks);
  const workflows = new WorkflowOperations(texts, transitions, tasks, undo);
  maintenance.onCrash = (crashes) => hooks.owe(crashes);
  maintenance.onRemove = (ids) => workflows.removeOf(ids);
  transitions.onEnd = (ended) => workflows.onEnd(ended);
  tasks.onRetry = (id) => undo.onRetry(id);
  transitions.holdUp = (ending) => undo.holdUp(ending);
  tasks.isFixed = ({ func }) => func === groupFunction;
  tasks.onCancel = (record, error) => workflows.cancelTree(record, error);
  return {
    texts,
    transitions,
    tasks,
    logs: new LogOperations(texts.statements),
    cycle: cycleOf(transitions),
    maintenance,
    agents: new AgentOperations(texts),
    drains: new DrainOperations(texts, transitions, tasks, maintenance),
    limits: new LimitOperations(texts),
    schedules: new ScheduleOperations(texts, tasks),
    transfer: new TransferOperations(texts),
    look: new LookOperations(texts, tasks, maintenance),
    stats: new StatsOperations(texts),
    failures: new FailureOperations(texts),
    health: new HealthOperations(texts),
    causes: new CauseOperations(texts),
    causeReports: new CauseReportOperations(texts),
    encryption: new EncryptionOperations(texts),
    hooks,
    testing: new TestingOperations(texts),
    workflows,
    undo,
  };
}
