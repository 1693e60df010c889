/** The steps of a task and the starts of its children, written once for all databases. `WorkflowStore` says what each operation promises. */
import { sql } from "drizzle-orm/sql/sql";
import { memoize } from "../../../base/runtime/memoize.ts";
import { cutTexts } from "../../../base/values/cut-texts.ts";
import { portionsOf } from "../../../base/values/portions.ts";
import type { Inserted, Operated, TaskVersion } from "../../../store.ts";
import { columnsOf, listed, positionsIn } from "../../../stores/sql/columns.ts";
import type { Dialect, Row } from "../../../stores/sql/dialect.ts";
import { count, insertAll, type Program, rows, transaction } from "../../../stores/sql/program.ts";
import { int, intOrNull, textOrNull } from "../../../stores/sql/rows.ts";
import { itemColumns, itemOf, type Statement, still } from "../../../stores/sql/statements.ts";
import type { TaskOperations } from "../../../stores/sql/tasks.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import {
  type EndedChild,
  type LastActive,
  type NewChild,
  type NewStep,
  type StoredStep,
  stepJson,
} from "../contract.ts";
import type { TaskTree } from "./task-tree.ts";
import type { UndoOperations } from "./undo.ts";

const stepColumns = columnsOf("dbq_steps");
const step = positionsIn(stepColumns);

const toStoredStep = (row: Row): StoredStep => ({
  name: String(row[step.name]),
  seq: int(row[step.seq]),
  value: textOrNull(row[step.value]),
  error: textOrNull(row[step.error]),
  childId: intOrNull(row[step.child_id]),
  undo: textOrNull(row[step.undo_state]) as StoredStep["undo"],
  undoError: textOrNull(row[step.undo_error]),
  startedAt: intOrNull(row[step.started_at]),
  endedAt: Number(row[step.ended_at]),
});

function toStepBeginning(row: Row, characters: number): StoredStep {
  const record = toStoredStep(row);
  const cut = cutTexts(record, stepJson, characters, (i) => int(row[stepColumns.length + i]));
  return { ...record, cut };
}

/** The largest number of the column `seq` on servers. Another program may have written it. */
const mostSeq = 2_147_483_647;

const undoStateOf = ({ undoes }: NewStep) => (undoes ? "wanted" : null);

/**
 * Each item of the list names the task. If the task were a parameter, a planner without statistics would read all its steps, and look
 * each of them up in the list.
 */
const keepEndsBy =
  (d: Dialect, items: NonNullable<Dialect["items"]>): Statement =>
  (p) => {
    const { beforeTable, afterSet } = items(
      sql`${p.ends}`,
      itemColumns(["taskId", "name", "value", "error"]),
    );
    return sql`
      update ${beforeTable} dbq_steps
      set value = ${d.json(itemOf("value"))}, error = ${d.json(itemOf("error"))}, started_at = ${d.now(p)} ${afterSet}
      where task_id = ${d.only(itemOf("taskId"))} and dbq_steps.name = ${d.onlyName(itemOf("name"))}`;
  };

function stepStatements(d: Dialect) {
  const all = listed(d, "dbq_steps", stepColumns);
  return {
    /** Not a state change. From now on the task is known to have steps or children. */
    markRoot: (p) => sql`
      update ${d.tasks} set root_id = id
      where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} and root_id is null`,

    steps: (p) => sql`select ${all} from dbq_steps where task_id = ${p.taskId} order by seq, id`,

    stepNames: (p) =>
      sql`select name from dbq_steps where task_id = ${p.taskId} order by seq, id ${d.atMost(p.limit)}`,

    countSteps: (p) => sql`
      select count(*) from dbq_steps where task_id = ${p.taskId} and child_id is null`,

    newestSteps: (p) =>
      sql`select task_id, id from dbq_steps where id < ${p.before} order by id desc ${d.atMost(p.limit)}`,

    stepNamed: (p) => sql`
      select ${all} from dbq_steps where task_id = ${p.taskId} and ${d.same("name", p.name)}`,

    /** Stores one step if the task still runs at this generation, and is marked as one with steps. Locks it meanwhile, as `TaskTree.lockRunning`. */
    insertStepOfRunning: (p) => sql`
      insert into dbq_steps (task_id, name, seq, value, error, generation_id, started_at, ended_at, undo_state)
      select id, ${p.name}, ${d.integer(p.seq)}, ${d.json(p.value)}, ${d.json(p.error)}, generation_id, ${d.time(d.integer(p.startedAt))}, ${d.now(p)}, ${p.undoState}
      from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} and root_id is not null ${d.locked}`,

    insertStep: (p, many) => {
      const row = sql`${d.integer(p.taskId)}, ${p.name}, ${d.integer(p.seq)}, ${d.json(p.value)}, ${d.json(p.error)},
        ${d.integer(p.generationId)}, ${d.time(d.integer(p.startedAt))}, ${d.now(p)}, ${d.integer(p.childId)}, ${p.undoState}`;
      return sql`
      insert into dbq_steps (task_id, name, seq, value, error, generation_id, started_at, ended_at, child_id, undo_state)
        ${many === undefined ? sql`values (${row})` : sql`select ${row} ${many.afterSet}`}`;
    },

    /** Stores a step behind the others of its task. If a step has this name already, that one stays: a deploy may have turned a wait into a step. */
    insertStepLast: (p) => sql`
      insert into dbq_steps (task_id, name, seq, value, generation_id, ended_at)
      select ${d.integer(p.taskId)}, ${p.name}, case when last_seq < ${sql.raw(String(mostSeq))} then last_seq + 1 else last_seq end, ${d.json(p.value)}, ${d.integer(p.generationId)}, ${d.now(p)}
      from (select coalesce(max(seq), 0) as last_seq from dbq_steps where task_id = ${d.integer(p.taskId)}) as earlier
      where 1 = 1 ${d.keepExisting("name")}`,

    keepEnd: (p) => sql`
      update dbq_steps set value = ${d.json(p.value)}, error = ${d.json(p.error)}, started_at = ${d.now(p)}
      where task_id = ${p.taskId} and ${d.same("name", p.name)}`,

    /** `keepEnd` for each end of a list. Undefined: this database changes rows one by one. */
    keepEnds: d.items && keepEndsBy(d, d.items),

    deleteStep: (p) => sql`
      delete from dbq_steps where task_id = ${p.taskId} and ${d.same("name", p.name)}`,

    /** Not those that were undone: they count as not stored, and the next step of such a name has another key by them. */
    deleteStepsFrom: (p) => sql`
      delete from dbq_steps where task_id = ${p.taskId} and seq >= ${d.integer(p.seq)} and coalesce(undo_state, '') <> 'done'`,

    deleteStepsOf: (p) => sql`delete from dbq_steps where ${d.among("task_id", p.ids)}`,
  } satisfies Record<string, Statement | undefined>;
}

/** The ends of children that one statement keeps, and the characters of their results: a server bounds the length of a statement. */
const mostEnds = { count: 1_000, size: 1_000_000 };

const lengthOf = ({ value, error }: EndedChild): number => (value?.length ?? 0) + (error?.length ?? 0);

/**
 * Without those that have started children, of which a task may have very many. Of each text, one character more than are kept tells
 * whether it is longer.
 */
const firstStepsOf = (d: Dialect) =>
  memoize((characters: number | undefined): Statement => {
    const cut = characters === undefined ? {} : { characters: characters + 1 };
    const columns = listed(d, "dbq_steps", stepColumns, cut);
    return (p) => sql`
      select ${columns} from dbq_steps where task_id = ${p.taskId} and child_id is null order by seq, id ${d.atMost(p.limit)}`;
  });

/** Rolls a transaction back whose task has moved on. */
class MovedOn extends Error {}

export class StepOperations {
  readonly #s: ReturnType<typeof stepStatements>;
  readonly #firstSteps: ReturnType<typeof firstStepsOf>;
  readonly #tasks: TaskOperations;
  readonly #tree: TaskTree;
  readonly #undo: UndoOperations;
  readonly #hasOneWriter: boolean;

  constructor({ dialect }: Texts, tasks: TaskOperations, tree: TaskTree, undo: UndoOperations) {
    this.#s = stepStatements(dialect);
    this.#firstSteps = firstStepsOf(dialect);
    this.#hasOneWriter = dialect.oneWriter;
    this.#tasks = tasks;
    this.#tree = tree;
    this.#undo = undo;
  }

  // ---- read ----------------------------------------------------------------------------------

  *steps(taskId: number): Program<StoredStep[]> {
    return (yield* rows(this.#s.steps, { taskId })).map(toStoredStep);
  }

  *firstSteps(taskId: number, limit: number, characters?: number): Program<StoredStep[]> {
    const found = yield* rows(this.#firstSteps(characters), { taskId, limit });
    return found.map((row) =>
      characters === undefined ? toStoredStep(row) : toStepBeginning(row, characters),
    );
  }

  *stepNames(taskId: number, limit: number): Program<string[]> {
    return (yield* rows(this.#s.stepNames, { taskId, limit })).map(([name]) => String(name));
  }

  *countSteps(taskId: number): Program<number> {
    return Number((yield* rows(this.#s.countSteps, { taskId }))[0]?.[0]);
  }

  *named(taskId: number, name: string): Program<StoredStep | undefined> {
    const [row] = yield* rows(this.#s.stepNamed, { taskId, name });
    return row && toStoredStep(row);
  }

  *lastActive(steps: number, before: number): Program<LastActive> {
    const found = yield* rows(this.#s.newestSteps, { limit: steps, before });
    const newest = new Map<number, number>();
    for (const [taskId, id] of found) if (!newest.has(int(taskId))) newest.set(int(taskId), int(id));
    return {
      tasks: Array.from(newest, ([taskId, stepId]) => ({ taskId, stepId })),
      last: found.length < steps ? undefined : int(found.at(-1)?.[1]),
    };
  }

  // ---- write ---------------------------------------------------------------------------------

  *storeStep(task: TaskVersion, stored: NewStep): Program<boolean> {
    return (yield* this.write(task, [stored], [])) !== undefined;
  }

  /** @param again whether an earlier try may have written already: its answer was lost */
  *write(
    task: TaskVersion,
    steps: readonly NewStep[],
    children: readonly NewChild[],
    again = false,
  ): Program<Inserted[] | undefined> {
    const [only] = steps;
    if (only && steps.length === 1 && children.length === 0 && !again && (yield* this.#insertOne(task, only)))
      return [];
    try {
      return yield* transaction(() => this.#writeAll(task, steps, children, again), true);
    } catch (error) {
      if (error instanceof MovedOn) return undefined;
      throw error;
    }
  }

  /** One statement and no transaction, since most writes are one step. False: the task has moved on, or is not marked, and nothing was written. */
  *#insertOne({ id, generationId }: TaskVersion, step: NewStep): Program<boolean> {
    if (step.again) return false;
    const params = { ...step, id, generationId, undoState: undoStateOf(step) };
    if (step.seq === 1) yield* count(this.#s.markRoot, params, false);
    return (yield* count(this.#s.insertStepOfRunning, params, false)) > 0;
  }

  *#writeAll(
    task: TaskVersion,
    steps: readonly NewStep[],
    children: readonly NewChild[],
    again: boolean,
  ): Program<Inserted[] | undefined> {
    const early = yield* this.#rootBeforeLock(task, children);
    const rootId = early ?? (yield* this.lock(task)) ?? (yield* this.#lockStopping(task, children));
    if (rootId === undefined) return undefined;
    const started = yield* this.#insert(task, rootId, steps, children, again);
    if (early !== undefined && !(yield* this.#tree.lockRunning(task))) throw new MovedOn();
    return started;
  }

  /**
   * The first ancestor of a running task that starts children, without a lock. Very many rows take a while to write, and the children
   * that run already wait for the lock on their parent to settle: it is taken once the rows are there. Undefined: it comes first.
   */
  *#rootBeforeLock(task: TaskVersion, children: readonly NewChild[]): Program<number | undefined> {
    if (this.#hasOneWriter || children.length === 0) return undefined;
    const rootId = (yield* this.#tree.rootOfRunning(task))?.[0] ?? null;
    return rootId === null ? undefined : int(rootId);
  }

  *#insert(
    { id: taskId, generationId }: TaskVersion,
    rootId: number,
    steps: readonly NewStep[],
    children: readonly NewChild[],
    again: boolean,
  ): Program<Inserted[]> {
    const there = again ? yield* this.steps(taskId) : [];
    const known = new Map(there.filter(({ undo }) => undo !== "done").map((one) => [one.name, one]));
    const newChildren = children.filter(({ name }) => !known.has(name));
    // In place: there may be very many of them, and a copy of each is the largest thing that their parent makes.
    for (const { task } of newChildren) {
      task.parentId = taskId;
      task.rootId = rootId;
    }
    const inserted = yield* this.#tasks.insert(
      newChildren.map(({ task }) => task),
      "report",
    );
    const starts = newChildren.map(({ name, seq }, i) => ({
      ...{ taskId, generationId, name, seq, value: null, error: null, startedAt: null, undoState: null },
      childId: inserted[i]?.id,
    }));
    const results = steps
      .filter(({ name }) => !known.has(name))
      .map((one) => ({ ...one, taskId, generationId, childId: null, undoState: undoStateOf(one) }));
    for (const { name, again } of results)
      if (again) yield* count(this.#s.deleteStep, { taskId, name }, false);
    yield* insertAll(this.#s.insertStep, [...starts, ...results]);
    if (known.size === 0) return inserted;
    const ids = new Map(newChildren.map(({ name }, i) => [name, inserted[i] as Inserted]));
    return children.map(
      ({ name }) => ids.get(name) ?? { id: known.get(name)?.childId ?? 0, duplicate: false },
    );
  }

  /** The first ancestor of a task whose end was decided while this attempt ran: a step that it has begun is stored, and undone. */
  *#lockStopping(task: TaskVersion, children: readonly NewChild[]): Program<number | undefined> {
    return children.length === 0 && (yield* this.#undo.isStopping(task)) ? task.id : undefined;
  }

  /** Stores the end of a wait behind the other steps of its task. */
  *storeLast({ id: taskId, generationId }: TaskVersion, name: string, value: string | null): Program<void> {
    yield* count(this.#s.insertStepLast, { taskId, generationId, name, value }, false);
  }

  /** The first ancestor of a running task, which is marked as one with steps; undefined: it has moved on. */
  *lock({ id, generationId }: TaskVersion): Program<number | undefined> {
    const row = yield* this.#tree.lockRunning({ id, generationId });
    if (!row) return undefined;
    if (row[0] !== null) return Number(row[0]);
    yield* count(this.#s.markRoot, { id, generationId }, false);
    return id;
  }

  *forget(task: TaskVersion, names: readonly string[]): Program<void> {
    if ((yield* this.lock(task)) === undefined) return;
    for (const name of names) yield* count(this.#s.deleteStep, { taskId: task.id, name }, false);
  }

  *keepEnds(task: TaskVersion, ends: readonly EndedChild[]): Program<void> {
    if ((yield* this.lock(task)) === undefined) return;
    const { keepEnd, keepEnds } = this.#s;
    for (const some of portionsOf(ends, lengthOf, mostEnds)) {
      const own = some.map((end) => ({ taskId: task.id, ...end }));
      // A single end may be as long as a statement may be, and a list would make it longer: it escapes each quote.
      if (keepEnds && own.length > 1) yield* count(keepEnds, { ends: JSON.stringify(own) }, false);
      else for (const end of own) yield* count(keepEnd, end, false);
    }
  }

  /** Runs a finished task again from this step on; undefined: there is no such task or step. */
  *retryFrom(taskId: number, name: string): Program<Operated> {
    const step = yield* this.named(taskId, name);
    if (!step) return undefined;
    const retried = yield* this.#tasks.retry(taskId);
    if (retried?.changed) yield* count(this.#s.deleteStepsFrom, { taskId, seq: step.seq }, false);
    return retried;
  }

  /** @param ids as JSON */
  *removeOf(ids: string): Program<void> {
    yield* count(this.#s.deleteStepsOf, { ids }, false);
  }
}
