/**
 * The server ends an app's connection in the middle of a transaction, as `pg_terminate_backend` and a restart do. An error event
 * of the driver without a listener would end the process. Clients of postgres.js and PGlite have no such events.
 */
import type { EventEmitter } from "node:events";
import { Socket } from "node:net";
import { sql } from "drizzle-orm";
import { drizzle as overMysql } from "drizzle-orm/mysql2";
import { drizzle as overPostgres } from "drizzle-orm/node-postgres";
import { createPool as createCallbackPool } from "mysql2";
import { createConnection, createPool } from "mysql2/promise";
import { Client, Pool } from "pg";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { clientUnder } from "../../../src/base/runtime/drizzle-internals.ts";
import { type Queue, remoteTask } from "../../../src/index.ts";
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const [postgres, mysql] = await Promise.all([postgresServer(), mysqlServer()]);
const task = remoteTask("f");

/** The part of a Drizzle database or transaction that is the same over each driver. */
interface Db {
  execute(query: unknown): Promise<unknown>;
  transaction(fn: (tx: Db) => Promise<void>): Promise<void>;
}

/** How a server names and ends sessions. */
interface Sessions {
  own: string;
  end(id: unknown): Promise<unknown>;
}

/** The errors that would have ended this process while `act` ran. */
async function uncaughtDuring(act: () => Promise<void>): Promise<unknown[]> {
  const listeners = process.listeners("uncaughtException");
  const seen: unknown[] = [];
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => seen.push(error));
  try {
    await act();
  } finally {
    process.removeAllListeners("uncaughtException");
    for (const listener of listeners) process.on("uncaughtException", listener);
  }
  return seen;
}

const firstValue = (answer: unknown): unknown => {
  const rows = (answer as { rows?: object[] }).rows ?? (answer as object[]);
  return Object.values([rows[0]].flat()[0] as object)[0];
};

/** The socket of the driver's connection under a transaction. */
const socketOf = (tx: Db) => (clientUnder(tx) as { connection: { stream: Socket } }).connection.stream;

/** Ends the transaction's session, and uses it once more when its client knows that. */
async function endSession(tx: Db, { own, end }: Sessions): Promise<void> {
  await end(firstValue(await tx.execute(sql.raw(own))));
  await vi.waitUntil(() => socketOf(tx).closed, { timeout: 10_000 });
  await tx.execute(sql.raw("select 1"));
}

/** The listeners for errors of the driver's connection under a transaction. */
const listenersOf = (tx: Db): number | undefined => {
  const client = clientUnder(tx) as Partial<EventEmitter> & { connection?: EventEmitter };
  return (client.listenerCount ? client : client.connection)?.listenerCount?.("error");
};

/** The ways in which dbq takes part in a transaction of the app's. */
const ways = [
  [
    "queue.transaction",
    (queue: Queue, _: Db, fn: (tx: Db) => Promise<void>) =>
      queue.transaction(async (tx, q) => {
        await q.enqueueTask(task);
        await fn(tx as unknown as Db);
      }),
  ],
  [
    "queue.transaction without an enqueue",
    (queue: Queue, _: Db, fn: (tx: Db) => Promise<void>) =>
      queue.transaction((tx) => fn(tx as unknown as Db)),
  ],
  [
    "queue.within",
    (queue: Queue, db: Db, fn: (tx: Db) => Promise<void>) =>
      db.transaction(async (tx) => {
        await (queue.within(tx as never).enqueueTask(task) as Promise<unknown>);
        await fn(tx);
      }),
  ],
] as const;

interface Opened {
  db: Db;
  queue: Queue;
}

function endsNoProcess(kinds: readonly (readonly [string, () => Promise<Opened>])[], sessions: Sessions) {
  describe.each(kinds)("over %s", (_, open) => {
    it.each(ways)("an ended connection in %s rejects, and ends no process", async (__, transact) => {
      const { db, queue } = await open();
      const before = await queue.countTasks();
      const uncaught = await uncaughtDuring(async () => {
        await expect(transact(queue, db, (tx) => endSession(tx, sessions))).rejects.toThrow();
        expect(await queue.countTasks()).toEqual(before);
      });
      expect(uncaught).toEqual([]);
    });

    it.each(ways)("%s takes its listener off when the transaction has ended", async (__, transact) => {
      const { db, queue } = await open();
      const counts: (number | undefined)[] = [];
      for (const fails of [false, true, false]) {
        const ending = transact(queue, db, async (tx) => {
          counts.push(listenersOf(tx));
          if (fails) throw new Error("the app's");
        });
        await (fails ? expect(ending).rejects.toThrow("the app's") : ending);
      }
      // One that stayed would be counted again.
      expect(counts).toEqual([counts[0], counts[0], counts[0]]);
    });
  });
}

async function opened(db: unknown, target = db as object | string): Promise<Opened> {
  return { db: db as Db, queue: await temporaryQueue({}, target) };
}

describe.skipIf(isMissing(postgres))("on Postgres", () => {
  let schema: Schema;
  beforeAll(async () => {
    schema = await newSchema();
    return schema.drop;
  });

  function ownPool(settings: object = {}): Pool {
    const pool = new Pool({ connectionString: schema.url, max: 1, ...settings });
    // Without it, an app's pool ends the process by itself.
    pool.on("error", () => undefined);
    onTestFinished(() => pool.end());
    return pool;
  }

  endsNoProcess(
    [
      ["a pool of node-postgres", () => opened(overPostgres({ client: ownPool() }))],
      [
        "a client of node-postgres",
        async () => {
          const client = new Client({ connectionString: schema.url });
          await client.connect();
          onTestFinished(() => client.end());
          return await opened(overPostgres({ client }));
        },
      ],
      ["a queue's own connections", () => opened(overPostgres({ client: ownPool() }), schema.url)],
    ],
    {
      own: "select pg_backend_pid()",
      end: (pid) => schema.client.query("select pg_terminate_backend($1)", [pid]),
    },
  );

  it("dbq listens for errors in its own transactions on a pool of the app's", async () => {
    // dbq cannot connect by a stream of the app's own.
    const pool = ownPool({ stream: () => new Socket() });
    const counts: number[] = [];
    pool.on("acquire", (client) => {
      const query = client.query.bind(client);
      client.query = ((...given: Parameters<typeof query>) => {
        if ((given[0] as unknown as { text?: string }).text !== "begin")
          counts.push(client.listenerCount("error"));
        return query(...given);
      }) as typeof client.query;
    });
    const queue = await temporaryQueue({}, overPostgres({ client: pool }));
    counts.length = 0;
    await queue.enqueueTasks([[task.with({ uniqueKey: "a" })], [task.with({ uniqueKey: "b" })]]);
    expect(counts.length).toBeGreaterThan(1);
    expect(counts).not.toContain(0);
  });
});

describe.skipIf(isMissing(mysql))("on MariaDB", () => {
  let database: OwnDatabase;
  beforeAll(async () => {
    database = await newDatabase();
    return database.drop;
  });

  endsNoProcess(
    [
      [
        "a pool of mysql2",
        () => {
          const pool = createPool({ uri: database.url, connectionLimit: 1 });
          onTestFinished(() => pool.end());
          return opened(overMysql({ client: pool }));
        },
      ],
      [
        "a pool of mysql2 with callbacks",
        () => {
          const pool = createCallbackPool({ uri: database.url, connectionLimit: 1 });
          onTestFinished(() => pool.promise().end());
          return opened(overMysql({ client: pool }));
        },
      ],
      [
        "a connection of mysql2",
        async () => {
          const client = await createConnection({ uri: database.url });
          onTestFinished(() => client.end().catch(() => undefined));
          return await opened(overMysql({ client }));
        },
      ],
    ],
    {
      own: "select connection_id() as id",
      end: (id) => database.client.query(`kill ${id}`),
    },
  );
});
