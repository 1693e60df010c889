/** What the end of a task does to those that wait for it: its parent, its group, the next one of its chain. */
import { sql } from "drizzle-orm/sql/sql";
import { isEnding } from "../../../base/values/ending.ts";
import { groupBy } from "../../../base/values/group-by.ts";
import { withArgument } from "../../../base/values/sealed.ts";
import { listed } from "../../../stores/sql/columns.ts";
import type { Dialect, Row } from "../../../stores/sql/dialect.ts";
import type { Ending } from "../../../stores/sql/endings.ts";
import type { CoreOperations } from "../../../stores/sql/operations.ts";
import { changes, type Program, rewindCursors, rows } from "../../../stores/sql/program.ts";
import { int, taskColumns, toTaskRecord } from "../../../stores/sql/rows.ts";
import { type Statement, stateChange, still } from "../../../stores/sql/statements.ts";
import { cancelled, type TaskOperations } from "../../../stores/sql/tasks.ts";
import type { Transitions } from "../../../stores/sql/transitions.ts";
import { isFinished, type TaskRecord, type TaskStatus } from "../../../task.ts";
import { groupFunction } from "../contract.ts";
import type { EventOperations } from "./events.ts";
import { type ChildRange, rangeIn } from "./fan-in.ts";
import { afterGroup, chained, cutsAtFailure } from "./modes.ts";
import type { TaskTree } from "./task-tree.ts";
import type { WaitRow, WaitRows } from "./wait-rows.ts";

function endStatements(d: Dialect) {
  const task = listed(d, "dbq_tasks", taskColumns, { givenKey: true });
  return {
    /** Those of these tasks that have a parent. Written so that the planner reads no index but that of the ids. */
    children: (p) => sql`
      select id, parent_id, status from ${d.tasksWithIds(p.ids)} and coalesce(parent_id, 0) <> 0`,

    unstarted: (p) => sql`
      select ${task} from ${d.tasks} where parent_id = ${d.only(p.parentId)} and status in ('pending', 'scheduled', 'waiting') ${d.skipLocked}`,

    /** A task that has not run yet: it may have a time of its own. */
    release: stateChange(d)(
      (
        p,
      ) => sql`status = case when wait_until > ${d.now(p)} then 'scheduled' else 'pending' end, args = ${d.json(p.args)},
        updated_at = ${d.now(p)}`,
      still("waiting"),
    ),
  } satisfies Record<string, Statement>;
}

/** A child that has ended or is gone. `parentId`: undefined if it is not known. */
type End = Pick<Ending, "id" | "kind" | "parentId"> & { result?: string | null; gone?: boolean };

export class ChildEnds {
  readonly #s: ReturnType<typeof endStatements>;
  readonly #transitions: Transitions;
  readonly #tasks: TaskOperations;
  readonly #tree: TaskTree;
  readonly #waits: WaitRows;
  readonly #events: EventOperations;

  constructor(
    { texts, transitions, tasks }: CoreOperations,
    tree: TaskTree,
    waits: WaitRows,
    events: EventOperations,
  ) {
    this.#s = endStatements(texts.dialect);
    this.#transitions = transitions;
    this.#tasks = tasks;
    this.#tree = tree;
    this.#waits = waits;
    this.#events = events;
  }

  /** Tasks have ended that have a parent, or may have one. */
  *onEnd(endings: readonly Ending[]): Program<void> {
    const unknown = endings.filter(({ parentId }) => parentId === undefined).map(({ id }) => id);
    const found = unknown.length === 0 ? [] : yield* rows(this.#s.children, { ids: JSON.stringify(unknown) });
    const parents = new Map(found.map(([id, parentId]) => [int(id), int(parentId)]));
    const parentOf = ({ id, parentId }: Ending) => parentId ?? parents.get(id);
    yield* this.#tellParents(endings.map((ending): End => ({ ...ending, parentId: parentOf(ending) })));
  }

  /**
   * Deletes tasks, and tells those that wait for one which has not ended. Upkeep finds that a child is gone if a wait names it; of
   * very many children a wait names one, so nothing else would tell of the others.
   * @param ids as JSON
   */
  *removing(ids: string, remove: () => Program<number>): Program<number> {
    const found = yield* rows(this.#s.children, { ids });
    const removed = yield* remove();
    const gone = ([id, parentId]: Row): End => ({
      ...{ id: int(id), parentId: int(parentId), kind: "failed", gone: true },
    });
    const unfinished = found.filter(([, , status]) => !isFinished(status as TaskStatus));
    yield* this.#tellParents(unfinished.map(gone));
    return removed;
  }

  *#tellParents(children: readonly End[]): Program<void> {
    const parents = new Map<number, number>();
    for (const { id, parentId } of children) if (parentId) parents.set(id, parentId);
    if (parents.size === 0) return;
    // Before the look at their waits: a parent that is about to wait has written them when this lock is free.
    yield* this.#tree.lockOnly(parents.values());
    const over = (yield* this.#waits.forTargets(parents.keys())).filter(
      (one) => one.kind === "child" && parents.get(Number(one.target)) === one.taskId,
    );
    const ends = new Map(children.map((end) => [end.id, end]));
    const named = new Set(over.filter(({ mode }) => !rangeIn(mode)).map(({ target }) => int(target)));
    // What has a wait of its own is not among those for which one wait stands: so a task with thousands of waits is not read.
    const cutting = [...ends.values()].flatMap(({ id, kind, parentId }) =>
      kind !== "completed" && parentId && !named.has(id) ? [parentId] : [],
    );
    if (cutting.length > 0) over.push(...(yield* this.#waits.rangesOf(cutting)));
    if (over.length === 0) return;
    // The end of one of many children seldom ends a wait. The rows of the waiting tasks are read only if it may.
    yield* this.#endWaits(over, yield* this.#tree.lock(over.map(({ taskId }) => taskId)), ends);
  }

  *repair(after: number, limit: number): Program<{ woken: number; last: number | undefined }> {
    const waits = yield* this.#waits.after(after, limit);
    const last = waits.at(-1)?.id;
    if (last === undefined) return { woken: 0, last };
    const children = yield* this.#repairChildWaits(waits.filter(({ kind }) => kind === "child"));
    const written = yield* this.#waits.writtenEvents(after, last);
    for (const name of written) yield* this.#events.tellOf(name);
    return { woken: children + written.size, last: waits.length < limit ? undefined : last };
  }

  *#repairChildWaits(waits: readonly WaitRow[]): Program<number> {
    if (waits.length === 0) return 0;
    const children = [...new Set(waits.map(({ target }) => int(target)))];
    const { tasks, gone } = yield* this.#tasks.findEnded(children);
    const ends = new Map<number, End>([
      ...gone.map((id) => [id, { id, kind: "failed", gone: true }] as const),
      ...tasks.map((task) => [task.id, { ...task, kind: task.status as End["kind"] }] as const),
    ]);
    const over = waits.filter(({ target }) => ends.has(int(target)));
    if (over.length === 0) return 0;
    yield* this.#endWaits(over, yield* this.#tree.lock(over.map(({ taskId }) => taskId)), ends);
    return over.length;
  }

  /** @param tasks those that wait, whose rows are locked. @param ends how the children have ended, by their ids */
  *#endWaits(
    over: readonly WaitRow[],
    tasks: ReadonlyMap<number, TaskRecord>,
    ends: ReadonlyMap<number, End>,
  ): Program<void> {
    if (over.length === 0) return;
    const ofOne = over.filter(({ mode }) => !rangeIn(mode));
    yield* this.#waits.remove(ofOne);
    const woken: TaskRecord[] = [];
    const byTask = groupBy(over, ({ taskId }) => taskId);
    for (const task of tasks.values()) {
      const all = byTask.get(task.id) ?? [];
      const own = all.filter(({ mode }) => !rangeIn(mode));
      let wakes = own.length > 0 && (yield* this.#isOver(task, own, ends));
      const ofMany = new Map(all.filter(({ mode }) => rangeIn(mode)).map((one) => [one.id, one]));
      for (const one of ofMany.values()) wakes = (yield* this.#isRangeOver(task, one, ends)) || wakes;
      if (wakes) woken.push(task);
    }
    yield* this.#tree.wake(woken);
  }

  /** Whether the end of one of many children wakes the task. If not, and the wait has named that one, it names another. */
  *#isRangeOver(task: TaskRecord, wait: WaitRow, ends: ReadonlyMap<number, End>): Program<boolean> {
    const { mode, first, last } = rangeIn(wait.mode) as ChildRange;
    const named = Number(wait.target);
    const failed = [...ends.values()].find(
      ({ id, kind, parentId }) =>
        kind !== "completed" && (id === named || (parentId === task.id && first <= id && id <= last)),
    );
    if (!failed || !cutsAtFailure(mode)) {
      if (!ends.has(named)) return false;
      if (yield* this.#waits.moveOn(wait, { first, last: named })) return false;
    }
    yield* this.#waits.remove([wait]);
    return yield* this.#isModeOver(task, mode, failed);
  }

  /** Whether the task is woken by waits of this mode that are over. Ends a group. @param failed a child that has not completed */
  *#isModeOver(task: TaskRecord, mode: string, failed: End | undefined): Program<boolean> {
    const cuts = failed !== undefined && cutsAtFailure(mode);
    if (cuts) yield* this.#waits.removeMode(task.id, mode);
    else if (yield* this.#waits.hasOthers(task.id, mode)) return false;
    if (task.func !== groupFunction) return true;
    yield* this.endGroup(task, cuts ? failed : undefined);
    return false;
  }

  /** Whether these waits, which are over, wake the task. Ends groups, and lets a task go that waits for its start. */
  *#isOver(task: TaskRecord, over: readonly WaitRow[], ends: ReadonlyMap<number, End>): Program<boolean> {
    let wakes = false;
    for (const mode of new Set(over.map((one) => one.mode))) {
      const some = over.filter((one) => one.mode === mode).map(({ target }) => ends.get(int(target)) as End);
      const failed = some.find(({ kind }) => kind !== "completed");
      if (mode === null) wakes = true;
      else if (mode === chained || mode === afterGroup) yield* this.#follow(task, some[0] as End, mode);
      else if (yield* this.#isModeOver(task, mode, failed)) wakes = true;
    }
    return wakes;
  }

  /** Lets a task go that has waited for this end, or cancels it. */
  *#follow(task: TaskRecord, end: End, mode: string): Program<void> {
    if (task.status !== "waiting") return;
    if (end.kind !== "completed") {
      yield* this.#cancelChain(task, end);
      return;
    }
    const { id, generationId } = task;
    const args = mode === chained ? withArgument(task.args, end.result ?? "null") : task.args;
    yield* changes(this.#s.release, [{ id, generationId, args }]);
    yield* rewindCursors();
  }

  /** Cancels the rest of a chain at once: if each link cancelled the next one, a long chain would be too deep a recursion. */
  *#cancelChain(first: TaskRecord, end: End): Program<void> {
    const links = [first];
    for (let next = yield* this.#linkAfter(first); next; next = yield* this.#linkAfter(next))
      links.push(next);
    const ends = [end, ...links.map(({ id }): End => ({ id, kind: "cancelled" }))];
    const open = links.map((task, i) => ({ task, error: because(ends[i] as End) }));
    yield* this.#transitions.endTasks(
      open.filter(({ task }) => !isEnding(task)).map(({ task, error }) => cancelled(task, error)),
    );
  }

  /** The link of a chain that waits for this one; undefined: none does. */
  *#linkAfter({ id, parentId }: TaskRecord): Program<TaskRecord | undefined> {
    if (parentId === null) return undefined;
    const waits = yield* this.#waits.forTargets([id]);
    if (!waits.some(({ kind, taskId, mode }) => kind === "child" && taskId === parentId && mode === chained))
      return undefined;
    const next = (yield* this.#tree.lock([parentId])).get(parentId);
    return next?.status === "waiting" ? next : undefined;
  }

  /** @param failed a member that has not completed; undefined: all have ended */
  *endGroup(group: TaskRecord, failed: End | undefined): Program<void> {
    if (group.status !== "waiting") return;
    if (!failed) {
      yield* this.#transitions.endTasks([{ ...group, kind: "completed", result: null }]);
      return;
    }
    const error = because(failed);
    yield* this.#cancel([group], error);
    const unstarted = (yield* rows(this.#s.unstarted, { parentId: group.id })).map(toTaskRecord);
    yield* this.#cancel(unstarted, error);
    for (const task of unstarted) if (task.rootId !== null) yield* this.cancelTree(task, error);
  }

  *#cancel(tasks: readonly TaskRecord[], error: string): Program<void> {
    if (tasks.length === 0) return;
    yield* this.#transitions.endTasks(
      tasks.filter((task) => !isEnding(task)).map((task) => cancelled(task, error)),
    );
  }

  /** Cancels the unfinished descendants of a task. */
  *cancelTree(top: Pick<TaskRecord, "id">, error: string): Program<void> {
    for (let parents = [top.id]; parents.length > 0; ) {
      const found = yield* this.#tree.childrenOf(parents);
      const unfinished = found.filter(isUnfinished).map(({ id }) => id);
      if (unfinished.length > 0)
        yield* this.#cancel([...(yield* this.#tree.lock(unfinished)).values()].filter(isUnfinished), error);
      parents = found.map(({ id }) => id);
    }
  }
}

const isUnfinished = ({ status }: TaskRecord): boolean => !isFinished(status);

function because({ id, kind, gone }: End): string {
  const how = gone ? "was deleted" : kind === "cancelled" ? "was cancelled" : "has failed";
  const message = `task ${id}, which it waited for, ${how}`;
  return JSON.stringify({ name: "TaskCancelled", message });
}
