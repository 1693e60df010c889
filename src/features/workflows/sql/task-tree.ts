/** The tasks of a workflow: locks them, finds the children of one, and lets those that wait run again. */
import { sql } from "drizzle-orm/sql/sql";
import type { TaskVersion } from "../../../store.ts";
import { listed } from "../../../stores/sql/columns.ts";
import type { Dialect, Row } from "../../../stores/sql/dialect.ts";
import { changes, type Program, rewindCursors, rows } from "../../../stores/sql/program.ts";
import { taskColumns, toTaskRecord } from "../../../stores/sql/rows.ts";
import { itemColumns, itemOf, type Statement, stateChange, still } from "../../../stores/sql/statements.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import type { TaskRecord } from "../../../task.ts";

function treeStatements(d: Dialect) {
  const task = listed(d, "dbq_tasks", taskColumns, { givenKey: true });
  return {
    /** In the order of their ids, so that two transactions do not wait for each other. */
    lockTasks: (p) => sql`select ${task} from ${d.tasksWithIds(p.ids)} order by id ${d.locked}`,

    lockIds: (p) => sql`select id from ${d.tasksWithIds(p.ids)} order by id ${d.locked}`,

    lockRunning: (p) => sql`
      select root_id from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} ${d.locked}`,

    rootOfRunning: (p) => sql`
      select root_id from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")}`,

    childrenOf: (p) => sql`
      select ${task} from ${d.objects(p.parents, itemColumns(["id"]))} ${d.joinEach} dbq_tasks where parent_id = ${d.only(itemOf("id"))}`,

    wake: stateChange(d)(
      (p) => sql`status = 'pending', wait_until = null, updated_at = ${d.now(p)}`,
      still("waiting"),
    ),
  } satisfies Record<string, Statement>;
}

export class TaskTree {
  readonly #d: Dialect;
  readonly #s: ReturnType<typeof treeStatements>;

  constructor({ dialect }: Texts) {
    this.#d = dialect;
    this.#s = treeStatements(dialect);
  }

  /** Those that are there, by their ids. */
  *lock(ids: readonly number[]): Program<Map<number, TaskRecord>> {
    const found = yield* rows(this.#s.lockTasks, { ids: JSON.stringify([...new Set(ids)]) });
    return new Map(found.map(toTaskRecord).map((task) => [task.id, task]));
  }

  /** Locks these tasks, and reads nothing of them. With one writer at a time they stay as they are without that. */
  *lockOnly(ids: Iterable<number>): Program<void> {
    if (!this.#d.oneWriter) yield* rows(this.#s.lockIds, { ids: JSON.stringify([...new Set(ids)]) });
  }

  /** The row of a task, with its first ancestor, if it still runs at this generation: until the transaction ends, no other one ends it. */
  *lockRunning({ id, generationId }: TaskVersion): Program<Row | undefined> {
    return (yield* rows(this.#s.lockRunning, { id, generationId }))[0];
  }

  /** The same, without a lock. */
  *rootOfRunning({ id, generationId }: TaskVersion): Program<Row | undefined> {
    return (yield* rows(this.#s.rootOfRunning, { id, generationId }))[0];
  }

  /** The children of these tasks: of all at once, since a tree is walked level by level. */
  *childrenOf(ids: readonly number[]): Program<TaskRecord[]> {
    const parents = JSON.stringify(ids.map((id) => ({ id })));
    return (yield* rows(this.#s.childrenOf, { parents })).map(toTaskRecord);
  }

  /** Those of these tasks that wait are due now. */
  *wake(tasks: readonly TaskRecord[]): Program<void> {
    const waiting = tasks.filter(({ status }) => status === "waiting");
    if (waiting.length === 0) return;
    yield* changes(
      this.#s.wake,
      waiting.map(({ id, generationId }) => ({ id, generationId })),
    );
    yield* rewindCursors();
  }
}
