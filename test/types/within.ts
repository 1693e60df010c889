/**
 * Calls inside a transaction are synchronous where the driver is, and return promises elsewhere. The driver's types
 * decide.
 */
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import type { MySql2Database } from "drizzle-orm/mysql2";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import type { SqliteRemoteDatabase } from "drizzle-orm/sqlite-proxy";
import { currentTask, type Queue, type RunningTask, type TaskId, task } from "../../src/index.ts";
import { same } from "./equal.ts";

declare const queue: Queue;
const resize = task("resize", async (_path: string, _width: number) => ({ bytes: 1 }));
const now = task("now", () => "now");

type Id = TaskId<{ bytes: number }>;
type Schema = Record<string, never>;
/** What Drizzle passes to the callback of a transaction. */
type Sqlite = Parameters<Parameters<BetterSQLite3Database["transaction"]>[0]>[0];
type Postgres = Parameters<Parameters<NodePgDatabase["transaction"]>[0]>[0];
type Mysql = Parameters<Parameters<MySql2Database["transaction"]>[0]>[0];

export function synchronous(db: BetterSQLite3Database, tx: Sqlite, app: BetterSQLite3Database<Schema>): void {
  const id = queue.within(tx).enqueueTask(resize, "a.png", 320);
  same<typeof id, Id>(true);
  const ids = queue.within(tx).enqueueTasks([[resize, "a.png", 320], [now]]);
  same<typeof ids, [Id, TaskId<string>]>(true);
  const [a, b] = [queue.within(db).enqueueTask(now), queue.within(app).enqueueTask(now)];
  same<[typeof a, typeof b], [TaskId<string>, TaskId<string>]>(true);
  const nested = tx.transaction((inner) => queue.within(inner).enqueueTask(now));
  same<typeof nested, TaskId<string>>(true);
  const inTransaction = db.transaction((own) => queue.within(own).enqueueTask(now));
  same<typeof inTransaction, TaskId<string>>(true);
  const completed = currentTask().within(tx).complete({ bytes: 1 });
  same<typeof completed, void>(true);
}

export async function asynchronous(
  postgres: NodePgDatabase,
  pgTransaction: Postgres,
  mysql: MySql2Database,
  mysqlTransaction: Mysql,
  remote: SqliteRemoteDatabase,
): Promise<void> {
  const ids = [
    queue.within(postgres).enqueueTask(resize, "a.png", 320),
    queue.within(pgTransaction).enqueueTask(resize, "a.png", 320),
    queue.within(mysql).enqueueTask(resize, "a.png", 320),
    queue.within(mysqlTransaction).enqueueTask(resize, "a.png", 320),
    queue.within(remote).enqueueTask(resize, "a.png", 320),
  ] as const;
  same<typeof ids, readonly [Promise<Id>, Promise<Id>, Promise<Id>, Promise<Id>, Promise<Id>]>(true);
  const many = queue.within(pgTransaction).enqueueTasks([[now], [resize, "a.png", 320]]);
  same<typeof many, Promise<[TaskId<string>, Id]>>(true);
  const completed = currentTask().within(mysqlTransaction).complete();
  same<typeof completed, Promise<void>>(true);
}

export async function transactions(): Promise<void> {
  const id = await queue.transaction((tx: Sqlite, q) => {
    const inside = q.enqueueTask(resize, "a.png", 320);
    same<typeof inside, Id>(true);
    same<typeof tx, Sqlite>(true);
    return inside;
  });
  same<typeof id, Id>(true);
  // The result when the type of the transaction is not given.
  const told: TaskId<string> = await queue.transaction((_, q) => q.enqueueTask(now));
  same<typeof told, TaskId<string>>(true);
  const text = await queue.transaction(() => "text");
  same<typeof text, string>(true);
}

export function wrong(tx: Sqlite, pgTransaction: Postgres): void {
  // @ts-expect-error: arguments are checked inside a transaction, too
  queue.within(tx).enqueueTask(resize, "a.png", "320");
  // @ts-expect-error: missing arguments as well
  queue.within(pgTransaction).enqueueTask(resize, "a.png");
  // @ts-expect-error: and each of many
  queue.within(tx).enqueueTasks([[now], [resize, "a.png"], [now]]);
  // @ts-expect-error: the id is there at once, not a promise
  queue.within(tx).enqueueTask(now).then();
  // @ts-expect-error: on Postgres it is a promise
  const id: TaskId<string> = queue.within(pgTransaction).enqueueTask(now);
  // @ts-expect-error: the same inside the queue's own transaction
  void queue.transaction((inner: Sqlite, q) => q.enqueueTask(resize, inner, 320));
  same<typeof id, never>(false);
}

export function running(): void {
  const current = currentTask<{ db: string }>();
  same<typeof current, RunningTask<{ db: string }>>(true);
  same<typeof current.context, { db: string }>(true);
  same<typeof current.signal, AbortSignal>(true);
  same<ReturnType<typeof currentTask>["context"], unknown>(true);
  // @ts-expect-error: progress is a number
  current.progress("half");
  // @ts-expect-error: the running task is not for writing
  current.retryCount = 0;
}
