/** What cases begin with: tasks and workers with the values that matter, and defaults for the rest. */
import assert from "node:assert/strict";
import type { AttemptRecord, ClaimRequest, NewTask, NewWorker, Outcome, Store } from "../../src/store.ts";
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
    requestId: null,
    uniqueKey: null,
    ...changes,
  };
}

/** A worker on a host that is not this one, so that nobody here can tell whether it lives. */
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

export function claimBy(workerId = "w1", changes: Partial<ClaimRequest> = {}): ClaimRequest {
  return { workerId, queueNames: ["default"], funcs: ["resize"], limit: 10, ...changes };
}

/** Inserts tasks none of which is a duplicate; their ids. */
export async function insert(store: Store, ...changes: Partial<NewTask>[]): Promise<number[]> {
  const inserted = await store.insert(changes.map(newTask), "report");
  assert.ok(inserted.every(({ duplicate }) => !duplicate));
  return inserted.map(({ id }) => id);
}

/** Inserts one task; its id. */
export async function insertOne(store: Store, changes: Partial<NewTask> = {}): Promise<number> {
  const [id] = await insert(store, changes);
  assert.ok(id !== undefined);
  return id;
}

export async function recordOf(store: Store, id: number): Promise<TaskRecord> {
  const [record] = await store.get([id]);
  assert.ok(record, `there is a task ${id}`);
  return record;
}

/** Registers the worker if need be, and claims. */
export async function claim(store: Store, request: ClaimRequest = claimBy()): Promise<TaskRecord[]> {
  const known = await store.workers();
  if (!known.some(({ id }) => id === request.workerId)) await store.register(newWorker(request.workerId));
  const { claimed, registered } = await store.settleAndClaim({ outcomes: [], claim: request });
  assert.ok(registered);
  return claimed;
}

/** Inserts one task and claims it. Nothing else that it could claim may be pending: a case makes its running tasks first. */
export async function running(
  store: Store,
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
};

export type OutcomeOf<K extends Outcome["kind"]> = Extract<Outcome, { kind: K }>;

/** An outcome of each kind for the task as it was claimed. */
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

function ownerOf({ id, generationId, workerId, startedAt }: TaskRecord) {
  return { id, generationId, workerId, startedAt };
}

/** Settles, and claims nothing. */
export async function settle(store: Store, ...given: Outcome[]): Promise<boolean[]> {
  const { settled, claimed } = await store.settleAndClaim({ outcomes: given, claim: undefined });
  assert.deepEqual(claimed, []);
  return settled;
}

/** A task in this status, reached by the way that tasks go. */
export async function taskIn(
  store: Store,
  status: TaskStatus,
  changes: Partial<NewTask> = {},
): Promise<TaskRecord> {
  if (status === "pending") return await recordOf(store, await insertOne(store, changes));
  if (status === "scheduled")
    return await recordOf(store, await insertOne(store, { delay: minute, ...changes }));
  const task = await running(store, changes);
  if (status === "running") return task;
  assert.deepEqual(await settle(store, outcomes[status](task)), [true]);
  return await recordOf(store, task.id);
}

/** One task in each status. */
export async function oneInEach(
  store: Store,
  changes: Partial<NewTask> = {},
): Promise<Record<TaskStatus, TaskRecord>> {
  const made: Partial<Record<TaskStatus, TaskRecord>> = {};
  // Pending last: what is pending would be claimed on the way of the others.
  for (const status of [...taskStatuses].reverse()) made[status] = await taskIn(store, status, changes);
  return made as Record<TaskStatus, TaskRecord>;
}
