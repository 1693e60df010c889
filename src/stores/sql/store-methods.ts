/** The methods of a Store that are an operation and no more, over whatever runs operations. */

import type { NewTask, SettleAndClaim, SettleAndClaimResult, Store, TransferStore } from "../../store.ts";
import type { Program } from "./program.ts";
import type { Operations } from "./tasks.ts";

/** Runs operations on one database. An operation is given as a function, since a busy database makes it run again. */
export interface Runner {
  /** As it is: a statement is a transaction by itself, unless the operation begins one. */
  run<T>(op: () => Program<T>): Promise<T>;
  /** In a transaction of its own that may write from its first statement on. */
  write<T>(op: () => Program<T>): Promise<T>;
}

type Shared = Omit<
  Store,
  "synchronous" | "within" | "transaction" | "keepAlive" | "watch" | "diagnose" | "close"
>;

export function methodsOver({ run, write }: Runner, ops: Operations): Shared {
  return {
    insert: (tasks, onDuplicate) =>
      (isOneStatement(tasks) ? run : write)(() => ops.insert(tasks, onDuplicate)),
    get: (ids) => run(() => ops.get(ids)),
    list: (filter, limit, after) => run(() => ops.list(filter, limit, after)),
    count: (filter) => run(() => ops.count(filter)),
    idle: (queueNames) => run(() => ops.idle(queueNames)),
    attempts: (taskId) => run(() => ops.attempts(taskId)),
    settleAndClaim: (turn) => settleAndClaim(run, ops, turn),
    findEnded: (ids) => run(() => ops.ended(ids)),
    heldBy: (workerId) => run(() => ops.heldBy(workerId)),
    taskStates: (ids) => run(() => ops.standings(ids)),
    progress: (notes) => write(() => ops.progress(notes)),
    cancel: (id, error) => write(() => ops.cancel(id, error)),
    retry: (id) => write(() => ops.retry(id)),
    purge: (filter, limit, after) => write(() => ops.purge(filter, limit, after)),
    promote: async (limit) => {
      let nextDue = await run(ops.nextDue);
      if (nextDue !== 0) return { promoted: 0, nextDue };
      const promoted = await write(() => ops.promote(limit));
      nextDue = await run(ops.nextDue);
      return { promoted, nextDue };
    },
    prune: (retention, limit) => write(() => ops.prune(retention, limit)),
    register: (worker) => write(() => ops.register(worker)),
    unregister: (workerId) => write(() => ops.unregister(workerId)),
    workers: () => run(ops.workers),
    heartbeat: (workerId) => write(() => ops.beat(workerId)),
    rescue: (workerId, beat) => write(() => ops.rescue(workerId, beat)),
    rescueOrphans: (age) => write(() => ops.rescueOrphans(age)),
    transfer: movingOver({ run, write }, ops.moving),
  };
}

function movingOver({ run, write }: Runner, ops: Operations["moving"]): TransferStore {
  return {
    state: () => run(ops.mark),
    setState: (mark, seen) => write(() => ops.setMark(mark, seen)),
    advance: (mine, from, to) => write(() => ops.advance(mine, from, to)),
    freeze: (mine) => write(() => ops.seal(mine)),
    unfreeze: (mine) => write(() => ops.unseal(mine)),
    rowVersions: (table, after, limit) => run(() => ops.stamps(table, after, limit)),
    read: (table, ids) => run(() => ops.read(table, ids)),
    write: (mine, table, given, removed) => write(() => ops.write(mine, table, given, removed)),
    removeKeyedTasks: (mine) => write(() => ops.removeKeyed(mine)),
    size: (table) => run(() => ops.size(table)),
    lastId: (table) => run(() => ops.lastId(table)),
    setLastId: (table, id) => write(() => ops.setLastId(table, id)),
  };
}

/** BEGIN and COMMIT would take as long again as the statement: 6 µs on SQLite, two round trips on a server. */
function isOneStatement(tasks: readonly NewTask[]): boolean {
  return tasks.length === 1 && tasks[0]?.uniqueKey === null;
}

/** Looks in one turn, when others take all that is seen each time. */
const mostLooks = 5;

/**
 * When others took all that was seen, what is left is tried. Not for ever: there may be a row that no UPDATE finds, such as
 * one whose generation somebody has set beyond 2^53. And not by who has settled something: what is accepted is told at once,
 * whatever becomes of the next look.
 */
export async function settleAndClaim(
  run: Runner["run"],
  ops: Operations,
  { outcomes, claim }: SettleAndClaim,
): Promise<SettleAndClaimResult> {
  if (ops.apart && claim && outcomes.length > 0) return await settleThenClaim(run, ops, { outcomes, claim });
  let last = await run(() => ops.turn({ outcomes, claim }));
  if (outcomes.length > 0) return last;
  const isInVain = () => last.claimed.length === 0 && last.more && last.registered;
  for (let looks = 1; looks < mostLooks && isInVain(); looks += 1)
    last = await run(() => ops.turn({ outcomes, claim }));
  return { ...last, more: last.more && last.claimed.length > 0 };
}

async function settleThenClaim(
  run: Runner["run"],
  ops: Operations,
  turn: SettleAndClaim,
): Promise<SettleAndClaimResult> {
  const settling = await run(() => ops.turn({ outcomes: turn.outcomes, claim: undefined }));
  try {
    return {
      ...(await settleAndClaim(run, ops, { outcomes: [], claim: turn.claim })),
      settled: settling.settled,
    };
  } catch (failure) {
    return { ...settling, failure };
  }
}
