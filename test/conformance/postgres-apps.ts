/** The stores on Postgres over an app's own Drizzle database, one for each driver. */
import { PGlite } from "@electric-sql/pglite";
import { drizzle as overPglite } from "drizzle-orm/pglite";
import { drizzle as overPostgresJs } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import { openPostgresDatabase } from "../../src/stores/postgres/store.ts";
import type { AppDatabase, Kind, Row } from "./case.ts";
import { nodePostgres, postgresDialect } from "./postgres-stores.ts";
import { type Driver, emptied, onDatabaseOf, type ServerKind, serverKind } from "./server-stores.ts";

/** With settings that some apps use. */
const postgresJs: Driver = (url) => {
  const client = postgres(url, { types: { bigint: postgres.BigInt }, transform: postgres.camel });
  return { db: overPostgresJs({ client }), end: () => client.end() };
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

// ---- PGlite, in the process --------------------------------------------------------------------

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
  const connect = () => openPostgresDatabase(overPglite({ client: start() }), { migrate });
  return {
    name: "Postgres, an app's database over PGlite",
    // dbq uses it like postgres.js, and it takes some seconds to start.
    concerns: ["insert", "transaction and within", "claim", "settle"],
    lacks: {
      "several connections": "a PGlite is one connection",
      restart: "a database in memory ends with its process",
      heartbeats: "only one process can open this database, so its workers need no heartbeats",
      "readers that refuse to write": "no other connection can be made: a reader is the store itself",
      "transactions that await their writes":
        "PGlite ends a transaction by itself: a write that is not awaited may come after its end",
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
        app: () => overPglite({ client }) as unknown as AppDatabase,
        begin: missing("several connections"),
        remove: async () => undefined,
      };
    },
    end: async () => await running?.close(),
  };
}

export const postgresApps: readonly Kind[] = [
  // dbq recognises these connections, and so opens a pool of its own, as it does for a URL.
  app("node-postgres", nodePostgres, {
    concerns: ["transaction and within", "heartbeat", "watch and diagnose"],
  }),
  app("postgres.js", postgresJs, {
    concerns: ["insert", "transaction and within", "claim", "settle", "heartbeat", "watch and diagnose"],
    lacks: {
      "change notifications": "a store over postgres.js has no connection that can LISTEN: workers poll",
      "heartbeats on a thread": "no other thread can use the app's connections",
      "readers that refuse to write": "no other connection can be made: a reader is the store itself",
      "transactions that await their writes":
        "postgres.js ends a transaction by itself: a write that is not awaited may come after its end",
    },
  }),
  pglite(),
];
