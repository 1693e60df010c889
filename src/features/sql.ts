/** The operations and methods of a store with all features. A feature's SQL joins a store here. */
import type { Diagnosis, MaybePromise } from "../store.ts";
import { Batches } from "../stores/sql/batches.ts";
import type { ClaimFeatures } from "../stores/sql/claim-features.ts";
import type { DueLooks } from "../stores/sql/due-looks.ts";
import { causeOf } from "../stores/sql/migrations.ts";
import { type CoreOperations, type CycleOf, coreOperationsOf } from "../stores/sql/operations.ts";
import type { Program, Runner } from "../stores/sql/program.ts";
import { type CoreMethods, coreMethodsOver } from "../stores/sql/store-methods.ts";
import type { Texts } from "../stores/sql/texts.ts";
import { type TableLook, unreadableFacts } from "../stores/sql/unreadable.ts";
import { ArchiveOperations, archiveMethods } from "./archive/sql.ts";
import { CauseOperations, causeMethods } from "./causes/sql/causes.ts";
import { CauseReportOperations, reportMethods } from "./causes/sql/reports.ts";
import { DrainOperations, drainLook, drainMethods } from "./drain/sql/drains.ts";
import { inOrder } from "./drain/sql/ordered.ts";
import { encryptionFacts } from "./encryption/contract.ts";
import { EncryptionOperations, encryptionMethods } from "./encryption/sql.ts";
import { FailureOperations, failureMethods } from "./failures/sql.ts";
import { hookMethods, type OwedHookOperations, owedHooksLook, owedHooksOf } from "./hooks/sql.ts";
import { HealthOperations, healthMethods } from "./inspect/sql/health.ts";
import { LimitOperations, limitLooks, limitMethods } from "./limits/sql/limits.ts";
import { SteeredClaims } from "./limits/sql/steered-claims.ts";
import { auditLook, LookOperations, lookMethods } from "./look/sql/look.ts";
import { AgentOperations, agentLook, agentMethods } from "./manager/sql/agents.ts";
import { sessionsOwn } from "./manager/sql/session-claim.ts";
import { scheduleLook } from "./schedules/sql/rows.ts";
import { ScheduleOperations, scheduleMethods, scheduleWrites, slotLook } from "./schedules/sql/schedules.ts";
import { StatsOperations, statsMethods } from "./stats/sql.ts";
import type { FeatureStores, FullTransaction } from "./store.ts";
import { TestingOperations, testingMethods } from "./testing/sql.ts";
import { isSource } from "./transfer/contract.ts";
import { TransferOperations, transferFacts, transferMethods } from "./transfer/sql.ts";
import {
  type WorkflowOperations,
  workflowMethods,
  workflowsOf,
  workflowWrites,
} from "./workflows/sql/join.ts";
import { nextWaitLook, waitsLook } from "./workflows/sql/wait-rows.ts";

export interface Operations extends CoreOperations {
  agents: AgentOperations;
  archive: ArchiveOperations;
  causes: CauseOperations;
  causeReports: CauseReportOperations;
  drains: DrainOperations;
  encryption: EncryptionOperations;
  failures: FailureOperations;
  health: HealthOperations;
  hooks: OwedHookOperations;
  limits: LimitOperations;
  look: LookOperations;
  schedules: ScheduleOperations;
  stats: StatsOperations;
  testing: TestingOperations;
  transfer: TransferOperations;
  workflows: WorkflowOperations;
}

/** What features add to claims. */
export const claimFeatures: ClaimFeatures = {
  policies: [inOrder],
  claimants: [sessionsOwn],
  othersOf: (steps, policies) => new SteeredClaims(steps, policies),
};

/** The columns that features add to the query for due work. */
export const dueLooks: DueLooks = [slotLook, owedHooksLook, waitsLook, nextWaitLook];

/** The tables of features of which `dbq doctor` names the rows that cannot be read. */
const tableLooks: readonly TableLook[] = [agentLook, ...limitLooks, drainLook, scheduleLook, auditLook];

/** Operations remember how their claims went: each store has its own. */
export function operationsOf(texts: Texts, cycleOf?: CycleOf): Operations {
  const core = coreOperationsOf(texts, { claims: claimFeatures, looks: dueLooks }, cycleOf);
  const transfer = new TransferOperations(texts);
  const schedules = new ScheduleOperations(core);
  return {
    ...core,
    agents: new AgentOperations(texts),
    archive: new ArchiveOperations(texts, transfer, schedules),
    causes: new CauseOperations(texts),
    causeReports: new CauseReportOperations(texts),
    drains: new DrainOperations(core),
    encryption: new EncryptionOperations(texts),
    failures: new FailureOperations(texts),
    health: new HealthOperations(texts),
    hooks: owedHooksOf(core),
    limits: new LimitOperations(texts),
    look: new LookOperations(core),
    schedules,
    stats: new StatsOperations(texts),
    testing: new TestingOperations(texts),
    transfer,
    workflows: workflowsOf(core),
  };
}

export function methodsOver(
  runner: Runner,
  ops: Operations,
): CoreMethods & Omit<FeatureStores, "partitions"> {
  const batches = new Batches(async () => {
    const state = await runner.run(() => ops.transfer.state());
    return state !== undefined && isSource(state.phase);
  });
  return {
    ...coreMethodsOver(runner, ops, batches),
    agents: agentMethods(runner, ops.agents),
    archive: archiveMethods(runner, ops.archive),
    causes: { ...causeMethods(runner, ops.causes), reports: reportMethods(runner, ops.causeReports) },
    drains: drainMethods(runner, ops.drains, batches),
    encryption: encryptionMethods(runner, ops.encryption),
    failures: failureMethods(runner, ops.failures),
    health: healthMethods(runner, ops.health),
    hooks: hookMethods(runner, ops.hooks),
    limits: limitMethods(runner, ops.limits),
    look: lookMethods(runner, ops.look, batches),
    schedules: scheduleMethods(runner, ops.schedules),
    stats: statsMethods(runner, ops.stats),
    testing: testingMethods(runner, ops.testing, ops.tasks),
    transfer: transferMethods(runner, ops.transfer),
    workflows: workflowMethods(runner, ops.workflows),
  };
}

/**
 * What the tables say, for `dbq doctor`: of a move, of rows that cannot be read, of keys.
 * @param isDenied whether an error says that this user may not read a table
 */
export async function factsOf(
  { run }: Pick<Runner, "run">,
  { texts, transfer, encryption }: Operations,
  isDenied: (error: unknown) => boolean = () => false,
): Promise<Diagnosis[]> {
  const unlessDenied = async (ask: () => Promise<Diagnosis[]>, hidden: Diagnosis[]) => {
    try {
      return await ask();
    } catch (error) {
      if (!isDenied(causeOf(error))) throw error;
      return hidden;
    }
  };
  const move = async () => transferFacts(await run(() => transfer.state()));
  const keys = async () => encryptionFacts((await run(() => encryption.fingerprints())).keys());
  return [
    ...(await unlessDenied(move, [{ name: "move", value: "not visible to this user" }])),
    ...(await run(() => unreadableFacts(texts.dialect, tableLooks, isDenied))),
    ...(await unlessDenied(keys, [])),
  ];
}

/** What features write inside of an app's transaction. */
export function writesOver(
  write: <T>(op: () => Program<T>) => MaybePromise<T>,
  ops: Pick<Operations, "schedules" | "workflows">,
): Pick<FullTransaction, "schedules" | "workflows"> {
  return {
    schedules: scheduleWrites(write, ops.schedules),
    workflows: workflowWrites(write, ops.workflows),
  };
}
