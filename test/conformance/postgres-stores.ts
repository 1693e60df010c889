/** The stores on Postgres that have connections of their own. */
import { drizzle } from "drizzle-orm/node-postgres";
import { Pool, types } from "pg";
import { openPostgres } from "../../src/stores/postgres.ts";
import { newSchema } from "../support/postgres.ts";
import type { Kind, Need, Row } from "./case.ts";
import { type Driver, processesElsewhere, type ServerDialect, serverKind } from "./server-stores.ts";

export const postgresDialect: ServerDialect = {
  newHome: async () => {
    const { client, drop, url } = await newSchema();
    return { url, drop, sql: async (text) => (await client.query<Row>(text)).rows };
  },
  earlier: (column, ms) => `${column} - interval '${ms} milliseconds'`,
};

const bigint = 20;

/** What an app may have, with settings that some give it. */
export const nodePostgres: Driver = (url) => {
  const getTypeParser: typeof types.getTypeParser = (type, format) =>
    type === bigint ? BigInt : types.getTypeParser(type, format);
  const pool = new Pool({ connectionString: url, types: { getTypeParser } });
  return { db: drizzle(pool), end: () => pool.end() };
};

const migrate = true;
const withoutSessions = {
  ...processesElsewhere,
  "hints between connections": "nobody listens without a session: workers poll",
};

const server = (
  name: string,
  options: Omit<Parameters<typeof openPostgres>[1], "migrate"> = {},
  lacks: Partial<Record<Need, string>> = {},
) =>
  serverKind(postgresDialect, {
    name,
    lacks,
    driver: nodePostgres,
    connect: (url) => openPostgres(url, { migrate, ...options }),
  });

export const postgresMain: readonly Kind[] = [server("Postgres")];

export const postgresVariants: readonly Kind[] = [
  server("Postgres, optimistic", { strategy: "optimistic" }),
  server("Postgres, without sessions", { sessions: false }, withoutSessions),
];

export const postgresStores: readonly Kind[] = [...postgresMain, ...postgresVariants];
