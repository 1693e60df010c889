/** Where a task stands in its workflow: its parent, the root, and its group. */
import type { Task } from "../../task.ts";
import { type Queue, requestsOf } from "../queue.ts";
import { groupFunction } from "../workflows/contract.ts";
import type { Run } from "../workflows/methods.ts";

/** Another task of the workflow. */
export interface NamedTask {
  id: number;
  /** `null`: the task was deleted. */
  func: string | null;
}

/** Where a task stands in its workflow. What does not apply is `null`. */
export interface TaskPlace {
  /** The task that has started it, or for a link of a chain the next one. */
  parent: NamedTask | null;
  /** The first ancestor, if that is not the parent. */
  root: NamedTask | null;
  /** The id of the group of which it is a member. */
  memberOf: number | null;
  /** The id of the group behind which it runs. */
  runsAfter: number | null;
  /** Of a group: the task that runs when its members have ended. */
  next: NamedTask | null;
}

/** @throws DatabaseError */
export async function taskPlace(
  queue: Queue,
  { task, children }: Pick<Run, "task" | "children">,
): Promise<TaskPlace> {
  const [above, root] = await named(queue, [task.parentId, task.rootId]);
  const isMember = above?.func === groupFunction;
  const isGroup = task.func === groupFunction;
  const isRootApart = root !== null && root.id !== task.id && root.id !== above?.id;
  return {
    parent: isMember || isGroup ? null : above,
    root: isRootApart ? root : null,
    memberOf: isMember ? above.id : null,
    runsAfter: children.find((child) => child.task.func === groupFunction)?.task.id ?? null,
    next: isGroup ? above : null,
  };
}

type MaybeNamed = NamedTask | null;

/** Reads little of these tasks: their arguments may be long. */
async function named(
  queue: Queue,
  ids: readonly [Task["parentId"], Task["rootId"]],
): Promise<[MaybeNamed, MaybeNamed]> {
  const asked = [...new Set(ids.filter((id) => id !== null))];
  const found = asked.length === 0 ? [] : await requestsOf(queue).look.get(asked, 1);
  const names = new Map(found.map(({ id, func }) => [id, func]));
  const nameOf = (id: number | null) => (id === null ? null : { id, func: names.get(id) ?? null });
  return [nameOf(ids[0]), nameOf(ids[1])];
}
