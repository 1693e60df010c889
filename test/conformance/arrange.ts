/** Builders for the cases: tasks, workers, claims and outcomes, with defaults for what a case does not name. */
import assert from "node:assert/strict";
import { type LimitsAsked, limitsAsked } from "../../src/features/limits/contract.ts";
import { type SessionRequest, sessionAsked } from "../../src/features/manager/contract.ts";
import type { FullStore } from "../../src/features/store.ts";
import type {
  AttemptRecord,
  ClaimRequest,
  NewTask,
  NewWorker,
  Outcome,
  WorkerRecord,
} from "../../src/store.ts";
import { type TaskRecord, type TaskStatus, taskStatuses } from "../../src/task.ts";

export const minute = 60_000;

export function newTask(changes: Partial<NewTask> = {}): NewTask {
  return {
    func: "resize",
    args: "[]",
    kwargs: "{}",
    meta: "{}",
    priority: 5,
    queueName: "default",
    maxRetries: 3,
    waitUntil: null,
    delay: null,
    timeout: null,
    expiresIn: null,
    requestId: null,
    uniqueKey: null,
    fillDefaults: 0,
    groupKey: null,
    traceContext: null,
    parentId: null,
    rootId: null,
    ...changes,
  };
}

/** A worker on another host: this process cannot observe whether it is alive. */
export function newWorker(id = "w1", changes: Partial<NewWorker> = {}): NewWorker {
  return {
    id,
    queueNames: ["default"],
    concurrency: 10,
    lease: 15_000,
    host: "elsewhere",
    bootId: null,
    pidNamespace: null,
    pid: 1,
    processStart: null,
    ...changes,
  };
}

/** The row of such a worker, just after its heartbeat. */
export function workerRecord(id = "w1", changes: Partial<WorkerRecord> = {}): WorkerRecord {
  const alive = { startedAt: 0, heartbeatAt: 0, beat: 1, heartbeatAge: 0, sessionLives: null };
  return { ...newWorker(id), ...alive, ...changes };
}

/** What a test says of a claim: `session` is for an agent's, the other parts of features are about limits. */
export type ClaimChanges = Partial<Omit<ClaimRequest, "parts">> & LimitsAsked & { session?: SessionRequest };

export function claimBy(workerId = "w1", changes: ClaimChanges = {}): ClaimRequest {
  const { sharing, freed, held, session, ...request } = changes;
  const limits = Object.entries({ sharing, freed, held }).filter(([, value]) => value !== undefined);
  const parts = {
    ...(limits.length > 0 && limitsAsked.with(Object.fromEntries(limits)).parts),
    ...(session && sessionAsked.with(session).parts),
  };
  return { workerId, queueNames: ["default"], funcs: ["resize"], limit: 10, ...request, parts };
}

/** Inserts tasks and returns their ids; fails when one of them is a duplicate. */
export async function insert(store: FullStore, ...changes: Partial<NewTask>[]): Promise<number[]> {
  const inserted = await store.insert(changes.map(newTask), "report");
  assert.ok(inserted.every(({ duplicate }) => !duplicate));
  return inserted.map(({ id }) => id);
}

/** Inserts one task and returns its id. */
export async function insertOne(store: FullStore, changes: Partial<NewTask> = {}): Promise<number> {
  const [id] = await insert(store, changes);
  assert.ok(id !== undefined);
  return id;
}

export async function recordOf(store: FullStore, id: number): Promise<TaskRecord> {
  const [record] = await store.get([id]);
  assert.ok(record, `there is a task ${id}`);
  return record;
}

/** Claims, and registers the worker first when it is not registered. */
export async function claim(store: FullStore, request: ClaimRequest = claimBy()): Promise<TaskRecord[]> {
  const known = await store.workers();
  if (!known.some(({ id }) => id === request.workerId)) await store.register(newWorker(request.workerId));
  const { claimed, registered } = await store.settleAndClaim({ outcomes: [], claim: request });
  assert.ok(registered);
  return claimed;
}

/** Inserts one task and claims it. The claim must find no other task, so a case makes its running tasks first. */
export async function running(
  store: FullStore,
  changes: Partial<NewTask> = {},
  workerId = "w1",
): Promise<TaskRecord> {
  const id = await insertOne(store, changes);
  const { func, queueName } = newTask(changes);
  const claimed = await claim(store, claimBy(workerId, { funcs: [func], queueNames: [queueName] }));
  assert.deepEqual(
    claimed.map((record) => record.id),
    [id],
  );
  return await recordOf(store, id);
}

export const errorText = JSON.stringify({ name: "Error", message: "no luck" });

export const failedAttempt: AttemptRecord = {
  outcome: "failed",
  errorName: "Error",
  errorMessage: "no luck",
  errorStack: "Error: no luck\n    at resize",
  errorCause: '{"name":"error","message":"no such table: \\u0000"}',
};

export type OutcomeOf<K extends Outcome["kind"]> = Extract<Outcome, { kind: K }>;

/** Builds an outcome of each kind for a task as it was claimed. */
export const outcomes = {
  completed: (task) => ({ ...ownerOf(task), kind: "completed", result: '{"bytes":123}' }),
  failed: (task) => ({ ...ownerOf(task), kind: "failed", error: errorText, attempt: failedAttempt }),
  retry: (task) => ({
    ...ownerOf(task),
    kind: "retry",
    error: errorText,
    attempt: failedAttempt,
    delay: minute,
  }),
  cancelled: (task) => ({
    ...ownerOf(task),
    kind: "cancelled",
    error: errorText,
    attempt: { ...failedAttempt, outcome: "cancelled" },
  }),
  snoozed: (task) => ({ ...ownerOf(task), kind: "snoozed", delay: minute }),
  interrupted: (task) => ({ ...ownerOf(task), kind: "interrupted" }),
} satisfies { [K in Outcome["kind"]]: (task: TaskRecord) => OutcomeOf<K> };

function ownerOf({ id, generationId, workerId, startedAt, parentId }: TaskRecord) {
  return { id, generationId, workerId, startedAt, parentId };
}

/** Settles outcomes without claiming. */
export async function settle(store: FullStore, ...given: Outcome[]): Promise<boolean[]> {
  const { settled, claimed } = await store.settleAndClaim({ outcomes: given, claim: undefined });
  assert.deepEqual(claimed, []);
  return settled;
}

/** A task in this status, brought there by the store's own calls. */
export async function taskIn(
  store: FullStore,
  status: TaskStatus,
  changes: Partial<NewTask> = {},
): Promise<TaskRecord> {
  if (status === "pending") return await recordOf(store, await insertOne(store, changes));
  if (status === "scheduled")
    return await recordOf(store, await insertOne(store, { delay: minute, ...changes }));
  const task = await running(store, changes);
  if (status === "running") return task;
  if (status === "waiting") throw new Error("nothing sets this status yet: write it by SQL");
  assert.deepEqual(await settle(store, outcomes[status](task)), [true]);
  return await recordOf(store, task.id);
}

/** All that a store's own calls bring a task to. Only SQL makes one `waiting`. */
export const reachedStatuses = taskStatuses.filter((status) => status !== "waiting");
export type ReachedStatus = Exclude<TaskStatus, "waiting">;

/** One task in each status that a store sets. */
export async function oneInEach(
  store: FullStore,
  changes: Partial<NewTask> = {},
): Promise<Record<ReachedStatus, TaskRecord>> {
  const made: Partial<Record<ReachedStatus, TaskRecord>> = {};
  // Pending comes last: making the others claims tasks, and a pending one would be claimed too.
  for (const status of [...reachedStatuses].reverse()) made[status] = await taskIn(store, status, changes);
  return made as Record<ReachedStatus, TaskRecord>;
}
