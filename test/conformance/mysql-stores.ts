/** The stores on MySQL and MariaDB. */
import { drizzle } from "drizzle-orm/mysql2";
import { createPool } from "mysql2";
import { openMysql, openMysqlDatabase } from "../../src/stores/mysql/store.ts";
import { elsewhere, newDatabase } from "../support/mysql.ts";
import type { Kind, Row } from "./case.ts";
import {
  type Driver,
  onDatabaseOf,
  type ServerDialect,
  type ServerKind,
  serverKind,
} from "./server-stores.ts";

const dialect: ServerDialect = {
  newHome: async () => {
    const { client, drop, url } = await newDatabase();
    return {
      url,
      drop,
      sql: async (text) => {
        const [rows] = await client.query(text);
        return Array.isArray(rows) ? (rows as Row[]) : [];
      },
    };
  },
  earlier: (column, ms) => `${column} - interval ${ms * 1_000} microsecond`,
};

/** With settings that some apps use. */
const mysql2: Driver = (uri) => {
  const pool = createPool({ uri, supportBigNumbers: true, bigNumberStrings: true, namedPlaceholders: true });
  pool.on("connection", (connection) => connection.query(`set time_zone = '${elsewhere}'`));
  return { db: drizzle({ client: pool }), end: () => pool.promise().end() };
};

const migrate = true;
const lacks = {
  "change notifications": "MySQL does not notify connections of a commit: workers poll",
} as const;

const server = (
  name: string,
  options: Omit<Parameters<typeof openMysql>[1], "migrate"> = {},
  more: Partial<ServerKind> = {},
) =>
  serverKind(dialect, {
    name,
    lacks,
    driver: mysql2,
    connect: (url) => openMysql(url, { migrate, ...options }),
    ...more,
  });

export const mysqlMain: readonly Kind[] = [server("MySQL")];

export const mysqlVariants: readonly Kind[] = [
  server(
    "MySQL, optimistic",
    { strategy: "optimistic" },
    {
      concerns: ["claim", "races between connections", "contention between processes"],
      lacks: {
        ...lacks,
        "cycles in one transaction":
          "for a claim without locks a cycle settles and claims in two transactions",
      },
    },
  ),
  // dbq recognises these connections, and so opens a pool of its own, as it does for a URL.
  server(
    "MySQL, an app's database over mysql2",
    {},
    {
      connect: (url) => onDatabaseOf(mysql2, url, (db) => openMysqlDatabase(db, { migrate })),
      concerns: ["transaction and within", "heartbeat", "watch and diagnose"],
    },
  ),
];

export const mysqlStores: readonly Kind[] = [...mysqlMain, ...mysqlVariants];
