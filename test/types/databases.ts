/** The target of `openQueue` decides what `tx` is in `queue.transaction`, and whether `q` returns promises. */
import { sql } from "drizzle-orm";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import { int, mysqlTable, varchar } from "drizzle-orm/mysql-core";
import type { MySql2Database } from "drizzle-orm/mysql2";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import { pgTable, text as pgText, serial } from "drizzle-orm/pg-core";
import type { PgliteDatabase } from "drizzle-orm/pglite";
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import {
  type MysqlDatabase,
  openQueue,
  type PostgresDatabase,
  type Queue,
  type QueueTarget,
  type SqliteDatabase,
  setDefaultQueue,
  type TaskId,
  type TransactionOf,
  task,
  Worker,
} from "../../src/index.ts";
import { same } from "./equal.ts";

const pgOrders = pgTable("orders", { id: serial().primaryKey(), item: pgText().notNull() });
const mysqlOrders = mysqlTable("orders", { id: int().primaryKey(), item: varchar({ length: 9 }) });
const sqliteOrders = sqliteTable("orders", { id: integer().primaryKey(), item: text().notNull() });
const send = task("send", async (_order: number) => "sent");
type Id = TaskId<string>;

export async function targets(url: string, target: QueueTarget, host: string): Promise<void> {
  const opened = {
    postgres: await openQueue("postgres://ada@localhost/shop"),
    postgresql: await openQueue("PostgreSQL://ada@localhost/shop", { poolSize: 2 }),
    template: await openQueue(`postgres://ada@${host}/shop`),
    mysql: await openQueue("mysql://root@localhost/shop"),
    mariadb: await openQueue("mariadb://root@localhost/shop"),
    path: await openQueue("./data/shop.db"),
    windows: await openQueue("C:\\data\\shop.db"),
    url: await openQueue("sqlite:shop.db"),
    memory: await openQueue(":memory:", { synchronous: "normal" }),
  };
  type Opened = typeof opened;
  same<Opened["postgres" | "postgresql" | "template"], Queue<PostgresDatabase>>(true);
  same<Opened["mysql" | "mariadb"], Queue<MysqlDatabase>>(true);
  same<Opened["path" | "windows" | "url" | "memory"], Queue<SqliteDatabase>>(true);
  const unknown = [
    ...[await openQueue(), await openQueue(url), await openQueue(target)],
    ...[await openQueue(`${url}/shop`), await openQueue("redis://localhost"), await openQueue({})],
    await openQueue(process.env.DATABASE_URL ?? "shop.db"),
  ];
  same<(typeof unknown)[number], Queue>(true);
}

export async function postgres(): Promise<void> {
  const queue = await openQueue("postgres://ada@localhost/shop");
  const placed = await queue.transaction(async (tx, q) => {
    const [order] = await tx.insert(pgOrders).values({ item: "tea" }).returning();
    same<typeof order, { id: number; item: string } | undefined>(true);
    const { rows } = await tx.execute<{ n: number }>(sql`select 1 as n`);
    same<typeof rows, { n: number }[]>(true);
    const id = q.enqueueTask(send, order?.id ?? 0);
    same<typeof id, Promise<Id>>(true);
    const within = queue.within(tx).enqueueTasks([[send, 1]]);
    same<typeof within, Promise<[Id]>>(true);
    // @ts-expect-error: a table of another database
    tx.insert(sqliteOrders);
    // @ts-expect-error: the id is a promise
    const early: Id = q.enqueueTask(send, 1);
    // @ts-expect-error: arguments are checked
    await q.enqueueTask(send, "1");
    same<typeof early, never>(false);
    return await id;
  });
  same<typeof placed, Id>(true);
}

export async function mysql(): Promise<void> {
  const queue = await openQueue("mysql://root@localhost/shop");
  await queue.transaction(async (tx, q) => {
    const [{ insertId }] = await tx.insert(mysqlOrders).values({ id: 1, item: "tea" });
    same<typeof insertId, number>(true);
    const id = q.enqueueTask(send, insertId);
    same<typeof id, Promise<Id>>(true);
    // @ts-expect-error: MySQL has no RETURNING
    tx.insert(mysqlOrders).values({ id: 1 }).returning();
  });
}

export async function sqlite(): Promise<void> {
  const queue = await openQueue("shop.db");
  const placed = await queue.transaction((tx, q) => {
    const order = tx.insert(sqliteOrders).values({ item: "tea" }).returning().get();
    same<typeof order, { id: number; item: string }>(true);
    const { changes } = tx.run(sql`delete from orders`);
    same<typeof changes, number>(true);
    const id = q.enqueueTask(send, order.id);
    same<typeof id, Id>(true);
    // @ts-expect-error: only servers have it
    tx.execute(sql`select 1`);
    // @ts-expect-error: the id is there at once
    id.then();
    return id;
  });
  same<typeof placed, Id>(true);
}

/** An app's own Drizzle databases: `tx` is theirs. */
export async function ownDatabases(
  pg: NodePgDatabase,
  js: PostgresJsDatabase,
  lite: PgliteDatabase,
  my: MySql2Database,
  sq: BetterSQLite3Database & { $client: unknown },
): Promise<void> {
  const queue = await openQueue(pg);
  await queue.transaction(async (tx, q) => {
    same<typeof tx, Parameters<Parameters<typeof pg.transaction>[0]>[0]>(true);
    const id = q.enqueueTask(send, 1);
    same<typeof id, Promise<Id>>(true);
  });
  await (await openQueue(js)).transaction(async (tx) => tx.insert(pgOrders).values({ item: "tea" }));
  await (await openQueue(lite)).transaction(async (tx) => tx.insert(pgOrders).values({ item: "tea" }));
  await (await openQueue(my)).transaction(async (tx) => tx.insert(mysqlOrders).values({ id: 1 }));
  const id = await (await openQueue(sq)).transaction((tx, q) => {
    tx.insert(sqliteOrders).values({ item: "tea" }).run();
    const inside = q.enqueueTask(send, 1);
    same<typeof inside, Id>(true);
    return inside;
  });
  same<typeof id, Id>(true);
}

/** A queue whose database only the environment names. */
export async function unknownDatabase(url: string): Promise<void> {
  const queue = await openQueue(url);
  await queue.transaction(async (tx, q) => {
    const id: Id = await q.enqueueTask(send, 1);
    // @ts-expect-error: its type must be said first
    tx.insert(pgOrders);
    // @ts-expect-error: it may be a promise
    const early: Id = q.enqueueTask(send, 1);
    same<[typeof id, typeof early], never>(false);
  });
  // By an annotation of `tx`, of the queue, or by type arguments.
  await queue.transaction(async (tx: NodePgDatabase, q) => {
    await tx.insert(pgOrders).values({ item: "tea" });
    const id = q.enqueueTask(send, 1);
    same<typeof id, Promise<Id>>(true);
  });
  const known: Queue<NodePgDatabase> = await openQueue(url);
  await known.transaction(async (tx) => tx.insert(pgOrders).values({ item: "tea" }));
  await queue.transaction<number, BetterSQLite3Database>((tx) => tx.run(sql`select 1`).changes);
}

/** A queue of any database is a `Queue`. */
export function plainQueues(pg: Queue<NodePgDatabase>, any: Queue, literal: Queue<PostgresDatabase>): void {
  const take = (queue: Queue) => new Worker(queue);
  take(pg);
  setDefaultQueue(pg);
  const list: Queue[] = [pg, any, literal];
  // biome-ignore lint/suspicious/noExplicitAny: any schema.
  const sameServer: Queue<NodePgDatabase<any>> = pg;
  const own: Queue<NodePgDatabase> = literal;
  // @ts-expect-error: a queue on Postgres is none on SQLite
  const wrong: Queue<BetterSQLite3Database> = pg;
  // @ts-expect-error: nor is one on Postgres by URL
  const literally: Queue<SqliteDatabase> = literal;
  // @ts-expect-error: nor a queue on MySQL
  const wrongToo: Queue<MySql2Database> = literal;
  same<[typeof list, typeof sameServer, typeof own, typeof wrong, typeof literally, typeof wrongToo], never>(
    false,
  );
}

export function transactionTypes(): void {
  same<TransactionOf<NodePgDatabase>, Parameters<Parameters<NodePgDatabase["transaction"]>[0]>[0]>(true);
  same<TransactionOf<unknown>, unknown>(true);
}
