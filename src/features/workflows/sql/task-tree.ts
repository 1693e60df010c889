/** Locks of tasks, and the children of tasks. */
import { sql } from "drizzle-orm/sql/sql";
import { listed } from "../../../stores/sql/columns.ts";
import type { Dialect } from "../../../stores/sql/dialect.ts";
import { type Program, rows } from "../../../stores/sql/program.ts";
import { taskColumns, toTaskRecord } from "../../../stores/sql/rows.ts";
import { itemColumns, itemOf, type Statement, still } from "../../../stores/sql/statements.ts";
import type { TaskRecord } from "../../../task.ts";

export function taskTreeStatements(d: Dialect) {
  const task = listed(d, "dbq_tasks", taskColumns, { givenKey: true });
  return {
    /** In the order of their ids, so that two transactions do not wait for each other. */
    lockTasks: (p) => sql`select ${task} from ${d.tasksWithIds(p.ids)} order by id ${d.locked}`,

    /** Locks the task if it still runs at this generation: until the transaction ends, no other one ends it. */
    lockRunning: (p) => sql`
      select root_id from ${d.tasks} where dbq_tasks.id = ${d.only(p.id)} and generation_id = ${p.generationId} ${still("running")} ${d.locked}`,

    childrenOf: (p) => sql`
      select ${task} from ${d.objects(p.parents, itemColumns(["id"]))} ${d.joinEach} dbq_tasks where parent_id = ${d.only(itemOf("id"))}`,
  } satisfies Record<string, Statement>;
}

/** The children of these tasks: of all at once, since a tree is walked level by level. */
export function* childrenOf(
  { childrenOf: read }: Pick<ReturnType<typeof taskTreeStatements>, "childrenOf">,
  ids: readonly number[],
): Program<TaskRecord[]> {
  const parents = JSON.stringify(ids.map((id) => ({ id })));
  return (yield* rows(read, { parents })).map(toTaskRecord);
}
