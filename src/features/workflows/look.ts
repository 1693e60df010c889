/** What people and programs see of workflows: one run, and how the members of a group have ended. */
import type { AwaitOptions } from "../../base/options/options.ts";
import { integer, label, readOptions } from "../../base/options/validators.ts";
import { decode } from "../../base/values/codec.ts";
import { errorOf, readable, toTask } from "../../base/values/records.ts";
import { TaskNotFoundError } from "../../errors.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import { isFinished, type Task, type TaskError, type TaskRecord, taskStatuses } from "../../task.ts";
import { internalsOf } from "../queue.ts";
import { groupFunction, mostCountedWaits, type StoredStep, type StoredWait } from "./contract.ts";
import type {
  GetRunOptions,
  GroupCounts,
  Run,
  RunStep,
  RunWait,
  WaitCounts,
  WaitingOptions,
} from "./methods.ts";

const runReaders = { depth: integer(1, 1_000), limit: integer(1, 100_000) };

/** Level by level: so many queries as there are levels, and one for each task's steps. */
export async function getRun(
  queue: CoreQueue,
  id: number,
  options: GetRunOptions | undefined,
): Promise<Run | undefined> {
  const { depth = 10, limit = 1_000 } = readOptions<Required<GetRunOptions>>(options, "getRun", runReaders);
  const { store } = internalsOf(queue);
  const [record] = await store.get([id]);
  if (!record) return undefined;
  const top = emptyRun(record);
  for (let [level, left] = [[top], depth]; level.length > 0; left -= 1) {
    // A task without steps and children has no mark.
    const known = level.filter(({ record: { rootId } }) => rootId !== null);
    await addSteps(queue, known, limit);
    if (left <= 1) {
      for (const one of known)
        one.run.more ||= (await store.workflows.children([one.record.id], 1)).length > 0;
      break;
    }
    level = await addChildren(queue, known, limit);
  }
  return top.run;
}

interface Found {
  record: TaskRecord;
  run: Run;
}

const emptyRun = (record: TaskRecord): Found => ({
  record,
  run: { task: toTask(record), steps: [], waits: [], children: [], more: false },
});

async function addSteps(queue: CoreQueue, level: readonly Found[], limit: number): Promise<void> {
  const { workflows } = internalsOf(queue).store;
  const unfinished = level.filter(({ record: { status } }) => !isFinished(status));
  const ids = unfinished.map(({ record }) => record.id);
  const waits = await workflows.openWaits(ids, limit);
  for (const { record, run } of level) {
    const steps = await workflows.firstSteps(record.id, limit + 1);
    run.steps = steps.slice(0, limit).map(toRunStep);
    run.more = steps.length > limit;
    const own = waits.filter(({ taskId }) => taskId === record.id);
    run.waits = own.slice(0, limit).map(toRunWait);
  }
}

async function addChildren(queue: CoreQueue, level: readonly Found[], limit: number): Promise<Found[]> {
  const { store } = internalsOf(queue);
  const children = await store.workflows.children(
    level.map(({ record }) => record.id),
    limit + 1,
  );
  const found = await getAll(
    queue,
    children.map(({ id }) => id),
  );
  const records = new Map(found.map((record) => [record.id, record]));
  return level.flatMap(({ record, run }) => {
    const own = children.filter(({ parentId }) => parentId === record.id);
    if (own.length > limit) run.more = true;
    const kept = own.slice(0, limit).flatMap(({ id }) => {
      const one = records.get(id);
      return one ? [emptyRun(one)] : [];
    });
    run.children = kept.map((one) => one.run);
    return kept;
  });
}

async function getAll(queue: CoreQueue, ids: readonly number[]): Promise<TaskRecord[]> {
  return ids.length === 0 ? [] : await internalsOf(queue).store.get(ids);
}

const toRunStep = ({ name, value, error, startedAt, endedAt, undo, undoError }: StoredStep): RunStep => ({
  name,
  value: value === null ? undefined : readable(value, (text) => decode(text, "value")),
  error: error === null ? null : (readable(error, (text) => JSON.parse(text)) as TaskError),
  startedAt: startedAt === null ? null : new Date(startedAt),
  endedAt: new Date(endedAt),
  ...(undo && { undo }),
  ...(undoError !== null && { undoError: errorOf(undoError) }),
});

const toRunWait = ({ kind, target, deadline }: StoredWait): RunWait => ({
  kind,
  target,
  deadline: deadline === null ? null : new Date(deadline),
});

export async function countWaits(queue: CoreQueue): Promise<WaitCounts> {
  const { kinds, more } = await internalsOf(queue).store.workflows.countWaits(mostCountedWaits);
  return { kinds, atLeast: more };
}

const waitingReaders = { limit: integer(1, 1_000) };

/** @throws TypeError for a wrong name or option */
export async function listWaiting(
  queue: CoreQueue,
  target: string,
  options: WaitingOptions | undefined,
): Promise<Task[]> {
  const { limit = 50 } = readOptions<WaitingOptions>(options, "listWaiting", waitingReaders);
  const { store } = internalsOf(queue);
  const ids = await store.workflows.waitingFor(label(target, "listWaiting: name"), limit);
  const tasks = (await getAll(queue, ids)).map((record) => toTask(record));
  return tasks.sort((one, other) => one.id - other.id);
}

/** @throws TypeError when the task is no group; as `awaitTaskCompletion` */
export async function awaitGroup(
  queue: CoreQueue,
  id: number,
  options: AwaitOptions | undefined,
): Promise<GroupCounts> {
  const { store } = internalsOf(queue);
  const [group] = await store.get([id]);
  if (!group) throw new TaskNotFoundError(id);
  if (group.func !== groupFunction)
    throw new TypeError(
      `awaitGroup: task ${id} (${group.func}) is no group: pass the id that enqueueGroup gave`,
    );
  await queue.awaitTaskCompletion(id, options);
  const counts = Object.fromEntries(["total", ...taskStatuses].map((name) => [name, 0])) as GroupCounts;
  for (const { status, count } of await store.workflows.groupCounts(id)) {
    counts.total += count;
    if (Object.hasOwn(counts, status)) counts[status] += count;
  }
  return counts;
}
