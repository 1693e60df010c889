import { repeat } from "../../base/runtime/timers.ts";
import { DatabaseError } from "../../errors.ts";
import { report } from "../../events.ts";
import type { Diagnosis, MaybePromise, Store } from "../../store.ts";
import { columnsOf } from "../sql/columns.ts";
import { Heartbeat } from "../sql/heartbeat.ts";
import type { Operations } from "../sql/operations.ts";
import { settleAndClaim } from "../sql/settle-and-claim.ts";
import { methodsOver } from "../sql/store-methods.ts";
import { transferFactsOf } from "../sql/transfer.ts";
import type { DrizzleKind, ServerDrizzle } from "./drizzle.ts";
import { type MigrationText, migrateServer, refuseNewer } from "./migrate.ts";
import type { Pool, Queryable } from "./pool.ts";
import { insert, register, retry, settlingAndClaiming } from "./repeat.ts";
import { type Notifier, ServerRunner, type ServerSteps } from "./run.ts";
import { ending, inTransaction } from "./within.ts";

/**
 * How a claim keeps workers apart. `skip-locked`: it locks its candidates, and others pass over them. `optimistic`: nobody
 * locks anything, the quickest UPDATE wins, for engines whose row locks stop at one node.
 */
export type Strategy = "skip-locked" | "optimistic";

export interface ServerOptions {
  migrate: boolean;
  /** Undefined: what is right for the server. */
  strategy?: Strategy | undefined;
  /** False: nothing that outlives a transaction on a connection, for a pooler between that gives one to many. */
  sessions?: boolean | undefined;
  /** Connections that are shared; those that listen and beat are beside them. */
  poolSize?: number | undefined;
}

/** Hears of what others tell, too. */
export interface Listener extends Notifier {
  add(listener: () => void): () => void;
  /** Called when another process says that claim cursors may have passed tasks that became pending. */
  onRewind: () => void;
  close(): Promise<void>;
}

/** What a server has of its own. */
export interface ServerKind {
  steps: ServerSteps;
  /** For one store: they may remember what it has seen. */
  operations: Readonly<Record<Strategy, () => Operations>>;
  migrations: MigrationText;
  drizzle: DrizzleKind;
  /** Which strategy is right for this server. */
  strategyFor(asked: Queryable): Promise<Strategy>;
  diagnose(asked: Queryable): Promise<Diagnosis[]>;
  /** Said inside of an app's transaction that enqueues; undefined: nothing. */
  notifyInside: ((asked: Queryable) => Promise<unknown>) | undefined;
  /** Whether an app's database, which is no transaction of Drizzle's, is in one that the app has begun by itself. */
  hasBegun(asked: Queryable): Promise<boolean>;
  /** @throws AsyncTransactionError when the transaction has ended, so that what is written would not be part of it */
  checkOpen(tx: ServerDrizzle, asked: Queryable): Promise<void>;
}

/** One way to reach a server: the queue's own connections, or the app's. */
export interface ServerReach {
  pool: Pool;
  /** Beats on a thread; undefined: from here. */
  beat(
    workerId: string,
    every: number,
    strategy: Strategy,
  ): ConstructorParameters<typeof Heartbeat>[0] | undefined;
  notifier: Listener | undefined;
  /** A transaction of Drizzle's on a connection that no operation uses. */
  transact<T>(fn: (tx: ServerDrizzle) => Promise<T>): Promise<T>;
  /** What there is beside the pool. */
  close(): Promise<void>;
}

/** @throws DatabaseError that says what is wrong with it */
export async function serverStore(
  kind: ServerKind,
  reach: ServerReach,
  options: ServerOptions,
): Promise<Store> {
  const runner = new ServerRunner(reach.pool, kind.steps);
  try {
    const prepared = (asked: Queryable) => prepare(asked, kind, reach.pool.name, options);
    const strategy = await runner.ask(prepared);
    return storeOver(kind, reach, runner, strategy);
  } catch (error) {
    await reach.pool.close();
    await reach.close();
    throw error;
  }
}

async function prepare(
  asked: Queryable,
  kind: ServerKind,
  place: string,
  options: ServerOptions,
): Promise<Strategy> {
  if (options.migrate) await migrateServer(asked, kind.migrations, place);
  try {
    for (const table of ["dbq_tasks", "dbq_attempts", "dbq_workers"] as const)
      await asked.query(`select ${columnsOf(table).join(", ")} from ${table} limit 0`, []);
  } catch (error) {
    const missing = missingIn(error);
    if (missing === undefined) throw error;
    throw new DatabaseError(
      `${place}: ${missing}: run "dbq migrate", open with { migrate: true }, or generate it with your drizzle-kit`,
    );
  }
  await refuseNewer(asked, kind.migrations, place);
  return options.strategy ?? (await kind.strategyFor(asked));
}

function missingIn(error: unknown): string | undefined {
  const { message = "" } = error as { message?: string };
  const table = /relation "(\w+)" does not exist|table '(?:[^']*\.)?(\w+)' doesn't exist/i.exec(message);
  if (table) return `there is no table ${table[1] ?? table[2]}`;
  const column = /column "?(\w+)"? does not exist|unknown column '(?:\w+\.)?(\w+)'/i.exec(message);
  return column ? `the tables dbq_* have no column ${column[1] ?? column[2]}` : undefined;
}

function storeOver(kind: ServerKind, reach: ServerReach, runner: ServerRunner, strategy: Strategy): Store {
  const ops = kind.operations[strategy]();
  const { notifier } = reach;
  runner.notifier = notifier;
  runner.onRewind = () => ops.cycle.rewind();
  if (notifier) notifier.onRewind = () => ops.cycle.rewind();

  return {
    ...methodsOver(runner, ops),
    synchronous: false,
    insert: (tasks, onDuplicate) => insert(runner, kind.steps, ops, tasks, onDuplicate),
    retry: (id) => retry(runner, ops, id),
    // A worker that does not know what it was given must find out: a second claim would forget the first.
    settleAndClaim: (cycle) => settleAndClaim((op) => runner.run(op, settlingAndClaiming), ops.cycle, cycle),
    register: (worker) => register(runner, ops, worker),
    within: (tx) => inTransaction(kind, ops, tx),
    transaction: async (fn) => {
      const result = await runTransaction(runner, kind.steps, reach, fn);
      notifier?.notify(false);
      return result;
    },
    keepAlive: async (workerId, every, onLost) => {
      const beat = async () => {
        if (!(await runner.run(() => ops.maintenance.beatWithoutSession(workerId)))) onLost();
      };
      // One that is under way when it is stopped is waited for.
      let beating = Promise.resolve();
      const beatHere = () => {
        beating = beat().catch((error: unknown) => report(error, "heartbeat"));
      };
      const thread = reach.beat(workerId, every, strategy);
      if (thread === undefined) {
        const stop = repeat(every, beatHere, { keepAlive: false });
        return async () => {
          stop();
          await beating;
        };
      }
      const heartbeat = new Heartbeat(thread, onLost, beatHere);
      return async () => {
        await heartbeat.stop();
        await beating;
      };
    },
    watch: (listener) => notifier?.add(listener) ?? (() => undefined),
    diagnose: async () => {
      const facts = await runner.ask((asked) => kind.diagnose(asked));
      const move = await transferFactsOf(
        () => runner.run(() => ops.transfer.state()),
        kind.migrations.isDenied,
      );
      return [...facts, { name: "claim strategy", value: strategy }, ...move];
    },
    close: async () => {
      runner.close();
      await notifier?.close();
      await reach.pool.close();
      await reach.close();
    },
  };
}

/** What `fn` throws is thrown as it is; once it has begun, it is never run a second time. */
async function runTransaction<T>(
  runner: ServerRunner,
  { failureOf }: ServerSteps,
  reach: ServerReach,
  fn: (tx: unknown) => MaybePromise<T>,
): Promise<T> {
  let [begun, returned] = [false, false];
  let failure: { error: unknown } | undefined;
  const run = async (tx: ServerDrizzle): Promise<T> => {
    begun = true;
    try {
      const result = await fn(tx);
      returned = true;
      return result;
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      await ending(tx);
    }
  };
  return await runner.again(
    () => reach.transact(run),
    (error) => {
      if (failure) throw failure.error;
      // All that was left to be answered is COMMIT.
      if (returned && failureOf(error) === "lost") return runner.toDatabaseError(error, true);
      return begun ? runner.toDatabaseError(error) : undefined;
    },
  );
}
