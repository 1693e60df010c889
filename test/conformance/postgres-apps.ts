/** The stores on Postgres that an app's own Drizzle database leads to, over each driver. */
import { PGlite } from "@electric-sql/pglite";
import { drizzle as overPglite } from "drizzle-orm/pglite";
import { drizzle as overPostgresJs } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import { openPostgresDatabase } from "../../src/stores/postgres/store.ts";
import type { AppDatabase, Kind, Row } from "./case.ts";
import { nodePostgres, postgresDialect } from "./postgres-stores.ts";
import { type Driver, emptied, onDatabaseOf, type ServerKind, serverKind } from "./server-stores.ts";

/** With settings that some apps give it. */
const postgresJs: Driver = (url) => {
  const client = postgres(url, { types: { bigint: postgres.BigInt }, transform: postgres.camel });
  return { db: overPostgresJs(client), end: () => client.end() };
};

const migrate = true;

const app = (name: string, driver: Driver, more: Partial<ServerKind>) =>
  serverKind(postgresDialect, {
    name: `Postgres, an app's database over ${name}`,
    lacks: {},
    driver,
    connect: (url) => onDatabaseOf(driver, url, (db) => openPostgresDatabase(db, { migrate })),
    ...more,
  });

// ---- in the process --------------------------------------------------------------------------

function missing(what: string): () => never {
  return () => {
    throw new Error(`this store lacks ${what}: the case should say that it needs it`);
  };
}

function pglite(): Kind {
  let running: PGlite | undefined;
  const start = () => {
    running ??= new PGlite();
    return running;
  };
  const connect = () => openPostgresDatabase(overPglite(start()), { migrate });
  return {
    name: "Postgres, an app's database over PGlite",
    // It is asked as postgres.js is, and takes some seconds to start.
    concerns: ["insert", "transaction and within", "turn: claim", "turn: settle"],
    lacks: {
      "several connections": "a PGlite is one connection",
      restart: "a database in memory ends with its process",
      heartbeats: "a database that one process alone can open needs no proof of life",
      "transactions whose end waits":
        "PGlite ends a transaction by itself: what is not awaited may come after",
    },
    connect,
    make: async () => {
      const client = start();
      await (await connect()).close();
      await client.exec(`${emptied}; select pg_advisory_unlock_all(); unlisten *`);
      return {
        url: "memory://",
        open: connect,
        sql: async (text) => (await client.query<Row>(text)).rows,
        earlier: postgresDialect.earlier,
        app: () => overPglite(client) as unknown as AppDatabase,
        begin: missing("several connections"),
        remove: async () => undefined,
      };
    },
    end: async () => await running?.close(),
  };
}

export const postgresApps: readonly Kind[] = [
  // Its connections are known, so that dbq opens its own, as it does by a URL.
  app("node-postgres", nodePostgres, {
    concerns: ["transaction and within", "heartbeat", "watch and diagnose"],
  }),
  app("postgres.js", postgresJs, {
    concerns: [
      "insert",
      "transaction and within",
      "turn: claim",
      "turn: settle",
      "heartbeat",
      "watch and diagnose",
    ],
    lacks: {
      "hints between connections": "what is asked over postgres.js listens to nobody: workers poll",
      "heartbeats on a thread": "no other thread can use the app's connections",
      "transactions whose end waits":
        "postgres.js ends a transaction by itself: what is not awaited may come after",
    },
  }),
  pglite(),
];
