/** Groups and chains, and the children of a task. `WorkflowStore` says what each operation promises. */
import { sql } from "drizzle-orm/sql/sql";
import type { Inserted, NewTask } from "../../../store.ts";
import { listed } from "../../../stores/sql/columns.ts";
import type { Dialect } from "../../../stores/sql/dialect.ts";
import { count, type Program, rows } from "../../../stores/sql/program.ts";
import { int, taskColumns, toTaskRecord } from "../../../stores/sql/rows.ts";
import type { Statement } from "../../../stores/sql/statements.ts";
import type { TaskOperations } from "../../../stores/sql/tasks.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import type { TaskRecord, TaskStatus } from "../../../task.ts";
import { groupFunction, type InsertedGroup, type NewGroup } from "../contract.ts";
import type { ChildEnds } from "./child-ends.ts";
import { manyChildren } from "./fan-in.ts";
import { afterGroup, chained, groupCancels, groupContinues } from "./modes.ts";
import type { TaskTree } from "./task-tree.ts";
import type { WaitRows } from "./wait-rows.ts";

function groupStatements(d: Dialect) {
  const task = listed(d, "dbq_tasks", taskColumns, { givenKey: true });
  return {
    /** The first children of one task. */
    firstChildren: (p) => sql`
      select id from dbq_tasks where parent_id = ${d.only(p.parentId)} order by id ${d.atMost(p.limit)}`,

    members: (p) => sql`
      select ${task} from dbq_tasks where parent_id = ${d.only(p.parentId)} and dbq_tasks.id > ${p.after} order by id ${d.atMost(p.limit)}`,

    memberCounts: (p) => sql`
      select status, count(*) from dbq_tasks where parent_id = ${d.only(p.parentId)} group by status`,

    /** Makes a new task `waiting` in the transaction that inserts it. No other one has seen it, so that its generation stays. */
    hold: (p) => sql`
      update ${d.tasks} set status = 'waiting', parent_id = ${d.integer(p.parentId)}, root_id = ${d.integer(p.rootId)}
      where dbq_tasks.id = ${d.only(p.id)}`,

    link: (p) => sql`
      update ${d.tasks} set parent_id = ${d.integer(p.parentId)}, root_id = ${d.integer(p.rootId)} where dbq_tasks.id = ${d.only(p.id)}`,
  } satisfies Record<string, Statement>;
}

export class GroupOperations {
  readonly #s: ReturnType<typeof groupStatements>;
  readonly #tasks: TaskOperations;
  readonly #tree: TaskTree;
  readonly #waits: WaitRows;
  readonly #ends: ChildEnds;

  constructor({ dialect }: Texts, tasks: TaskOperations, tree: TaskTree, waits: WaitRows, ends: ChildEnds) {
    this.#s = groupStatements(dialect);
    this.#tasks = tasks;
    this.#tree = tree;
    this.#waits = waits;
    this.#ends = ends;
  }

  *children(parentId: number, limit: number): Program<number[]> {
    return (yield* rows(this.#s.firstChildren, { parentId, limit })).map(([id]) => int(id));
  }

  *insertGroup({ members, next: behind, cancels }: NewGroup): Program<InsertedGroup> {
    const [next] = behind ? yield* this.#tasks.insert([behind], "report") : [];
    const [group] = yield* this.#tasks.insert([groupTask(members[0] ?? behind)], "report");
    const id = (group as Inserted).id;
    const rootId = next?.id ?? id;
    yield* count(this.#s.hold, { id, parentId: next?.id ?? null, rootId }, false);
    if (next) {
      yield* count(this.#s.hold, { id: next.id, parentId: null, rootId }, false);
      yield* this.#waits.insertFor(next.id, afterGroup, [id]);
    }
    const inserted = yield* this.#insertMembers(id, rootId, members, cancels ? groupCancels : groupContinues);
    if (members.length === 0) yield* this.#endEmpty(id);
    return { id, members: inserted, nextId: next?.id };
  }

  *#endEmpty(id: number): Program<void> {
    const group = (yield* this.#tree.lock([id])).get(id);
    if (group) yield* this.#ends.endGroup(group, undefined);
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
    if (ownsAll && inserted.length > manyChildren)
      yield* this.#waits.insertRange(groupId, { mode, first, last });
    else
      yield* this.#waits.insertFor(
        groupId,
        mode,
        inserted.map(({ id }) => id),
      );
    return inserted;
  }

  *insertChain(links: readonly NewTask[]): Program<Inserted[]> {
    const inserted = yield* this.#tasks.insert(links, "report");
    const rootId = inserted.at(-1)?.id ?? null;
    for (const [i, { id }] of inserted.entries()) {
      const parentId = inserted[i + 1]?.id ?? null;
      const before = inserted[i - 1];
      yield* count(before ? this.#s.hold : this.#s.link, { id, parentId, rootId }, false);
      if (before) yield* this.#waits.insertFor(id, chained, [before.id]);
    }
    return inserted;
  }

  *addToGroup(groupId: number, members: readonly NewTask[]): Program<Inserted[] | undefined> {
    const group = (yield* this.#tree.lock([groupId])).get(groupId);
    if (group?.status !== "waiting" || group.func !== groupFunction) return undefined;
    const [one] = yield* this.#waits.firstWaits([groupId], 1);
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
    const groups = yield* this.#tasks.get(yield* this.children(taskId, 100));
    return groups.find(({ func }) => func === groupFunction)?.id;
  }

  *members(groupId: number, after: number, limit: number): Program<TaskRecord[]> {
    return (yield* rows(this.#s.members, { parentId: groupId, after, limit })).map(toTaskRecord);
  }
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
      expiresIn: null,
    },
    ...{ requestId: like?.requestId ?? null, uniqueKey: null, fillDefaults: 0, groupKey: null },
    ...{ traceContext: like?.traceContext ?? null, parentId: null, rootId: null },
  };
}
