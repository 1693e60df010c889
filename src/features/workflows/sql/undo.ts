/**
 * The operations that undo the steps of a task before it fails or is cancelled, each written once for all databases.
 * The docstrings of `WorkflowStore` say what each of them promises.
 *
 * Such a task is `scheduled` for a far future, so that no claim, limit or pause is about it, and has a row in `dbq_waits` of the
 * kind `undo` until it ends. The row's `target` is the task's function, its `mode` counts the attempts to undo, and its `deadline` is
 * when the next one may begin; null while one runs. Its `name` says whose attempt has to stop before.
 */
import { sql } from "drizzle-orm/sql/sql";
import {
  type DecidedStatus,
  endingIn,
  isEnding,
  withEnding,
  withoutEnding,
} from "../../../base/values/ending.ts";
import type { Operated, TaskVersion } from "../../../store.ts";
import type { Dialect, Params, Row } from "../../../stores/sql/dialect.ts";
import type { Ending, Release } from "../../../stores/sql/endings.ts";
import { changes, count, type Program, rows } from "../../../stores/sql/program.ts";
import { int, toClaimed } from "../../../stores/sql/rows.ts";
import { itemColumns, itemOf, type Statement, stateChange } from "../../../stores/sql/statements.ts";
import type { TaskOperations } from "../../../stores/sql/tasks.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import { isFinished, type TaskRecord } from "../../../task.ts";
import type { UndoState } from "../contract.ts";
import type { TaskTree } from "./task-tree.ts";

/** The year 9999: later than any time that a task is scheduled for, and every database has it. */
const never = Date.UTC(9999, 0, 1);

/** Milliseconds until an attempt to undo that has failed as a whole is repeated. */
const afterFailure = 5_000;

/** Milliseconds until the next look at a task whose undo still has to wait. */
const untilNextLook = 500;

/** The name of the row in `dbq_waits` when no attempt has to stop before. */
const free = "undo";

const heldBy = ({ generationId, workerId }: TaskVersion & { workerId: string | null }) =>
  `${free}:${generationId}:${workerId ?? ""}`;

const workerIn = (name: string): string | undefined =>
  name === free ? undefined : name.split(":").slice(2).join(":");

interface UndoRow {
  taskId: number;
  name: string;
  runs: number;
  isDue: boolean;
}

const toUndoRow = ([taskId, name, runs, due]: Row): UndoRow => ({
  taskId: int(taskId),
  name: String(name),
  runs: Number(runs),
  isDue: Number(due) === 1,
});

function readStatements(d: Dialect) {
  const pair = itemColumns(["queueName", "func"]);
  const isDue = (p: Params) => sql`deadline is not null and deadline <= ${d.now(p)}`;
  return {
    /** The tasks that have steps which are to be undone. */
    wanted: (p) => sql`
      select distinct task_id from dbq_steps where ${d.among("task_id", p.ids)} and undo_state = 'wanted'`,

    undoing: (p) => sql`
      select task_id, name, mode, case when ${isDue(p)} then 1 else 0 end as is_due from dbq_waits
      where ${d.among("task_id", p.ids)} and kind = 'undo' ${d.locked}`,

    functions: (p) => sql`
      select distinct dbq_tasks.queue_name, dbq_tasks.func from dbq_waits ${d.joinEach} dbq_tasks
      where kind = 'undo' and ${isDue(p)} and dbq_tasks.id = dbq_waits.task_id`,

    undoable: (p) => sql`
      select dbq_tasks.id from ${d.objects(p.pairs, pair)} ${d.joinEach} dbq_waits ${d.joinEach} dbq_tasks
      where target = ${d.nameOf(itemOf("func"))} and kind = 'undo' and ${isDue(p)} and dbq_tasks.id = dbq_waits.task_id
        and dbq_tasks.queue_name = ${d.nameOf(itemOf("queueName"))}
      order by dbq_waits.deadline ${d.atMost(p.limit)}`,

    workerIds: () => sql`select id from dbq_workers`,
  } satisfies Record<string, Statement>;
}

function writeStatements(d: Dialect) {
  const change = stateChange(d);
  return {
    /** Keeps the task from ending, and hides it from claims. */
    hold: change(
      (
        p,
      ) => sql`status = 'scheduled', error = coalesce(${d.json(p.error)}, error), failure = null, result = null, finished_at = null,
        wait_until = ${d.time(d.integer(p.until))}, started_at = coalesce(started_at, ${d.now(p)}),
        uses = null, put_off_by = null, updated_at = ${d.now(p)}`,
    ),

    take: change(
      (
        p,
      ) => sql`status = 'running', worker_id = ${p.workerId}, started_at = ${d.time(p.startedAt)}, wait_until = null,
        progress = null, progress_note = null, updated_at = ${d.time(p.startedAt)}`,
    ),

    insertUndo: (p) => sql`
      insert into dbq_waits (task_id, name, kind, target, deadline, mode)
      values (${d.integer(p.id)}, ${p.name}, 'undo', ${p.func}, ${d.now(p)}, ${p.runs})`,

    /** Without a delay, no attempt may begin. */
    changeUndo: (p) => sql`
      update dbq_waits set name = ${p.name}, mode = ${p.runs}, deadline = ${d.plus(d.now(p), d.integer(p.delay))}
      where task_id = ${p.id} and kind = 'undo'`,

    postpone: (p) => sql`
      update dbq_waits set deadline = ${d.plus(d.now(p), d.integer(p.delay))} where task_id = ${p.id} and kind = 'undo'`,

    letUndo: (p) => sql`
      update dbq_waits set name = ${sql.raw(`'${free}'`)}, deadline = ${d.now(p)} where task_id = ${p.id} and ${d.same("name", p.name)} and kind = 'undo'`,

    deleteUndo: (p) => sql`delete from dbq_waits where ${d.among("task_id", p.ids)} and kind = 'undo'`,

    deleteOthers: (p) => sql`delete from dbq_waits where ${d.among("task_id", p.ids)} and kind <> 'undo'`,

    storeUndo: (p) => sql`
      update dbq_steps set undo_state = ${p.state}, undo_error = ${d.json(p.error)}
      where task_id = ${p.id} and ${d.same("name", p.name)}`,

    undoAgain: (p) => sql`
      update dbq_steps set undo_state = 'wanted', undo_error = null
      where task_id = ${p.id} and undo_state in ('failed', 'unknown')`,
  } satisfies Record<string, Statement>;
}

const statementsOf = (d: Dialect) => ({
  ...readStatements(d),
  ...writeStatements(d),
});

const json = (ids: readonly number[]): string => JSON.stringify(ids);

export class UndoOperations {
  readonly #s: ReturnType<typeof statementsOf>;
  readonly #texts: Texts;
  readonly #tasks: TaskOperations;
  readonly #tree: TaskTree;

  constructor(texts: Texts, tasks: TaskOperations, tree: TaskTree) {
    this.#s = statementsOf(texts.dialect);
    this.#texts = texts;
    this.#tasks = tasks;
    this.#tree = tree;
  }

  // ---- the end is held up --------------------------------------------------------------------

  /** `HoldUp`: holds up the ends of tasks with steps that are to be undone, until one says that it is over. */
  *holdUp(tasks: readonly (Ending | Release)[]): Program<Map<Ending | Release, boolean>> {
    // Before the look at their steps: an attempt that stores one has this lock.
    const locked = yield* this.#tree.lock(tasks.map(({ id }) => id));
    const ids = json(tasks.map(({ id }) => id));
    const wanted = new Set((yield* rows(this.#s.wanted, { ids })).map(([id]) => int(id)));
    const isOne = tasks.some(({ ending }) => ending === "goes on" || ending === "is over");
    const undoing = wanted.size > 0 || isOne ? yield* this.#undoing(ids) : new Map<number, UndoRow>();
    const held = new Map<Ending | Release, boolean>();
    for (const task of tasks)
      if (task.ending === "is over") yield* this.#forget(task);
      else if (task.ending === "goes on" || wanted.has(task.id) || undoing.has(task.id))
        held.set(task, yield* this.#hold(task, locked.get(task.id)?.func, undoing.get(task.id)));
    return held;
  }

  *#undoing(ids: string): Program<Map<number, UndoRow>> {
    const found = (yield* rows(this.#s.undoing, { ids })).map(toUndoRow);
    return new Map(found.map((row) => [row.taskId, row]));
  }

  /** In the transaction in which the task ends, unless that is not at this generation any more. */
  *#forget(task: TaskVersion): Program<void> {
    if (yield* this.#tree.lockRunning(task))
      yield* count(this.#s.deleteUndo, { ids: json([task.id]) }, false);
  }

  /** False: the task is not at this generation any more. */
  *#hold(task: Ending | Release, func: string | undefined, undoing: UndoRow | undefined): Program<boolean> {
    const { id, generationId } = task;
    const isDecided = task.ending === "goes on" || undoing !== undefined;
    const error = isDecided ? null : errorOf(task);
    const [held] = yield* changes(this.#s.hold, [{ id, generationId, error, until: never }]);
    if (!held) return false;
    yield* count(this.#s.deleteOthers, { ids: json([id]) }, false);
    const name = endOf(task)?.stillRuns ? heldBy(task) : free;
    if (!undoing) yield* count(this.#s.insertUndo, { id, name, func, runs: "0" }, false);
    else {
      // Only an attempt that was cut off counts. One that its worker gave back has begun for nothing.
      const end = endOf(task);
      const runs = String(end ? undoing.runs : Math.max(0, undoing.runs - 1));
      const delay = end && end.attempt?.outcome !== "crashed" ? afterFailure : 0;
      yield* count(this.#s.changeUndo, { id, name, runs, delay }, false);
    }
    return true;
  }

  /** Whether an attempt of this generation may still store a step: the end of its task was decided while it ran. */
  *isStopping({ id, generationId }: TaskVersion): Program<boolean> {
    const task = (yield* this.#tree.lock([id])).get(id);
    if (task?.generationId !== generationId + 1 || !isEnding(task)) return false;
    const row = (yield* this.#undoing(json([id]))).get(id);
    return row?.name.startsWith(`${free}:${generationId}:`) === true;
  }

  *letUndo(task: TaskVersion & { workerId: string | null }): Program<boolean> {
    return (yield* count(this.#s.letUndo, { id: task.id, name: heldBy(task) })) > 0;
  }

  // ---- the steps are undone ------------------------------------------------------------------

  *hasUndos(taskId: number): Program<boolean> {
    return (yield* rows(this.#s.wanted, { ids: json([taskId]) })).length > 0;
  }

  *runs(taskId: number): Program<number> {
    return (yield* this.#undoing(json([taskId]))).get(taskId)?.runs ?? 0;
  }

  *undoable(runs: (queueName: string, func: string) => boolean, limit: number): Program<number[]> {
    const functions = (yield* rows(this.#s.functions, {})).map(([queueName, func]) => ({
      ...{ queueName: String(queueName), func: String(func) },
    }));
    const known = functions.filter(({ queueName, func }) => runs(queueName, func));
    if (known.length === 0) return [];
    return (yield* rows(this.#s.undoable, { pairs: JSON.stringify(known), limit })).map(([id]) => int(id));
  }

  /** Whether no worker of this id is registered. */
  *#isGone(): Program<(workerId: string | undefined) => boolean> {
    const ids = new Set((yield* rows(this.#s.workerIds, {})).map(([id]) => String(id)));
    return (workerId) => workerId === undefined || !ids.has(workerId);
  }

  *take(taskIds: readonly number[], workerId: string, most: number): Program<TaskRecord[]> {
    const [worker] = yield* rows(this.#texts.statements.lockWorker, { workerId });
    if (!worker) return [];
    const tasks = yield* this.#tree.lock(taskIds);
    const undoing = yield* this.#undoing(json(taskIds));
    const isHeld = [...undoing.values()].some(({ name }) => name !== free);
    const isGone = isHeld ? yield* this.#isGone() : () => true;
    const taken: TaskRecord[] = [];
    for (const task of tasks.values()) {
      const row = undoing.get(task.id);
      if (taken.length === most || !row?.isDue || !isEnding(task) || task.status === "running") continue;
      if (!isGone(workerIn(row.name)) || (yield* this.#hasUndoingBelow(task))) {
        // Behind the others, so that it hides none of them.
        yield* count(this.#s.postpone, { id: task.id, delay: untilNextLook }, false);
        continue;
      }
      const claim = { id: task.id, generationId: task.generationId, workerId, startedAt: Number(worker[0]) };
      if ((yield* changes(this.#s.take, [claim]))[0] !== true) continue;
      yield* count(
        this.#s.changeUndo,
        { id: task.id, name: free, runs: String(row.runs + 1), delay: null },
        false,
      );
      taken.push(toClaimed({ ...task, waitUntil: null }, task.generationId + 1, workerId, claim.startedAt));
    }
    const left = taskIds.filter((id) => isFinished(tasks.get(id)?.status ?? "completed"));
    if (left.length > 0) yield* count(this.#s.deleteUndo, { ids: json(left) }, false);
    return taken;
  }

  /** Whether a descendant that was cancelled with the task has not undone its steps yet. */
  *#hasUndoingBelow(top: TaskRecord): Program<boolean> {
    if (endingIn(top.error) !== "cancelled") return false;
    for (let parents = [top.id]; parents.length > 0; ) {
      const found = yield* this.#tree.childrenOf(parents);
      if (found.some(isEnding)) return true;
      parents = found.map(({ id }) => id);
    }
    return false;
  }

  *storeUndo(task: TaskVersion, name: string, state: UndoState, error: string | null): Program<boolean> {
    if (!(yield* this.#tree.lockRunning(task))) return false;
    return (yield* count(this.#s.storeUndo, { id: task.id, name, state, error }, false)) > 0;
  }

  /** A task runs again in which some steps were not undone: they are, if it does not complete. */
  *onRetry(taskId: number): Program<void> {
    yield* count(this.#s.undoAgain, { id: taskId }, false);
  }

  /** Only for a failed task whose error has kept how the task was to end: it lists the steps that were not undone. */
  *undoAgain(taskId: number): Program<Operated> {
    const s = this.#s;
    const operated = yield* this.#tasks.again(taskId, s.hold, ({ status, error }) => {
      // It stays in the error of a task that has ended in another way than it was to end.
      const ending = endingIn(error);
      if (status !== "failed" || !ending || error === null) return undefined;
      const { undo: _, ...plain } = JSON.parse(withoutEnding(error));
      return { error: withEnding(JSON.stringify(plain), ending), until: never };
    });
    if (!operated?.changed) return operated;
    yield* count(s.undoAgain, { id: taskId }, false);
    const { func } = operated.record;
    yield* count(s.insertUndo, { id: taskId, name: free, func, runs: "0" }, false);
    return operated;
  }
}

/** The error of a task whose end is decided now; null: it has been before. */
function errorOf(task: Ending | Release): string | null {
  const end = endOf(task);
  return end ? withEnding(end.error, end.kind) : null;
}

/** Undefined: the task was given back. */
const endOf = (task: Ending | Release): (Ending & { kind: DecidedStatus }) | undefined =>
  "kind" in task && (task.kind === "failed" || task.kind === "cancelled") ? task : undefined;
