/** The core's methods of a store that are one operation each, over a runner of operations. */
import type { NewTask, TaskStore, WorkerStore } from "../../store.ts";
import type { Batches } from "./batches.ts";
import { maintenanceMethods } from "./maintenance-methods.ts";
import type { CoreOperations } from "./operations.ts";
import type { Runner } from "./program.ts";
import { withRefusals } from "./refusals.ts";
import { idsOf } from "./removal.ts";
import { settleAndClaim } from "./settle-and-claim.ts";
import { hasTexts } from "./tasks.ts";

export type CoreMethods = TaskStore & Omit<WorkerStore, "keepAlive">;

export function coreMethodsOver(
  runner: Runner,
  { tasks, logs, cycle, maintenance, expiry }: CoreOperations,
  batches: Batches,
): CoreMethods {
  return {
    ...taskMethods(runner, tasks, batches),
    logs: (asked, limit) => runner.run(() => logs.logs(asked, limit)),
    log: (lines, keep) => runner.write(() => logs.log(lines, keep)),
    settleAndClaim: withRefusals(runner, tasks, (asked) => settleAndClaim(runner.run, cycle, asked)),
    progress: (notes) => runner.write(() => tasks.progress(notes)),
    fillDefaults: (filled) => runner.write(() => tasks.fillDefaults(filled)),
    ...maintenanceMethods(runner, maintenance, expiry, batches),
    // A pass that finds nothing to free begins no transaction.
    freeKeys: (after, limit) => runner.run(() => tasks.freeKeys(after, limit)),
  };
}

function taskMethods(
  { run, write }: Runner,
  ops: CoreOperations["tasks"],
  batches: Batches,
): Omit<TaskStore, "logs"> {
  return {
    insert: (tasks, onDuplicate) =>
      (isOneStatement(tasks) ? run : write)(() => ops.insert(tasks, onDuplicate)),
    get: (ids) => run(() => ops.get(ids)),
    list: (filter, limit, after) => run(() => ops.list(filter, limit, after)),
    count: (filter) => run(() => ops.count(filter)),
    idle: (queueNames) => run(() => ops.idle(queueNames)),
    attempts: (taskId) => run(() => ops.attempts(taskId)),
    findEnded: (ids) => run(() => ops.findEnded(ids)),
    taskStates: (ids) => run(() => ops.taskStates(ids)),
    taskProgress: (ids) => run(() => ops.taskProgress(ids)),
    cancel: (id, error, alone) => write(() => ops.cancel(id, error, alone)),
    retry: (id) => write(() => ops.retry(id)),
    purge: async (filter, limit, after, onKept) => {
      const all = await batches.all(() => write(() => ops.purge(filter, limit, after)));
      if (all) return all;
      const { matching, last } = await run(() => ops.purgeable(filter, limit, after));
      const each = (ids: readonly number[]) => write(() => ops.purgeAmong(filter, ids));
      return { purged: (await batches.each(idsOf(matching), each, onKept)).length, last };
    },
  };
}

/** BEGIN and COMMIT would take as long again as the statement: 6 µs on SQLite, two round trips on a server. */
function isOneStatement(tasks: readonly NewTask[]): boolean {
  const [task] = tasks;
  return tasks.length === 1 && task?.uniqueKey === null && !hasTexts(task);
}
