/** The methods of a Store that are an operation and no more, over whatever runs operations. */
import type { NewTask, Store, Turn, TurnResult } from "../store.ts";
import type { Operations } from "./operations.ts";
import type { Op } from "./steps.ts";

/** Runs operations on one database. An operation is given as a function, since a busy database makes it run again. */
export interface Runner {
  /** Outside of a transaction. */
  read<T>(op: () => Op<T>): Promise<T>;
  /** One statement that writes, and so is a transaction by itself. */
  alone<T>(op: () => Op<T>): Promise<T>;
  /** In a transaction of its own that may write from its first statement on. */
  write<T>(op: () => Op<T>): Promise<T>;
}

type Shared = Omit<
  Store,
  "synchronous" | "within" | "transaction" | "keepAlive" | "watch" | "diagnose" | "close"
>;

export function methodsOver({ read, alone, write }: Runner, ops: Operations): Shared {
  return {
    insert: (tasks, onDuplicate) =>
      (isOneStatement(tasks) ? alone : write)(() => ops.insert(tasks, onDuplicate)),
    get: (ids) => read(() => ops.get(ids)),
    list: (filter, limit, after) => read(() => ops.list(filter, limit, after)),
    count: (filter) => read(() => ops.count(filter)),
    idle: (queueNames) => read(() => ops.idle(queueNames)),
    attempts: (taskId) => read(() => ops.attempts(taskId)),
    turn: (turn) => takeTurn(read, write, ops, turn),
    standings: (ids) => read(() => ops.standings(ids)),
    progress: (notes) => write(() => ops.progress(notes)),
    cancel: (id, error) => write(() => ops.cancel(id, error)),
    retry: (id) => write(() => ops.retry(id)),
    purge: (filter, limit, after) => write(() => ops.purge(filter, limit, after)),
    promote: async (limit) => {
      let nextDue = await read(ops.nextDue);
      if (nextDue !== 0) return { promoted: 0, nextDue };
      const promoted = await write(() => ops.promote(limit));
      nextDue = await read(ops.nextDue);
      return { promoted, nextDue };
    },
    prune: (retention, limit) => write(() => ops.prune(retention, limit)),
    register: (worker) => write(() => ops.register(worker)),
    unregister: (workerId) => write(() => ops.unregister(workerId)),
    workers: () => read(ops.workers),
    beat: (workerId) => write(() => ops.beat(workerId)),
    rescue: (workerId, beat) => write(() => ops.rescue(workerId, beat)),
    rescueOrphans: (age) => write(() => ops.rescueOrphans(age)),
  };
}

/** BEGIN and COMMIT would take as long again as the statement: 6 µs on SQLite, two round trips on a server. */
function isOneStatement(tasks: readonly NewTask[]): boolean {
  return tasks.length === 1 && tasks[0]?.uniqueKey === null;
}

/**
 * With outcomes to settle, candidates are read in the transaction that settles them. Without, they are read first and
 * without a lock: a worker that is woken for nothing writes nothing. When others took them all, what is left is tried.
 */
async function takeTurn(
  read: Runner["read"],
  write: Runner["write"],
  ops: Operations,
  { outcomes, claim }: Turn,
): Promise<TurnResult> {
  let settled: boolean[] = [];
  for (let left = outcomes; ; left = []) {
    const seen = left.length === 0 && claim ? await read(() => ops.claimable(claim)) : undefined;
    if (left.length === 0 && !seen?.length) return { settled, claimed: [], more: false, registered: true };
    const result = await write(() => ops.turn({ outcomes: left, claim }, seen));
    if (left.length > 0) settled = result.settled;
    const lostAll = result.claimed.length === 0 && result.more;
    if (!lostAll) return { ...result, settled };
  }
}
