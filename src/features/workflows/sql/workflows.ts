/** The operations of workflows, each written once for all databases. `WorkflowStore` in its contract says what they promise. */
import { sql } from "drizzle-orm/sql/sql";
import { isEnding } from "../../../base/values/ending.ts";
import { withArgument } from "../../../base/values/sealed.ts";
import type { Inserted, NewTask, Operated, TaskVersion } from "../../../store.ts";
import { columnsOf, listed, positionsIn } from "../../../stores/sql/columns.ts";
import type { Dialect, Params, Row } from "../../../stores/sql/dialect.ts";
import type { Ending } from "../../../stores/sql/endings.ts";
import {
  changes,
  count,
  insertedIds,
  type Program,
  rewindCursors,
  rows,
  transaction,
} from "../../../stores/sql/program.ts";
import { intOrNull, taskColumns, textOrNull, toTaskRecord } from "../../../stores/sql/rows.ts";
import {
  before,
  itemColumns,
  itemOf,
  type Statement,
  stateChange,
  still,
} from "../../../stores/sql/statements.ts";
import { isFinished as finished, isUnfinished as unfinished } from "../../../stores/sql/statuses.ts";
import { cancelled, type TaskOperations } from "../../../stores/sql/tasks.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import type { Transitions } from "../../../stores/sql/transitions.ts";
import { isFinished, type TaskRecord, type TaskStatus } from "../../../task.ts";
import {
  type EndedChild,
  groupFunction,
  type InsertedGroup,
  type NewChild,
  type NewGroup,
  type NewStep,
  type StoredStep,
  type StoredWait,
  type Wait,
  type Waited,
} from "../contract.ts";
import {
  type ChildRange,
  fanInStatements,
  lastUnfinished,
  manyChildren,
  moveWait,
  rangeIn,
  rangeOf,
  rangeText,
  setsOfMany,
} from "./fan-in.ts";
import { childrenOf, taskTreeStatements } from "./task-tree.ts";
import type { UndoOperations } from "./undo.ts";

const stepColumns = columnsOf("dbq_steps");
const step = positionsIn(stepColumns);

const toStoredStep = (row: Row): StoredStep => ({
  name: String(row[step.name]),
  seq: Number(row[step.seq]),
  value: textOrNull(row[step.value]),
  error: textOrNull(row[step.error]),
  childId: intOrNull(row[step.child_id]),
  undo: textOrNull(row[step.undo_state]) as StoredStep["undo"],
  undoError: textOrNull(row[step.undo_error]),
  startedAt: intOrNull(row[step.started_at]),
  endedAt: Number(row[step.ended_at]),
});

const waitColumns = columnsOf("dbq_waits");
const wait = positionsIn(waitColumns);
/** Behind the columns of a wait: the milliseconds until its deadline. */
const leftAt = waitColumns.length;

interface WaitRow extends StoredWait {
  id: number;
  /** Milliseconds until its time is over; undefined: it has none. */
  left: number | undefined;
}

const toWait = (row: Row): WaitRow => ({
  id: Number(row[wait.id]),
  taskId: Number(row[wait.task_id]),
  name: String(row[wait.name]),
  kind: row[wait.kind] as Wait["kind"],
  target: textOrNull(row[wait.target]),
  deadline: intOrNull(row[wait.deadline]),
  mode: textOrNull(row[wait.mode]),
  left: row[leftAt] === null ? undefined : Number(row[leftAt]),
});

/** The ids in the first column. */
const onceEach = (found: readonly Row[]): number[] => [...new Set(found.map(([id]) => Number(id)))];

const json = (ids: readonly number[]): string => JSON.stringify(ids);

function stepStatements(d: Dialect) {
  const all = listed(d, "dbq_steps", stepColumns);
  return {
    /** Not a state change. From now on the task is known to have steps or children. */
    markRoot: (p) => sql`
      update ${d.tasks} set root_id = id
      where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} and root_id is null`,

    steps: (p) => sql`select ${all} from dbq_steps where task_id = ${p.taskId} order by seq, id`,

    /** Without those that have started children, of which a task may have very many. */
    firstSteps: (p) => sql`
      select ${all} from dbq_steps where task_id = ${p.taskId} and child_id is null order by seq, id ${d.atMost(p.limit)}`,

    newestSteps: (p) => sql`select task_id from dbq_steps order by id desc ${d.atMost(p.limit)}`,

    stepNamed: (p) => sql`
      select ${all} from dbq_steps where task_id = ${p.taskId} and ${d.same("name", p.name)}`,

    /** Stores one step if the task still runs at this generation, and is marked as one with steps. Locks it meanwhile, as `lockRunning`. */
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
      select ${d.integer(p.taskId)}, ${p.name}, last_seq + 1, ${d.json(p.value)}, ${d.integer(p.generationId)}, ${d.now(p)}
      from (select coalesce(max(seq), 0) as last_seq from dbq_steps where task_id = ${d.integer(p.taskId)}) as earlier
      where 1 = 1 ${d.keepExisting("name")}`,

    keepEnd: (p) => sql`
      update dbq_steps set value = ${d.json(p.value)}, error = ${d.json(p.error)}, started_at = ${d.now(p)}
      where task_id = ${p.taskId} and ${d.same("name", p.name)}`,

    deleteStep: (p) => sql`
      delete from dbq_steps where task_id = ${p.taskId} and ${d.same("name", p.name)}`,

    deleteStepsFrom: (p) =>
      sql`delete from dbq_steps where task_id = ${p.taskId} and seq >= ${d.integer(p.seq)}`,

    deleteStepsOf: (p) => sql`delete from dbq_steps where ${d.among("task_id", p.ids)}`,
  } satisfies Record<string, Statement>;
}

/** Not the mark of a task that undoes its steps. */
const isWait = sql.raw("kind <> 'undo'");

function waitStatements(d: Dialect) {
  const all = (p: Params) =>
    sql`${listed(d, "dbq_waits", waitColumns)}, ${d.minus(sql`deadline`, d.now(p))} as time_left`;
  const [target, taskId] = [itemColumns(["target"]), itemColumns(["taskId"])];
  return {
    waits: (p) => sql`
      select ${all(p)} from ${d.objects(p.tasks, taskId)} ${d.joinEach} dbq_waits
      where task_id = ${d.only(itemOf("taskId"))} and ${isWait} order by task_id, id`,

    firstWaits: (p) =>
      sql`select ${all(p)} from dbq_waits where task_id = ${p.taskId} and ${isWait} order by name ${d.atMost(p.limit)}`,

    newestWaits: (p) =>
      sql`select task_id from dbq_waits where ${isWait} order by task_id desc ${d.atMost(p.limit)}`,

    waitingFor: (p) => sql`
      select distinct task_id from dbq_waits ${d.joinEach} ${d.tasks}
      where ${d.same("target", p.target)} and ${isWait} and dbq_tasks.id = task_id and ${sql.raw(unfinished)} order by task_id ${d.atMost(p.limit)}`,

    waitsAfter: (p) =>
      sql`select ${all(p)} from dbq_waits where id > ${p.after} order by id ${d.atMost(p.limit)}`,

    /**
     * What waits for these ids, or for events whose names are such numbers. The caller takes from it what waits for its own children:
     * with more conditions, a planner without statistics reads all waits of a parent that has thousands.
     */
    waitsForTargets: (p) => sql`
      select ${all(p)} from ${d.objects(p.targets, target)} ${d.joinEach} dbq_waits
      where target = ${d.onlyName(itemOf("target"))} order by task_id, id`,

    waitsForEvent: (p) => sql`
      select ${all(p)} from dbq_waits where ${d.same("target", p.target)} and kind = 'event' order by task_id, id ${d.locked}`,

    /** Waits for events that another program has written. */
    waitsForWritten: (p) => sql`
      select dbq_waits.target from dbq_waits ${d.joinEach} dbq_events
      where dbq_waits.id > ${p.after} and dbq_waits.id <= ${p.last} and kind = 'event' and dbq_events.name = target and emitted_at is not null`,

    dueWaits: (p) => sql`
      select ${all(p)} from dbq_waits where deadline is not null and deadline <= ${d.now(p)} and ${isWait} order by deadline ${d.atMost(p.limit)} ${d.skipLocked}`,

    insertWait: (p, many) => {
      const row = sql`${d.integer(p.taskId)}, ${p.name}, ${p.kind}, ${p.target},
        coalesce(${d.time(d.integer(p.deadline))}, ${d.plus(d.now(p), d.integer(p.delay))}), ${p.mode}`;
      return sql`
      insert into dbq_waits (task_id, name, kind, target, deadline, mode)
        ${many === undefined ? sql`values (${row})` : sql`select ${row} ${many.afterSet}`}`;
    },

    others: (p) => sql`
      select 1 from dbq_waits where task_id = ${p.taskId} and (mode = ${p.mode} or mode like ${p.many}) order by name ${sql.raw("limit 1")}`,

    deleteWaits: (p) => sql`delete from dbq_waits where ${d.among("id", p.ids)}`,

    deleteMode: (p) =>
      sql`delete from dbq_waits where task_id = ${p.taskId} and (mode = ${p.mode} or mode like ${p.many})`,

    deleteWaitsOf: (p) => sql`delete from dbq_waits where ${d.among("task_id", p.ids)}`,
  } satisfies Record<string, Statement>;
}

function eventStatements(d: Dialect) {
  return {
    /** Makes the row of an event before it is emitted. A wait and an emit both lock it, so that one of them sees the other. */
    expectEvent: (p) => sql`insert into dbq_events (name) values (${p.name}) ${d.keepExisting("name")}`,

    lockEvent: (p) => sql`
      select ${d.text(sql`payload`)}, case when emitted_at is null then 0 else 1 end as emitted from dbq_events
      where ${d.same("name", p.name)} ${d.locked}`,

    fillEvent: (p) => sql`
      update dbq_events set payload = ${d.json(p.payload)}, emitted_at = ${d.now(p)}
      where ${d.same("name", p.name)} and emitted_at is null`,

    oldEvents: (p) => sql`
      select id from dbq_events where emitted_at < ${before(d, p)} order by emitted_at ${d.atMost(p.limit)} ${d.skipLocked}`,

    /** Events that were not emitted, and for which no task waits any more: waits have made their rows. */
    unusedEvents: (p) => sql`
      select id from dbq_events where emitted_at is null
        and not exists (select 1 from dbq_waits where dbq_waits.target = dbq_events.name) ${d.atMost(p.limit)} ${d.skipLocked}`,

    deleteEvents: (p) => sql`delete from dbq_events where ${d.among("id", p.ids)}`,
  } satisfies Record<string, Statement>;
}

function treeStatements(d: Dialect) {
  const change = stateChange(d);
  const task = listed(d, "dbq_tasks", taskColumns, { givenKey: true });
  const places = sql.raw("id, parent_id");
  return {
    /** Whether these children have ended, and with which results: a parent may have many. Null columns: the task is gone. */
    childEnds: (p) => sql`
      select asked.value, ${listed(d, "dbq_tasks", ["id", "status", "result"])} from ${d.integers(p.ids)} as asked
      left join ${d.tasks} on id = ${d.only(sql.raw("asked.value"))}
      where id is null or ${sql.raw(finished)}`,

    parents: (p) =>
      sql`select ${places} from dbq_tasks where ${d.among("id", p.ids)} and parent_id is not null`,

    /** The first children of one task. */
    firstChildren: (p) => sql`
      select ${places} from dbq_tasks where parent_id = ${d.only(p.parentId)} order by id ${d.atMost(p.limit)}`,

    unstarted: (p) => sql`
      select ${task} from ${d.tasks} where parent_id = ${d.only(p.parentId)} and status in ('pending', 'scheduled', 'waiting') ${d.skipLocked}`,

    members: (p) => sql`
      select ${task} from dbq_tasks where parent_id = ${d.only(p.parentId)} and dbq_tasks.id > ${p.after} order by id ${d.atMost(p.limit)}`,

    memberCounts: (p) => sql`
      select status, count(*) from dbq_tasks where parent_id = ${d.only(p.parentId)} group by status`,

    park: change(
      (
        p,
      ) => sql`status = 'waiting', wait_until = (select min(deadline) from dbq_waits where dbq_waits.task_id = dbq_tasks.id),
        uses = null, put_off_by = null, updated_at = ${d.now(p)}`,
      still("running"),
    ),

    wake: change(
      (p) => sql`status = 'pending', wait_until = null, updated_at = ${d.now(p)}`,
      still("waiting"),
    ),

    /** A task that has not run yet: it may have a time of its own. */
    release: change(
      (
        p,
      ) => sql`status = case when wait_until > ${d.now(p)} then 'scheduled' else 'pending' end, args = ${d.json(p.args)},
        updated_at = ${d.now(p)}`,
      still("waiting"),
    ),

    /** Makes a new task `waiting` in the transaction that inserts it. No other one has seen it, so that its generation stays. */
    hold: (p) => sql`
      update ${d.tasks} set status = 'waiting', parent_id = ${d.integer(p.parentId)}, root_id = ${d.integer(p.rootId)}
      where dbq_tasks.id = ${d.only(p.id)}`,

    link: (p) => sql`
      update ${d.tasks} set parent_id = ${d.integer(p.parentId)}, root_id = ${d.integer(p.rootId)} where dbq_tasks.id = ${d.only(p.id)}`,
  } satisfies Record<string, Statement>;
}

const statementsOf = (d: Dialect) => ({
  ...taskTreeStatements(d),
  ...stepStatements(d),
  ...waitStatements(d),
  ...eventStatements(d),
  ...treeStatements(d),
  ...fanInStatements(d),
});

/** The modes of a task that has not started. With `chain`, the task gets the result of the one before as its last argument. */
const [chained, afterGroup] = ["chain", "then"];
/** The modes of a group. With `cancel`, the group ends with the first member that does not complete. */
const [groupCancels, groupContinues] = ["group:cancel", "group:continue"];

const isAllOf = (mode: string) => mode.startsWith("all:");

/** Whether the first child that does not complete is the end of the wait for all of them. */
const cutsAtFailure = (mode: string) => isAllOf(mode) || mode === groupCancels;

/** The waits of one mode: each for one child, or one for many. */
const ofMode = (taskId: number, mode: string) => ({ taskId, mode, many: `${mode} of %` });

/** A child that has ended or is gone. `parentId`: undefined if it is not known. */
type End = Pick<Ending, "id" | "kind" | "parentId"> & { result?: string | null };

export class WorkflowOperations {
  readonly #s: ReturnType<typeof statementsOf>;
  readonly #transitions: Transitions;
  readonly #tasks: TaskOperations;
  readonly #undo: UndoOperations;

  constructor({ dialect }: Texts, transitions: Transitions, tasks: TaskOperations, undo: UndoOperations) {
    this.#s = statementsOf(dialect);
    this.#transitions = transitions;
    this.#tasks = tasks;
    this.#undo = undo;
  }

  // ---- steps ---------------------------------------------------------------------------------

  *steps(taskId: number): Program<StoredStep[]> {
    return (yield* rows(this.#s.steps, { taskId })).map(toStoredStep);
  }

  *firstSteps(taskId: number, limit: number): Program<StoredStep[]> {
    return (yield* rows(this.#s.firstSteps, { taskId, limit })).map(toStoredStep);
  }

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
    return yield* transaction(() => this.#writeAll(task, steps, children, again), true);
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
    const rootId = (yield* this.#lock(task)) ?? (yield* this.#lockStopping(task, children));
    if (rootId === undefined) return undefined;
    const there = again ? yield* this.steps(task.id) : [];
    const known = new Map(there.filter(({ undo }) => undo !== "done").map((one) => [one.name, one]));
    const newChildren = children.filter(({ name }) => !known.has(name));
    const ids = new Map(
      [...known.values()].map(({ name, childId }) => [name, { id: childId ?? 0, duplicate: false }]),
    );
    const inserted = yield* this.#tasks.insert(
      newChildren.map((child) => ({ ...child.task, parentId: task.id, rootId })),
      "report",
    );
    for (const [i, { name }] of newChildren.entries()) ids.set(name, inserted[i] as Inserted);
    const { id: taskId, generationId } = task;
    const starts = newChildren.map(({ name, seq }) => ({
      ...{ name, seq, value: null, error: null, startedAt: null, undoState: null },
      childId: ids.get(name)?.id,
    }));
    const results = steps
      .filter(({ name }) => !known.has(name))
      .map((one) => ({ ...one, childId: null, undoState: undoStateOf(one) }));
    for (const { name, again } of results)
      if (again) yield* count(this.#s.deleteStep, { taskId: task.id, name }, false);
    yield* insertAll(
      this.#s.insertStep,
      [...starts, ...results].map((one) => ({ taskId, generationId, ...one })),
    );
    return children.map(({ name }) => ids.get(name) as Inserted);
  }

  /** The first ancestor of a task whose end was decided while this attempt ran: a step that it has begun is stored, and undone. */
  *#lockStopping(task: TaskVersion, children: readonly NewChild[]): Program<number | undefined> {
    return children.length === 0 && (yield* this.#undo.isStopping(task)) ? task.id : undefined;
  }

  *forget(task: TaskVersion, names: readonly string[]): Program<void> {
    if ((yield* this.#lock(task)) === undefined) return;
    for (const name of names) yield* count(this.#s.deleteStep, { taskId: task.id, name }, false);
  }

  /** The first ancestor of a running task, which is marked as one with steps; undefined: it has moved on. */
  *#lock({ id, generationId }: TaskVersion): Program<number | undefined> {
    const [row] = yield* rows(this.#s.lockRunning, { id, generationId });
    if (!row) return undefined;
    if (row[0] !== null) return Number(row[0]);
    yield* count(this.#s.markRoot, { id, generationId }, false);
    return id;
  }

  *keepEnds(task: TaskVersion, ends: readonly EndedChild[]): Program<void> {
    if ((yield* this.#lock(task)) === undefined) return;
    for (const { name, status, result, error } of ends) {
      const hasFailed = status !== "completed";
      const why = hasFailed ? (error ?? JSON.stringify({ name: "Error", message: status })) : null;
      const value = hasFailed ? JSON.stringify(status) : result;
      yield* count(this.#s.keepEnd, { taskId: task.id, name, value, error: why }, false);
    }
  }

  *retryFrom(taskId: number, name: string): Program<Operated> {
    const [row] = yield* rows(this.#s.stepNamed, { taskId, name });
    if (!row) return undefined;
    const { seq } = toStoredStep(row);
    const retried = yield* this.#tasks.retry(taskId);
    if (!retried?.changed) return retried;
    yield* count(this.#s.deleteStepsFrom, { taskId, seq }, false);
    yield* count(this.#s.deleteWaitsOf, { ids: json([taskId]) }, false);
    return retried;
  }

  /** Deletes what belongs to tasks that are deleted. @param ids as JSON */
  *removeOf(ids: string): Program<void> {
    yield* count(this.#s.deleteStepsOf, { ids }, false);
    yield* count(this.#s.deleteWaitsOf, { ids }, false);
  }

  *lastActive(steps: number): Program<number[]> {
    return onceEach(yield* rows(this.#s.newestSteps, { limit: steps }));
  }

  // ---- waits ---------------------------------------------------------------------------------

  *waits(taskIds: readonly number[]): Program<WaitRow[]> {
    if (taskIds.length === 0) return [];
    const tasks = JSON.stringify(taskIds.map((taskId) => ({ taskId })));
    return (yield* rows(this.#s.waits, { tasks })).map(toWait);
  }

  *openWaits(taskIds: readonly number[], limit: number): Program<WaitRow[]> {
    const found: WaitRow[] = [];
    for (const wait of yield* this.waits(taskIds)) found.push(...(yield* this.#waitsIn(wait, limit)));
    return found;
  }

  *firstWaits(taskIds: readonly number[], limit: number): Program<WaitRow[]> {
    const found: WaitRow[] = [];
    for (const taskId of taskIds) {
      const each: WaitRow[] = [];
      for (const row of yield* rows(this.#s.firstWaits, { taskId, limit }))
        each.push(...(yield* this.#waitsIn(toWait(row), limit)));
      found.push(...each.slice(0, limit));
    }
    return found;
  }

  /** Those for which one wait stands: of many children, the first that have not ended. */
  *#waitsIn(wait: WaitRow, limit: number): Program<WaitRow[]> {
    const range = rangeIn(wait.mode);
    if (!range) return [wait];
    const open = yield* rows(this.#s.firstUnfinished, { parentId: wait.taskId, ...range, limit });
    return open.map(([id]) => ({ ...wait, target: String(id), mode: range.mode }));
  }

  *lastWaiting(waits: number): Program<number[]> {
    return onceEach(yield* rows(this.#s.newestWaits, { limit: waits }));
  }

  *waitingFor(target: string, limit: number): Program<number[]> {
    const found = (yield* rows(this.#s.waitingFor, { target, limit })).map(([id]) => Number(id));
    const parent = /^[1-9]\d*$/.test(target) ? yield* this.#waitsForManyWith(Number(target)) : undefined;
    return [...new Set([...found, ...(parent === undefined ? [] : [parent])])].sort((a, b) => a - b);
  }

  /** The parent of this unfinished task, if it waits for many children, and this is one of them. */
  *#waitsForManyWith(id: number): Program<number | undefined> {
    const [task] = yield* this.#tasks.get([id]);
    if (!task?.parentId || isFinished(task.status)) return undefined;
    const ranges = (yield* this.#rangesOf([task.parentId])).map(({ mode }) => rangeIn(mode) as ChildRange);
    return ranges.some(({ first, last }) => first <= id && id <= last) ? task.parentId : undefined;
  }

  *wait(task: TaskVersion, waits: readonly Wait[], park: boolean): Program<Waited | undefined> {
    if ((yield* this.#lock(task)) === undefined) return undefined;
    const stored = new Map((yield* this.waits([task.id])).map((one) => [one.name, one]));
    const steps: StoredStep[] = [];
    const missing: Wait[] = [];
    for (const one of waits) {
      const row = stored.get(one.name);
      if (one.kind === "child") {
        if (!row) missing.push(one);
      } else {
        const ended = yield* this.#waitedFor(task, one, row);
        if (ended) steps.push(ended);
        else if (!row) missing.push(one);
      }
    }
    const children = missing.filter(({ kind }) => kind === "child").map(({ target }) => Number(target));
    const ends = yield* this.#endsOf(children);
    const ended = new Map<number, boolean>([
      ...ends.completed.map(({ id }) => [id, true] as const),
      ...ends.ended.map(({ id, status }) => [id, status === "completed"] as const),
      ...ends.gone.map((id) => [id, false] as const),
    ]);
    const isOver = ({ kind, target }: Wait) => kind === "child" && ended.has(Number(target));
    const wakes = steps.length > 0 || hasToWake(waits, isOver, (id) => ended.get(id) === true);
    // Those for many children that an earlier attempt has left, since another wait has woken the task.
    const left = [...stored.values()].filter(({ mode }) => rangeIn(mode)).map(({ id }) => id);
    if (left.length > 0) yield* count(this.#s.deleteWaits, { ids: json(left) }, false);
    yield* this.#insertWaits(
      task.id,
      missing.filter((one) => !isOver(one)),
      park && !wakes,
    );
    const parked = park && !wakes && (yield* changes(this.#s.park, [task]))[0] === true;
    return { steps, ...ends, parked };
  }

  /** A task that does not park has no wait for many children: it looks at each of them. */
  *#insertWaits(taskId: number, waits: readonly Wait[], parks: boolean): Program<void> {
    const each = new Set(waits);
    const params: Params[] = [];
    for (const [mode, set] of setsOfMany(waits)) {
      const children = set.map(({ target }) => Number(target));
      const range = parks ? yield* rangeOf(this.#s, taskId, mode, children) : undefined;
      if (parks && !range) continue;
      if (range) params.push(rangeWait(taskId, range, range.last));
      for (const one of set) each.delete(one);
    }
    yield* insertAll(this.#s.insertWait, [...[...each].map(waitParams(taskId)), ...params]);
  }

  /** Reads the whole records only of those that have not completed: a parent may have many children. */
  *#endsOf(children: readonly number[]): Program<Omit<Waited, "steps" | "parked">> {
    if (children.length === 0) return { completed: [], ended: [], gone: [] };
    const found = yield* rows(this.#s.childEnds, { ids: json(children) });
    const completed = found
      .filter(([, , status]) => status === "completed")
      .map(([id, , , result]) => ({ id: Number(id), result: textOrNull(result) }));
    const others = found.filter(([, , status]) => status !== "completed").map(([id]) => Number(id));
    const { tasks, gone } =
      others.length === 0 ? { tasks: [], gone: [] } : yield* this.#tasks.findEnded(others);
    // Among them may be some that have completed, which a partition holds.
    return { completed, ended: tasks, gone };
  }

  /** The step of an event or a time that is over; undefined: it is not. */
  *#waitedFor(
    { id: taskId, generationId }: TaskVersion,
    { name, kind, target }: Wait,
    row: WaitRow | undefined,
  ): Program<StoredStep | undefined> {
    let value: string | null = null;
    if (row) {
      if (row.left === undefined || row.left > 0) return undefined;
      yield* count(this.#s.deleteWaits, { ids: json([row.id]) }, false);
    } else {
      const [there] = yield* rows(this.#s.stepNamed, { taskId, name });
      if (there) return toStoredStep(there);
      if (kind !== "event") return undefined;
      yield* count(this.#s.expectEvent, { name: target }, false);
      const [event] = yield* rows(this.#s.lockEvent, { name: target });
      if (Number(event?.[1]) !== 1) return undefined;
      value = textOrNull(event?.[0]);
    }
    yield* count(this.#s.insertStepLast, { taskId, generationId, name, value }, false);
    const [ended] = yield* rows(this.#s.stepNamed, { taskId, name });
    return ended && toStoredStep(ended);
  }

  *endDue(limit: number): Program<number> {
    const due = (yield* rows(this.#s.dueWaits, { limit })).map(toWait);
    yield* this.#endWaits(due, null);
    return due.length;
  }

  /** Ends waits for an event or a time: each becomes a step. */
  *#endWaits(over: readonly WaitRow[], value: string | null): Program<void> {
    if (over.length === 0) return;
    const tasks = yield* this.#lockTasks(over.map(({ taskId }) => taskId));
    yield* count(this.#s.deleteWaits, { ids: json(over.map(({ id }) => id)) }, false);
    for (const { taskId, name } of over) {
      const task = tasks.get(taskId);
      if (!task || isFinished(task.status)) continue;
      const { generationId } = task;
      yield* count(this.#s.insertStepLast, { taskId, generationId, name, value }, false);
    }
    yield* this.#wake([...tasks.values()]);
  }

  *#lockTasks(ids: readonly number[]): Program<Map<number, TaskRecord>> {
    const found = (yield* rows(this.#s.lockTasks, { ids: json([...new Set(ids)]) })).map(toTaskRecord);
    return new Map(found.map((task) => [task.id, task]));
  }

  *#wake(tasks: readonly TaskRecord[]): Program<void> {
    const waiting = tasks.filter(({ status }) => status === "waiting");
    if (waiting.length === 0) return;
    yield* changes(this.#s.wake, waiting.map(versionOf));
    yield* rewindCursors();
  }

  *repair(after: number, limit: number): Program<{ woken: number; last: number | undefined }> {
    const waits = (yield* rows(this.#s.waitsAfter, { after, limit })).map(toWait);
    const last = waits.at(-1)?.id;
    if (last === undefined) return { woken: 0, last };
    const ofChildren = waits.filter(({ kind }) => kind === "child");
    const { tasks, gone } =
      ofChildren.length === 0
        ? { tasks: [], gone: [] }
        : yield* this.#tasks.findEnded([...new Set(ofChildren.map(({ target }) => Number(target)))]);
    const ends = new Map<number, End>([
      ...gone.map((id) => [id, { id, kind: "failed" }] as const),
      ...tasks.map((task) => [task.id, { ...task, kind: task.status as End["kind"] }] as const),
    ]);
    const over = ofChildren.filter(({ target }) => ends.has(Number(target)));
    const waiting = over.length === 0 ? new Map() : yield* this.#lockTasks(over.map(({ taskId }) => taskId));
    yield* this.#endChildWaits(over, waiting, ends);
    const written = yield* rows(this.#s.waitsForWritten, { after, last });
    for (const name of new Set(written.map(([target]) => String(target)))) yield* this.#tellOf(name);
    return { woken: over.length + written.length, last: waits.length < limit ? undefined : last };
  }

  // ---- events --------------------------------------------------------------------------------

  *emit(name: string, payload: string): Program<boolean> {
    // A wait that begins at the same time has made this row, or waits until it is committed.
    yield* count(this.#s.expectEvent, { name }, false);
    const isNew = (yield* count(this.#s.fillEvent, { name, payload })) > 0;
    if (isNew) yield* this.#tell(name, payload);
    return isNew;
  }

  *#tellOf(name: string): Program<void> {
    const [event] = yield* rows(this.#s.lockEvent, { name });
    yield* this.#tell(name, textOrNull(event?.[0]));
  }

  *#tell(name: string, payload: string | null): Program<void> {
    yield* this.#endWaits((yield* rows(this.#s.waitsForEvent, { target: name })).map(toWait), payload);
  }

  *pruneEvents(age: number, limit: number): Program<number> {
    const old = yield* rows(this.#s.oldEvents, { age, limit });
    const unused = yield* rows(this.#s.unusedEvents, { limit });
    const ids = [...old, ...unused].map(([id]) => Number(id));
    return ids.length === 0 ? 0 : yield* count(this.#s.deleteEvents, { ids: json(ids) }, false);
  }

  // ---- children ------------------------------------------------------------------------------

  /** Tasks have ended that have a parent, or may have one. */
  *onEnd(endings: readonly Ending[]): Program<void> {
    const unknown = endings.filter(({ parentId }) => parentId === undefined).map(({ id }) => id);
    const found = unknown.length === 0 ? [] : yield* rows(this.#s.parents, { ids: json(unknown) });
    const parents = new Map(found.map(([id, parentId]) => [Number(id), Number(parentId)]));
    for (const { id, parentId } of endings) if (parentId) parents.set(id, parentId);
    if (parents.size === 0) return;
    // Before the look at their waits: a parent that is about to wait has written them when this lock is free.
    const tasks = yield* this.#lockTasks([...parents.values()]);
    const targets = JSON.stringify([...parents.keys()].map((id) => ({ target: String(id) })));
    const over = (yield* rows(this.#s.waitsForTargets, { targets }))
      .map(toWait)
      .filter((one) => one.kind === "child" && parents.get(Number(one.target)) === one.taskId);
    const ends = new Map(
      endings.map((ending) => [ending.id, { ...ending, parentId: parents.get(ending.id) } as End]),
    );
    const named = new Set(over.filter(({ mode }) => !rangeIn(mode)).map(({ target }) => Number(target)));
    // What has a wait of its own is not among those for which one wait stands: so a task with thousands of waits is not read.
    const cutting = [...ends.values()].flatMap(({ id, kind, parentId }) =>
      kind !== "completed" && parentId && !named.has(id) ? [parentId] : [],
    );
    if (cutting.length > 0) over.push(...(yield* this.#rangesOf(cutting)));
    yield* this.#endChildWaits(over, tasks, ends);
  }

  /** The waits for many children that these tasks have. */
  *#rangesOf(taskIds: readonly number[]): Program<WaitRow[]> {
    return (yield* this.waits([...new Set(taskIds)])).filter(({ mode }) => rangeIn(mode));
  }

  /** @param tasks those that wait, whose rows are locked. @param ends how the children have ended, by their ids */
  *#endChildWaits(
    over: readonly WaitRow[],
    tasks: ReadonlyMap<number, TaskRecord>,
    ends: ReadonlyMap<number, End>,
  ): Program<void> {
    if (over.length === 0) return;
    const ofOne = over.filter(({ mode }) => !rangeIn(mode));
    if (ofOne.length > 0) yield* count(this.#s.deleteWaits, { ids: json(ofOne.map(({ id }) => id)) }, false);
    const woken: TaskRecord[] = [];
    for (const task of tasks.values()) {
      const own = ofOne.filter(({ taskId }) => taskId === task.id);
      let wakes = own.length > 0 && (yield* this.#isOver(task, own, ends));
      const ofMany = new Map(
        over.filter(({ taskId, mode }) => taskId === task.id && rangeIn(mode)).map((one) => [one.id, one]),
      );
      for (const one of ofMany.values()) wakes = (yield* this.#isRangeOver(task, one, ends)) || wakes;
      if (wakes) woken.push(task);
    }
    yield* this.#wake(woken);
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
      const next = yield* lastUnfinished(this.#s, task.id, { first, before: named });
      if (next !== undefined) {
        yield* moveWait(this.#s, wait.id, next);
        return false;
      }
    }
    yield* count(this.#s.deleteWaits, { ids: json([wait.id]) }, false);
    return yield* this.#isModeOver(task, mode, failed);
  }

  /** Whether the task is woken by waits of this mode that are over. Ends a group. @param failed a child that has not completed */
  *#isModeOver(task: TaskRecord, mode: string, failed: End | undefined): Program<boolean> {
    const cuts = failed !== undefined && cutsAtFailure(mode);
    const waits = ofMode(task.id, mode);
    if (cuts) yield* count(this.#s.deleteMode, waits, false);
    else if ((yield* rows(this.#s.others, waits)).length > 0) return false;
    if (task.func !== groupFunction) return true;
    yield* this.#endGroup(task, cuts ? failed : undefined);
    return false;
  }

  /** Whether these waits, which are over, wake the task. Ends groups, and lets a task go that waits for its start. */
  *#isOver(task: TaskRecord, over: readonly WaitRow[], ends: ReadonlyMap<number, End>): Program<boolean> {
    let wakes = false;
    for (const mode of new Set(over.map((one) => one.mode))) {
      const some = over
        .filter((one) => one.mode === mode)
        .map(({ target }) => ends.get(Number(target)) as End);
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
      yield* this.#cancel([task], because(end));
      return;
    }
    const { id, generationId } = task;
    const args = mode === chained ? withArgument(task.args, end.result ?? "null") : task.args;
    yield* changes(this.#s.release, [{ id, generationId, args }]);
    yield* rewindCursors();
  }

  *#endGroup(group: TaskRecord, failed: End | undefined): Program<void> {
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
      const found = yield* childrenOf(this.#s, parents);
      const unfinished = found.filter(isUnfinished).map(({ id }) => id);
      if (unfinished.length > 0)
        yield* this.#cancel([...(yield* this.#lockTasks(unfinished)).values()].filter(isUnfinished), error);
      parents = found.map(({ id }) => id);
    }
  }

  *children(taskIds: readonly number[], limit: number): Program<{ parentId: number; id: number }[]> {
    const found: Row[] = [];
    for (const parentId of taskIds) found.push(...(yield* rows(this.#s.firstChildren, { parentId, limit })));
    return found.map(([id, parentId]) => ({ id: Number(id), parentId: Number(parentId) }));
  }

  // ---- groups and chains ---------------------------------------------------------------------

  *insertGroup({ members, next: behind, cancels }: NewGroup): Program<InsertedGroup> {
    const [next] = behind ? yield* this.#tasks.insert([behind], "report") : [];
    const [group] = yield* this.#tasks.insert([groupTask(members[0] ?? behind)], "report");
    const id = (group as Inserted).id;
    const rootId = next?.id ?? id;
    yield* count(this.#s.hold, { id, parentId: next?.id ?? null, rootId }, false);
    if (next) {
      yield* count(this.#s.hold, { id: next.id, parentId: null, rootId }, false);
      yield* this.#waitForTask(next.id, id, afterGroup);
    }
    const inserted = yield* this.#insertMembers(id, rootId, members, cancels ? groupCancels : groupContinues);
    if (members.length === 0) yield* this.#endEmpty(id);
    return { id, members: inserted, nextId: next?.id };
  }

  *#endEmpty(id: number): Program<void> {
    const group = (yield* this.#lockTasks([id])).get(id);
    if (group) yield* this.#endGroup(group, undefined);
  }

  *#insertMembers(
    groupId: number,
    rootId: number,
    members: readonly NewTask[],
    mode: string,
  ): Program<Inserted[]> {
    const inserted = yield* this.#tasks.insert(
      members.map((task) => ({ ...task, parentId: groupId, rootId })),
      "report",
    );
    const [first, last] = [inserted[0]?.id ?? 0, inserted.at(-1)?.id ?? 0];
    const ownsAll = inserted.every(({ duplicate }) => !duplicate);
    const waits =
      ownsAll && inserted.length > manyChildren
        ? [rangeWait(groupId, { mode, first, last }, last)]
        : inserted.map(({ id }) => memberWait(groupId, id, mode));
    yield* insertAll(this.#s.insertWait, waits);
    return inserted;
  }

  *#waitForTask(taskId: number, childId: number, mode: string): Program<void> {
    yield* count(this.#s.insertWait, memberWait(taskId, childId, mode), false);
  }

  *insertChain(links: readonly NewTask[]): Program<Inserted[]> {
    const inserted = yield* this.#tasks.insert(links, "report");
    const rootId = inserted.at(-1)?.id ?? null;
    for (const [i, { id }] of inserted.entries()) {
      const parentId = inserted[i + 1]?.id ?? null;
      const before = inserted[i - 1];
      yield* count(before ? this.#s.hold : this.#s.link, { id, parentId, rootId }, false);
      if (before) yield* this.#waitForTask(id, before.id, chained);
    }
    return inserted;
  }

  *addToGroup(groupId: number, members: readonly NewTask[]): Program<Inserted[] | undefined> {
    const group = (yield* this.#lockTasks([groupId])).get(groupId);
    if (group?.status !== "waiting" || group.func !== groupFunction) return undefined;
    const [one] = yield* this.firstWaits([groupId], 1);
    const mode = one?.mode ?? groupContinues;
    return yield* this.#insertMembers(groupId, group.rootId ?? groupId, members, mode);
  }

  *groupCounts(groupId: number): Program<{ status: TaskStatus; count: number }[]> {
    const found = yield* rows(this.#s.memberCounts, { parentId: groupId });
    return found.map(([status, members]) => ({ status: status as TaskStatus, count: Number(members) }));
  }

  *groupOf(taskId: number): Program<number | undefined> {
    const [task] = yield* this.#tasks.get([taskId]);
    const [parent] = task?.parentId ? yield* this.#tasks.get([task.parentId]) : [];
    if (parent?.func === groupFunction) return parent.id;
    const children = yield* this.children([taskId], 100);
    const groups = yield* this.#tasks.get(children.map(({ id }) => id));
    return groups.find(({ func }) => func === groupFunction)?.id;
  }

  *members(groupId: number, after: number, limit: number): Program<TaskRecord[]> {
    return (yield* rows(this.#s.members, { parentId: groupId, after, limit })).map(toTaskRecord);
  }
}

const isUnfinished = ({ status }: TaskRecord): boolean => !isFinished(status);

const undoStateOf = ({ undoes }: NewStep) => (undoes ? "wanted" : null);

const versionOf = ({ id, generationId }: TaskVersion): TaskVersion => ({ id, generationId });

/** One row is no reason to wake anybody; a batch is. */
function* insertAll(statement: Statement, items: readonly Params[]): Program<void> {
  const [only] = items;
  if (only && items.length === 1) yield* count(statement, only, false);
  else yield* insertedIds(statement, items);
}

const waitParams =
  (taskId: number) =>
  ({ name, kind, target, until, mode }: Wait) => ({
    ...{ taskId, name, kind, target, mode },
    deadline: until && "at" in until ? until.at : null,
    delay: until && "after" in until ? until.after : null,
  });

/** @param target the last child that has not ended */
const rangeWait = (taskId: number, range: ChildRange, target: number) => ({
  ...{ taskId, name: rangeText(range), kind: "child", target: String(target), mode: rangeText(range) },
  ...{ deadline: null, delay: null },
});

const memberWait = (taskId: number, childId: number, mode: string) => ({
  ...{ taskId, name: `task ${childId}`, kind: "child", target: String(childId), mode },
  ...{ deadline: null, delay: null },
});

/** Whether the ends of children that are over wake the task. */
function hasToWake(
  waits: readonly Wait[],
  isOver: (one: Wait) => boolean,
  completed: (childId: number) => boolean,
): boolean {
  const open = new Set(waits.filter((one) => !isOver(one)).map(({ mode }) => mode));
  return waits.some(
    (one) =>
      isOver(one) &&
      (one.mode === null || !open.has(one.mode) || (isAllOf(one.mode) && !completed(Number(one.target)))),
  );
}

/** The task of a group. No worker has a function of its name. */
function groupTask(like: NewTask | undefined): NewTask {
  return {
    ...{ func: groupFunction, args: "[]", kwargs: "{}", meta: "{}", priority: like?.priority ?? 5 },
    ...{
      queueName: like?.queueName ?? "default",
      maxRetries: 0,
      waitUntil: null,
      delay: null,
      timeout: null,
    },
    ...{ requestId: like?.requestId ?? null, uniqueKey: null, fillDefaults: 0, groupKey: null },
    ...{ traceContext: like?.traceContext ?? null, parentId: null, rootId: null },
  };
}

function because({ id, kind }: End): string {
  const message = `task ${id}, which it waited for, ${kind === "cancelled" ? "was cancelled" : "has failed"}`;
  return JSON.stringify({ name: "TaskCancelled", message });
}
