/** Looks at tasks, and what people do about them: changes of one, actions on many. Workers delete old rows of `dbq_audit`. */
import { readBulkFilter, taskId } from "../../base/options/options.ts";
import { isEnding } from "../../base/values/ending.ts";
import { toTask } from "../../base/values/records.ts";
import { TaskNotFoundError, TaskStartedError, TaskUndoingError } from "../../errors.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { deletingJob } from "../../worker/pruning.ts";
import {
  actOnAll,
  type BulkKind,
  bulkAction,
  readBulkCancelOptions,
  readBulkOptions,
} from "../operate/bulk.ts";
import { internalsOf } from "../queue.ts";
import { editChecked, readTaskChanges, whyUnchanged } from "./edit.ts";
import type { BulkCancelOptions, BulkResult, LookMethods } from "./methods.ts";

/** Milliseconds that the actions of people in the dashboard are kept: 90 days. */
const auditAge = 90 * 86_400_000;
const auditEvery = 3_600_000;

export function look(queue: CoreQueue): Feature {
  const { store } = internalsOf(queue);
  // A role that may not delete them keeps them: that is reported, and stops nothing else.
  const pruning = deletingJob("deleting old rows of dbq_audit", auditEvery, (most) =>
    store.look.pruneAudits(auditAge, most),
  );
  return { methods: methodsOf(queue), jobs: () => [pruning] };
}

function methodsOf(queue: CoreQueue): LookMethods {
  const { store, wakeups, options } = internalsOf(queue);
  const act = async (kind: BulkKind, filter: unknown, given: BulkCancelOptions): Promise<BulkResult> => {
    const owner = `${kind}Tasks`;
    const { reason = `cancelled by queue.${owner}`, ...walk } = given;
    const read = readBulkFilter(filter, owner);
    const action = bulkAction({ store, wakeups }, kind, reason);
    const { changed, skipped } = await actOnAll(store, read, action, walk);
    return { changed, skipped };
  };
  return {
    updateTask: async <R>(id: number, changes: unknown) => {
      const { edit, generationId } = readTaskChanges(changes, options.maxPayload);
      const asked = taskId(id, "updateTask");
      const operated = await editChecked(store.requests ?? store, asked, edit, generationId);
      if (!operated) throw new TaskNotFoundError(id);
      const { record, changed } = operated;
      if (isEnding(record)) throw new TaskUndoingError(id);
      if (!changed) throw new TaskStartedError(id, whyUnchanged(record, generationId));
      wakeups.workAdded(true);
      return toTask<R>(record);
    },
    retryTasks: async (filter, given) => await act("retry", filter, readBulkOptions(given, "retryTasks")),
    cancelTasks: async (filter, given) =>
      await act("cancel", filter, readBulkCancelOptions(given, "cancelTasks")),
    deleteTasks: async (filter, given) => await act("delete", filter, readBulkOptions(given, "deleteTasks")),
  };
}
