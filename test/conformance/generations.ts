/**
 * A wrapper that compares the whole table before and after every call of a store. Each change of state adds exactly one
 * to the generation; a task that the call did not report as changed is unchanged; a call that throws has changed
 * nothing.
 */
import assert from "node:assert/strict";
import type { FullStore } from "../../src/features/store.ts";
import type { TaskRecord } from "../../src/task.ts";

type Table = ReadonlyMap<number, TaskRecord>;

/** The changes that a call reported. */
interface Reported {
  added?: readonly number[];
  /** For each task, by how many generations it moved; or the number of tasks that moved by one. */
  moved?: ReadonlyMap<number, number> | number;
  removed?: number;
  /** The call may have written progress, which is not a change of state. */
  noted?: boolean;
  /** The call may have freed unique keys, which is not a change of state. */
  freed?: boolean;
  /** The tasks that took new arguments, which needs no new status. */
  replaced?: readonly number[];
  /** The call may have set `maxRetries`, which is not a change of state. */
  filled?: boolean;
}

/** More tasks than any case has, except for the cases of contention. */
const everything = 1_000;

async function tableOf(store: FullStore): Promise<Table> {
  const records = await store.list({}, everything, undefined);
  assert.ok(records.length < everything, "too many tasks for the checking store: use ctx.bare");
  return new Map(records.map((record) => [record.id, record]));
}

function withoutNotes({ progress, progressNote, updatedAt, ...rest }: TaskRecord) {
  return rest;
}

function withoutDefaults({ maxRetries, fillDefaults, updatedAt, ...rest }: TaskRecord) {
  return rest;
}

function withoutKey({ uniqueUntil, ...rest }: TaskRecord) {
  return rest;
}

function checkMoves(
  before: Table,
  after: Table,
  { moved = 0, noted = false, filled = false, freed = false, replaced = [] }: Reported,
): void {
  let movedInAll = 0;
  for (const [id, was] of before) {
    const is = after.get(id);
    if (is === undefined) continue;
    const steps = is.generationId - was.generationId;
    movedInAll += steps;
    if (typeof moved === "number")
      assert.ok(steps === 0 || steps === 1, `task ${id} moved ${steps} generations`);
    else assert.equal(steps, moved.get(id) ?? 0, `generations that task ${id} moved`);
    if (steps === 1 && !replaced.includes(id))
      assert.notEqual(is.status, was.status, `task ${id}: a new generation must come with a new status`);
    if (steps > 0) continue;
    if (noted) assert.deepEqual(withoutNotes(is), withoutNotes(was));
    else if (freed) assert.deepEqual(withoutKey(is), withoutKey(was));
    else if (filled) assert.deepEqual(withoutDefaults(is), withoutDefaults(was));
    else assert.deepEqual(is, was, `task ${id} changed without a new generation`);
  }
  if (typeof moved === "number") assert.equal(movedInAll, moved, "number of tasks that moved");
}

function check(before: Table, after: Table, account: Reported): void {
  const added = [...after.keys()].filter((id) => !before.has(id)).sort((a, b) => a - b);
  assert.deepEqual(
    added,
    [...(account.added ?? [])].sort((a, b) => a - b),
    "new tasks",
  );
  for (const id of added) assert.equal(after.get(id)?.generationId, 1, "a new task's generation");
  const removed = [...before.keys()].filter((id) => !after.has(id));
  assert.equal(removed.length, account.removed ?? 0, "number of tasks that were deleted");
  checkMoves(before, after, account);
}

/** Wraps a store: each call fails when it changed anything else than it reported. */
export function checked(store: FullStore): FullStore {
  async function account<T>(call: () => Promise<T>, of: (result: T) => Reported = () => ({})): Promise<T> {
    const before = await tableOf(store);
    let result: T;
    try {
      result = await call();
    } catch (error) {
      check(before, await tableOf(store), {});
      throw error;
    }
    check(before, await tableOf(store), of(result));
    return result;
  }
  const one = (result: { record: TaskRecord; changed: boolean } | undefined): Reported => ({
    moved: new Map(result ? [[result.record.id, result.changed ? 1 : 0]] : []),
    freed: true,
  });

  return {
    synchronous: store.synchronous,
    cyclesMayOverlap: () => store.cyclesMayOverlap(),
    agents: store.agents,
    archive: store.archive,
    transfer: store.transfer,
    drains: store.drains,
    look: store.look,
    noting: (note) => checked(store.noting(note)),
    reader: () => store.reader(),
    limits: store.limits,
    schedules: store.schedules,
    stats: store.stats,
    failures: store.failures,
    causes: store.causes,
    encryption: store.encryption,
    health: store.health,
    hooks: store.hooks,
    testing: store.testing,
    workflows: store.workflows,
    partitions: store.partitions,
    within: (tx) => store.within(tx),
    transaction: (fn) => store.transaction(fn),
    isInTransaction: () => store.isInTransaction(),
    insert: (tasks, onDuplicate) =>
      account(
        () => store.insert(tasks, onDuplicate),
        (inserted) => {
          const replaced = inserted.filter((one) => one.replaced).map(({ id }) => id);
          const moved = new Map<number, number>();
          for (const id of replaced) moved.set(id, (moved.get(id) ?? 0) + 1);
          const added = inserted.filter(({ duplicate }) => !duplicate).map(({ id }) => id);
          return { added, moved, replaced, freed: true };
        },
      ),
    get: (ids) => account(() => store.get(ids)),
    list: (filter, limit, after) => account(() => store.list(filter, limit, after)),
    count: (filter) => account(() => store.count(filter)),
    idle: (queueNames) => account(() => store.idle(queueNames)),
    attempts: (taskId) => account(() => store.attempts(taskId)),
    settleAndClaim: (turn) =>
      account(
        () => store.settleAndClaim(turn),
        ({ settled, claimed, expired = [] }) => {
          const moved = new Map<number, number>();
          const add = (id: number) => moved.set(id, (moved.get(id) ?? 0) + 1);
          for (const [i, { id }] of turn.outcomes.entries()) if (settled[i]) add(id);
          for (const { id } of claimed) add(id);
          for (const id of expired) add(id);
          return { moved };
        },
      ),
    findEnded: (ids) => account(() => store.findEnded(ids)),
    heldBy: (workerId) => account(() => store.heldBy(workerId)),
    taskStates: (ids) => account(() => store.taskStates(ids)),
    taskProgress: (ids) => account(() => store.taskProgress(ids)),
    progress: (notes) =>
      account(
        () => store.progress(notes),
        () => ({ noted: true }),
      ),
    log: (lines, keep) => account(() => store.log(lines, keep)),
    logs: (asked, limit) => account(() => store.logs(asked, limit)),
    fillDefaults: (tasks) =>
      account(
        () => store.fillDefaults(tasks),
        () => ({ filled: true }),
      ),
    cancel: (id, error) => account(() => store.cancel(id, error), one),
    retry: (id) => account(() => store.retry(id), one),
    purge: (filter, limit, after, onKept) =>
      account(
        () => store.purge(filter, limit, after, onKept),
        ({ purged }) => ({ removed: purged }),
      ),
    promote: (limit) =>
      account(
        () => store.promote(limit),
        ({ promoted, expired = 0 }) => ({ moved: promoted + expired }),
      ),
    freeKeys: (after, limit) =>
      account(
        () => store.freeKeys(after, limit),
        () => ({ freed: true }),
      ),
    prune: (retention, limit, onKept) =>
      account(
        () => store.prune(retention, limit, onKept),
        (removed) => ({ removed }),
      ),
    register: (worker) => account(() => store.register(worker)),
    resize: (workerId, concurrency) => store.resize(workerId, concurrency),
    unregister: (workerId) =>
      account(
        () => store.unregister(workerId),
        (moved) => ({ moved }),
      ),
    keepAlive: (workerId, every, onLost) => account(() => store.keepAlive(workerId, every, onLost)),
    workers: () => account(() => store.workers()),
    heartbeat: (workerId) => account(() => store.heartbeat(workerId)),
    rescue: (...asked) =>
      account(
        () => store.rescue(...asked),
        (moved) => ({ moved: moved === "busy" ? 0 : moved }),
      ),
    rescueOrphans: (...asked) =>
      account(
        () => store.rescueOrphans(...asked),
        (moved) => ({ moved }),
      ),
    watch: (listener) => store.watch(listener),
    diagnose: () => account(() => store.diagnose()),
    close: () => store.close(),
  };
}
