/** The methods of a Store that are one operation each, over a runner of operations. */
import type { NewTask, Store, TaskStore, TransferStore, WorkerStore } from "../../store.ts";
import type { Operations } from "./operations.ts";
import type { Program } from "./program.ts";
import { settleAndClaim } from "./settle-and-claim.ts";

/** Runs operations on one database. An operation is given as a function, since a busy database makes it run again. */
export interface Runner {
  /** As it is: each statement is a transaction by itself, unless the operation begins one. */
  run<T>(op: () => Program<T>): Promise<T>;
  /** In a transaction of its own that may write from its first statement on. */
  write<T>(op: () => Program<T>): Promise<T>;
}

export function methodsOver(
  runner: Runner,
  { tasks, logs, cycle, maintenance, transfer }: Operations,
): TaskStore & Omit<WorkerStore, "keepAlive"> & Pick<Store, "transfer"> {
  return {
    ...taskMethods(runner, tasks),
    logs: (asked, limit) => runner.run(() => logs.logs(asked, limit)),
    log: (lines, keep) => runner.write(() => logs.log(lines, keep)),
    settleAndClaim: (asked) => settleAndClaim(runner.run, cycle, asked),
    progress: (notes) => runner.write(() => tasks.progress(notes)),
    fillDefaults: (filled) => runner.write(() => tasks.fillDefaults(filled)),
    ...maintenanceMethods(runner, maintenance),
    transfer: transferMethods(runner, transfer),
  };
}

function taskMethods({ run, write }: Runner, ops: Operations["tasks"]): Omit<TaskStore, "logs"> {
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
    cancel: (id, error) => write(() => ops.cancel(id, error)),
    retry: (id) => write(() => ops.retry(id)),
    purge: (filter, limit, after) => write(() => ops.purge(filter, limit, after)),
  };
}

/** BEGIN and COMMIT would take as long again as the statement: 6 µs on SQLite, two round trips on a server. */
function isOneStatement(tasks: readonly NewTask[]): boolean {
  return tasks.length === 1 && tasks[0]?.uniqueKey === null;
}

function maintenanceMethods(
  { run, write }: Runner,
  ops: Operations["maintenance"],
): Omit<WorkerStore, "keepAlive" | "settleAndClaim" | "progress" | "fillDefaults" | "log"> {
  return {
    register: (worker) => write(() => ops.register(worker)),
    unregister: (workerId) => write(() => ops.unregister(workerId)),
    workers: () => run(() => ops.workers()),
    heartbeat: (workerId) => write(() => ops.beat(workerId)),
    heldBy: (workerId) => run(() => ops.heldBy(workerId)),
    rescue: (workerId, beat) => write(() => ops.rescue(workerId, beat)),
    rescueOrphans: (age) => write(() => ops.rescueOrphans(age)),
    promote: async (limit) => {
      let nextDue = await run(() => ops.nextDue());
      if (nextDue !== 0) return { promoted: 0, nextDue };
      const promoted = await write(() => ops.promote(limit));
      nextDue = await run(() => ops.nextDue());
      return { promoted, nextDue };
    },
    prune: (retention, limit) => write(() => ops.prune(retention, limit)),
  };
}

function transferMethods({ run, write }: Runner, ops: Operations["transfer"]): TransferStore {
  return {
    state: () => run(() => ops.state()),
    setState: (next, expected) => write(() => ops.setState(next, expected)),
    advance: (id, from, to) => write(() => ops.advance(id, from, to)),
    freeze: (id) => write(() => ops.freeze(id)),
    unfreeze: (id) => write(() => ops.unfreeze(id)),
    rowVersions: (table, after, limit) => run(() => ops.rowVersions(table, after, limit)),
    read: (table, ids) => run(() => ops.read(table, ids)),
    write: (id, table, rows, removed) => write(() => ops.write(id, table, rows, removed)),
    removeKeyedTasks: (id) => write(() => ops.removeKeyed(id)),
    size: (table) => run(() => ops.size(table)),
    lastId: (table) => run(() => ops.lastId(table)),
    setLastId: (table, id) => write(() => ops.setLastId(table, id)),
  };
}
