/** The stores on Postgres that open their own connections. */
import { drizzle } from "drizzle-orm/node-postgres";
import { Pool, types } from "pg";
import type { FullStore } from "../../src/features/store.ts";
import { openPostgres } from "../../src/stores/postgres/store.ts";
import { newSchema } from "../support/postgres.ts";
import type { Kind, Row } from "./case.ts";
import { type Driver, type ServerDialect, type ServerKind, serverKind } from "./server-stores.ts";

export const postgresDialect: ServerDialect = {
  newHome: async () => {
    const { client, drop, url } = await newSchema();
    return { url, drop, sql: async (text) => (await client.query<Row>(text)).rows };
  },
  earlier: (column, ms) => `${column} - interval '${ms} milliseconds'`,
};

/** The same, for a queue that names the schema: nothing is found by the search path of its connections, or of the app's. */
const namingDialect: ServerDialect = {
  ...postgresDialect,
  newHome: async () => {
    const { client, drop, name, url } = await newSchema();
    const elsewhere = `${url.replace(`search_path=${name}`, "search_path=nowhere")}&schema=${name}`;
    if (elsewhere.includes(`path=${name}`)) throw new Error(`${url} has another form than expected`);
    return { url: elsewhere, drop, sql: async (text) => (await client.query<Row>(text)).rows };
  },
};

const bigint = 20;

/** An app's database, with settings that some apps use. */
export const nodePostgres: Driver = (url) => {
  const getTypeParser: typeof types.getTypeParser = (type, format) =>
    type === bigint ? BigInt : types.getTypeParser(type, format);
  const pool = new Pool({ connectionString: url, types: { getTypeParser } });
  return { db: drizzle({ client: pool }), end: () => pool.end() };
};

const migrate = true;
const server = (
  name: string,
  options: Omit<Parameters<typeof openPostgres>[1], "migrate"> = {},
  more: Partial<ServerKind> = {},
) =>
  serverKind(postgresDialect, {
    name,
    lacks: {},
    driver: nodePostgres,
    connect: (url) => openPostgres(url, { migrate, ...options }),
    ...more,
  });

export const postgresMain: readonly Kind[] = [server("Postgres")];

const forEver = { completed: Infinity, cancelled: Infinity, failed: Infinity };

/** A store whose finished tasks have moved to partitions before anything can look at them. */
function moving(store: FullStore): FullStore {
  const thenMoves =
    <A extends unknown[], R>(method: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      const answer = await method(...args);
      await store.partitions?.move(forEver, 1_000, 0);
      return answer;
    };
  return {
    ...store,
    settleAndClaim: thenMoves(store.settleAndClaim),
    cancel: thenMoves(store.cancel),
    look: { ...store.look, cancelEach: thenMoves(store.look.cancelEach) },
  };
}

export const postgresVariants: readonly Kind[] = [
  server(
    "Postgres, optimistic",
    { strategy: "optimistic" },
    {
      concerns: ["claim", "races between connections", "contention between processes"],
      lacks: {
        "cycles in one transaction":
          "for a claim without locks a cycle settles and claims in two transactions",
      },
    },
  ),
  server(
    "Postgres, with finished tasks in partitions",
    {},
    {
      concerns: [
        "get, list, count, idle, attempts",
        "settle",
        "cancel and retry",
        "find, edit and act on many",
      ],
      lacks: { "finished tasks that stay in place": "they move to partitions, which are dropped as a whole" },
      connect: async (url) => moving(await openPostgres(url, { migrate })),
    },
  ),
  server(
    "Postgres, without sessions",
    { sessions: false },
    {
      lacks: {
        "change notifications": "LISTEN needs a session: workers poll",
        "readers that refuse to write": "a pooler gives its connections no settings",
      },
      concerns: ["insert", "transaction and within", "claim", "heartbeat", "watch and diagnose"],
    },
  ),
];

export const postgresInSchema: readonly Kind[] = [
  serverKind(namingDialect, {
    name: "Postgres, in a schema",
    lacks: {},
    driver: nodePostgres,
    connect: (url) => openPostgres(url, { migrate, schema: new URL(url).searchParams.get("schema") ?? "" }),
  }),
];

export const postgresStores: readonly Kind[] = [...postgresMain, ...postgresInSchema, ...postgresVariants];
