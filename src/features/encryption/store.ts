/** A store over another one: it encrypts what is written, and decrypts what is read. Nothing else of a queue knows of that. */
import { mapMaybe } from "../../base/runtime/maybe-promise.ts";
import type {
  AttemptRecord,
  Outcome,
  RequestStore,
  SettleAndClaim,
  SettleAndClaimResult,
} from "../../store.ts";
import type { DrainedOutcome } from "../drain/contract.ts";
import type { FullRequestStore, FullStore, FullTransaction } from "../store.ts";
import { Claims } from "./claims.ts";
import { encryptionFacts, keysFact } from "./contract.ts";
import { encryptedFailures, sealedKindOf } from "./failures.ts";
import { encryptedLook } from "./look.ts";
import { encryptedSchedules, encryptedScheduleWrites, sealSchedule } from "./schedules.ts";
import { errorPlace, type Sealer } from "./sealer.ts";
import { logPlace, openLine } from "./steps.ts";
import { openAll, openOperated, toInsert } from "./tasks.ts";
import { encryptedWorkflows, encryptedWrites } from "./workflows.ts";

export function encryptedStore(inner: FullStore, sealer: Sealer, claims = new Claims(sealer)): FullStore {
  const over = (other: FullStore) => encryptedStore(other, sealer, claims);
  return {
    ...inner,
    ...tasksOver(inner, sealer),
    ...workerOver(inner, sealer, claims),
    ...featuresOver(inner, sealer, claims),
    within: (tx) => transactionOver(inner.within(tx), sealer, claims),
    requests: inner.requests && requestsOver(inner.requests, sealer, claims),
    noting: (note) => over(inner.noting(note)),
    reader: async () => over(await inner.reader()),
    diagnose: async () => [
      ...(await inner.diagnose()).filter(({ name }) => name !== keysFact),
      ...encryptionFacts((await inner.encryption.fingerprints()).keys(), sealer.keyIds),
    ],
  };
}

// ---- tasks -------------------------------------------------------------------------------------

type TaskMethods = Omit<RequestStore, "workers" | "count" | "idle" | "taskStates" | "taskProgress" | "purge">;

function tasksOver(inner: RequestStore, sealer: Sealer): TaskMethods {
  return {
    insert: (tasks, onDuplicate) => inner.insert(toInsert(sealer, tasks), onDuplicate),
    get: async (ids) => openAll(sealer, await inner.get(ids)),
    list: async (filter, limit, after) => openAll(sealer, await inner.list(filter, limit, after)),
    attempts: async (taskId) => (await inner.attempts(taskId)).map((one) => sealer.openAttempt(one)),
    logs: async (asked, limit) => (await inner.logs(asked, limit)).map((line) => openLine(sealer, line)),
    findEnded: async (ids) => {
      const { tasks, gone } = await inner.findEnded(ids);
      return { tasks: openAll(sealer, tasks), gone };
    },
    cancel: async (id, error, alone) => openOperated(sealer, await inner.cancel(id, error, alone)),
    retry: async (id) => openOperated(sealer, await inner.retry(id)),
  };
}

function requestsOver(inner: FullRequestStore, sealer: Sealer, claims: Claims): FullRequestStore {
  return {
    ...inner,
    ...tasksOver(inner, sealer),
    failures: encryptedFailures(inner.failures, sealer),
    look: encryptedLook(inner.look, inner, sealer),
    schedules: encryptedSchedules(inner.schedules, sealer),
    workflows: encryptedWorkflows(inner.workflows, sealer, claims),
  };
}

// ---- workers -----------------------------------------------------------------------------------

type WorkerMethods = Pick<FullStore, "settleAndClaim" | "log" | "rescue" | "rescueOrphans">;

function workerOver(inner: FullStore, sealer: Sealer, claims: Claims): WorkerMethods {
  const crashed = (onCrashes: Parameters<FullStore["rescue"]>[3]): typeof onCrashes =>
    onCrashes &&
    ((crashes) => {
      for (const { record } of crashes) sealer.openTask(record);
      onCrashes(crashes);
    });
  return {
    settleAndClaim: (cycle) => settleAndClaim(inner, sealer, claims, cycle),
    log: (lines, keep) => {
      const sealed = lines.map((line) =>
        claims.seals(line.id)
          ? { ...line, message: sealer.seal(line.message, logPlace(line.id, line.generationId)) }
          : line,
      );
      return inner.log(sealed, keep);
    },
    rescue: (workerId, beat, how, onCrashes, onKept) =>
      inner.rescue(workerId, beat, how, crashed(onCrashes), onKept),
    rescueOrphans: (age, onCrashes, onKept) => inner.rescueOrphans(age, crashed(onCrashes), onKept),
  };
}

async function settleAndClaim(
  inner: FullStore,
  sealer: Sealer,
  claims: Claims,
  cycle: SettleAndClaim,
): Promise<SettleAndClaimResult> {
  const outcomes = cycle.outcomes.map((outcome) => sealOutcome(sealer, claims, outcome));
  const result = await inner.settleAndClaim({ ...cycle, outcomes });
  claims.settled(cycle.outcomes);
  claims.claimed(result.claimed);
  openAll(sealer, result.claimed);
  if (!result.refused) return result;
  // The caller knows its own outcomes.
  const given = new Map(outcomes.map((sealed, i) => [sealed, cycle.outcomes[i] as Outcome]));
  const refused = new Map([...result.refused].map(([one, why]) => [given.get(one) ?? one, why]));
  return { ...result, refused };
}

function sealOutcome(sealer: Sealer, claims: Claims, outcome: Outcome): Outcome {
  const { id, generationId } = outcome;
  if (!claims.seals(id) || (outcome.kind === "completed" && outcome.result === null)) return outcome;
  if (outcome.kind === "completed") return { ...outcome, result: sealer.sealResult(outcome.result, id) };
  if (outcome.kind === "snoozed" || outcome.kind === "interrupted") return outcome;
  return { ...outcome, ...sealedFailure(sealer, outcome, id, generationId, outcome.func) };
}

/** @param func undefined: nobody has said it, and the failure has no kind */
function sealedFailure<A extends AttemptRecord | undefined>(
  sealer: Sealer,
  { error, attempt }: { error: string; attempt: A },
  id: number,
  generationId: number,
  func: string | undefined,
): { error: string; attempt: A; failure: string | null } {
  return {
    error: sealer.sealError(error, errorPlace(id)),
    attempt: (attempt && sealer.sealAttempt(attempt, id, generationId)) as A,
    failure: func === undefined ? null : sealedKindOf(sealer, func, error, attempt),
  };
}

// ---- an app's transaction ----------------------------------------------------------------------

function transactionOver(inner: FullTransaction, sealer: Sealer, claims: Claims): FullTransaction {
  return {
    insert: (tasks, onDuplicate) => inner.insert(toInsert(sealer, tasks), onDuplicate),
    settle: (outcome) => inner.settle(sealOutcome(sealer, claims, outcome)),
    schedules: encryptedScheduleWrites(inner.schedules, sealer),
    workflows: encryptedWrites(inner.workflows, sealer, claims),
  };
}

// ---- features ----------------------------------------------------------------------------------

type FeatureMethods = Pick<
  FullStore,
  "agents" | "drains" | "failures" | "look" | "schedules" | "testing" | "transfer" | "workflows"
>;

function featuresOver(inner: FullStore, sealer: Sealer, claims: Claims): FeatureMethods {
  return {
    agents: agentsOver(inner.agents, sealer, claims),
    drains: drainsOver(inner, sealer, claims),
    failures: encryptedFailures(inner.failures, sealer),
    look: encryptedLook(inner.look, inner, sealer),
    schedules: encryptedSchedules(inner.schedules, sealer),
    testing: {
      ...inner.testing,
      list: (filter, limit, after) =>
        mapMaybe(inner.testing.list(filter, limit, after), (tasks) => openAll(sealer, tasks)),
    },
    transfer: {
      ...inner.transfer,
      writeSchedules: (run, schedules) =>
        inner.transfer.writeSchedules(
          run,
          schedules.map((one) => sealSchedule(sealer, one)),
        ),
    },
    workflows: encryptedWorkflows(inner.workflows, sealer, claims),
  };
}

function agentsOver(inner: FullStore["agents"], sealer: Sealer, claims: Claims): FullStore["agents"] {
  return {
    ...inner,
    claimed: async (workerId) => {
      const claimed = await inner.claimed(workerId);
      claims.claimed(claimed);
      return openAll(sealer, claimed);
    },
    cancelErrors: async (ids) =>
      (await inner.cancelErrors(ids)).map(({ id, error }) => ({
        id,
        error: error && sealer.openError(error, errorPlace(id)),
      })),
  };
}

function drainsOver(inner: FullStore, sealer: Sealer, claims: Claims): FullStore["drains"] {
  const sealed = async (id: number, outcome: DrainedOutcome): Promise<DrainedOutcome> => {
    if (outcome.kind === "completed") return { ...outcome, result: sealer.sealResult(outcome.result, id) };
    const [task] = await inner.get([id]);
    const { generationId = 0, func } = task ?? {};
    return { ...outcome, ...sealedFailure(sealer, outcome, id, generationId, func) };
  };
  return {
    ...inner.drains,
    settle: async (id, outcome, retries) => {
      const written = claims.seals(id) ? await sealed(id, outcome) : outcome;
      return openOperated(sealer, await inner.drains.settle(id, written, retries));
    },
  };
}
