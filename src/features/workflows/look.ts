/** What people and programs see of workflows: one run, and how the members of a group have ended. */
import type { AwaitOptions } from "../../base/options/options.ts";
import { integer, label, readOptions } from "../../base/options/validators.ts";
import { decode } from "../../base/values/codec.ts";
import { groupBy } from "../../base/values/group-by.ts";
import {
  errorBeginning,
  errorOf,
  type ListedTask,
  readable,
  toListedTask,
  toTask,
} from "../../base/values/records.ts";
import { TaskNotFoundError } from "../../errors.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import { isFinished, type Task, type TaskRecord, taskStatuses } from "../../task.ts";
import { internalsOf, requestsOf } from "../queue.ts";
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

const runReaders = { depth: integer(1, 1_000), limit: integer(1, 100_000), total: integer(1, 100_000) };

/** What one look may still read: a run may have a million tasks. */
interface Budget {
  readonly limit: number;
  left: number;
  readonly characters: number | undefined;
}

/**
 * Level by level: so many queries as there are levels, and some for each task with steps or children.
 * @param characters of each text of a task or step, from its begin @default all
 */
export async function getRun(
  queue: CoreQueue,
  id: number,
  options: GetRunOptions | undefined,
  characters?: number,
): Promise<Run | undefined> {
  const read = readOptions<Required<GetRunOptions>>(options, "getRun", runReaders);
  const { depth = 10, limit = 1_000, total = 100_000 } = read;
  const [top] = await runsOf(queue, [id], characters);
  if (!top) return undefined;
  const budget: Budget = { limit, left: total, characters };
  for (let [level, levels] = [[top], depth]; level.length > 0; levels -= 1) {
    // A task without steps and children has no mark.
    const known = level.filter(({ record: { rootId } }) => rootId !== null);
    await addSteps(queue, known, budget);
    level = await addChildren(queue, known, levels > 1 ? budget : { ...budget, limit: 0, left: 0 });
  }
  return top.run;
}

interface Found {
  record: TaskRecord;
  run: Run;
}

/** Those that are there, in any order, without their steps and children. */
async function runsOf(queue: CoreQueue, ids: readonly number[], characters?: number): Promise<Found[]> {
  if (ids.length === 0) return [];
  const store = requestsOf(queue);
  const runOf = (task: ListedTask): Run => ({ task, steps: [], waits: [], children: [], more: false });
  if (characters === undefined)
    return (await store.get(ids)).map((record) => ({ record, run: runOf(toTask(record)) }));
  const found = await store.look.get(ids, characters);
  return found.map((record) => ({ record, run: runOf(toListedTask(record)) }));
}

/** The first of these that may be read. */
function take<T>(list: readonly T[], budget: Budget): readonly T[] {
  const taken = list.slice(0, Math.min(budget.limit, budget.left));
  budget.left -= taken.length;
  return taken;
}

/** As many as may be read, and one more, which tells whether there is more. */
const asked = ({ limit, left }: Budget): number => Math.min(limit, left) + 1;

function leaveOut(run: Run, what: "steps" | "children", count: number): void {
  run.more = true;
  run.leftOut = { steps: 0, children: 0, ...run.leftOut, [what]: count };
}

async function addSteps(queue: CoreQueue, level: readonly Found[], budget: Budget): Promise<void> {
  const { workflows } = requestsOf(queue);
  const { limit } = budget;
  const unfinished = level.filter(({ record: { status } }) => !isFinished(status));
  const ids = unfinished.map(({ record }) => record.id);
  const waits = groupBy(await workflows.openWaits(ids, limit + 1), ({ taskId }) => taskId);
  for (const { record, run } of level) {
    const steps = await workflows.firstSteps(record.id, asked(budget), budget.characters);
    const taken = take(steps, budget);
    run.steps = taken.map(toRunStep);
    if (steps.length > taken.length)
      leaveOut(run, "steps", (await workflows.countSteps(record.id)) - taken.length);
    const own = waits.get(record.id) ?? [];
    run.waits = own.slice(0, limit).map(toRunWait);
    run.more ||= own.length > limit;
  }
}

/** @returns the children that were added */
async function addChildren(queue: CoreQueue, level: readonly Found[], budget: Budget): Promise<Found[]> {
  const { workflows } = requestsOf(queue);
  const ofParents: { run: Run; ids: readonly number[] }[] = [];
  for (const { record, run } of level) {
    const children = await workflows.children(record.id, asked(budget));
    const ids = take(children, budget);
    if (children.length > ids.length)
      leaveOut(run, "children", (await countOf(queue, record.id)) - ids.length);
    ofParents.push({ run, ids });
  }
  const children = ofParents.flatMap(({ ids }) => ids);
  const byId = new Map((await runsOf(queue, children, budget.characters)).map((one) => [one.record.id, one]));
  return ofParents.flatMap(({ run, ids }) => {
    const kept = ids.flatMap((id) => byId.get(id) ?? []);
    run.children = kept.map((one) => one.run);
    return kept;
  });
}

async function countOf(queue: CoreQueue, parentId: number): Promise<number> {
  const counts = await requestsOf(queue).workflows.groupCounts(parentId);
  return counts.reduce((sum, { count }) => sum + count, 0);
}

async function getAll(queue: CoreQueue, ids: readonly number[]): Promise<TaskRecord[]> {
  return ids.length === 0 ? [] : await requestsOf(queue).get(ids);
}

const toRunStep = ({ name, startedAt, endedAt, undo, cut = {}, ...texts }: StoredStep): RunStep => ({
  name,
  ...outcomeOf(texts, cut),
  startedAt: startedAt === null ? null : new Date(startedAt),
  endedAt: new Date(endedAt),
  ...(undo && { undo }),
  ...(cut.value !== undefined && { cut: { value: cut.value } }),
});

/** A text of which only the beginning is there is no JSON. */
function outcomeOf(
  { value, error, undoError }: Pick<StoredStep, "value" | "error" | "undoError">,
  cut: NonNullable<StoredStep["cut"]>,
): Pick<RunStep, "value" | "error" | "undoError"> {
  const valueIn = (text: string) =>
    cut.value === undefined ? readable(text, (json) => decode(json, "value")) : text;
  const errorIn = (text: string, bytes: number | undefined) =>
    bytes === undefined ? errorOf(text) : errorBeginning(text);
  return {
    value: value === null ? undefined : valueIn(value),
    error: error === null ? null : errorIn(error, cut.error),
    ...(undoError !== null && { undoError: errorIn(undoError, cut.undoError) }),
  };
}

const toRunWait = ({ kind, target, deadline }: StoredWait): RunWait => ({
  kind,
  target,
  deadline: deadline === null ? null : new Date(deadline),
});

export async function countWaits(queue: CoreQueue): Promise<WaitCounts> {
  const { kinds, more } = await requestsOf(queue).workflows.countWaits(mostCountedWaits);
  return { kinds, atLeast: more };
}

const waitingReaders = { limit: integer(1, 1_000), after: integer(0, Number.MAX_SAFE_INTEGER) };

/** @throws TypeError for a wrong name or option */
export async function listWaiting(
  queue: CoreQueue,
  target: string,
  options: WaitingOptions | undefined,
): Promise<Task[]> {
  const { limit = 50, after } = readOptions<WaitingOptions>(options, "listWaiting", waitingReaders);
  const ids = await requestsOf(queue).workflows.waitingFor(label(target, "listWaiting: name"), limit, after);
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
