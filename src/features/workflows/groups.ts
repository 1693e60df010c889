/** `currentTask().group`. */
import { refuseUnreadableResult, toTask } from "../../base/values/records.ts";
import { checked } from "../../queue/enqueue.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { TaskId, TaskRecord } from "../../task.ts";
import type { GroupResult, TaskGroup } from "../../worker/task-group.ts";
import { internalsOf } from "../queue.ts";
import { preparedEntries } from "./actions.ts";

/** Members that one query reads. */
const page = 500;

export function groupOf(queue: CoreQueue, { id, func }: TaskRecord): TaskGroup {
  const { store, wakeups, options } = internalsOf(queue);
  const find = async (): Promise<number> => {
    const found = await store.workflows.groupOf(id);
    if (found === undefined)
      throw new TypeError(`currentTask().group: task ${id} (${func}) is in no group, and runs after none`);
    return found;
  };
  return {
    async *results() {
      const groupId = await find();
      for (let after = 0; ; ) {
        const members = await store.workflows.members(groupId, after, page);
        for (const record of members) yield toResult(record);
        const last = members.at(-1);
        if (!last || members.length < page) return;
        after = last.id;
      }
    },
    add: async (entries) => {
      const prepared = preparedEntries("group.add", entries, options.maxPayload);
      await checked(prepared, false);
      const groupId = await find();
      const added = await store.workflows.addToGroup(
        groupId,
        prepared.map(({ task }) => task),
      );
      if (!added) throw new TypeError(`currentTask().group.add: the group ${groupId} has ended`);
      wakeups.workAdded(true);
      return added.map((one) => one.id as TaskId);
    },
  };
}

function toResult(record: TaskRecord): GroupResult {
  refuseUnreadableResult(record);
  const { id, status, result, error } = toTask(record);
  return { id, status, result, error };
}
