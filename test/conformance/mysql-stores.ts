/** The stores on MySQL and MariaDB. */
import { drizzle } from "drizzle-orm/mysql2";
import { createPool } from "mysql2/promise";
import { openMysql, openMysqlDatabase } from "../../src/stores/mysql.ts";
import { newDatabase } from "../support/mysql.ts";
import type { Kind, Row } from "./case.ts";
import {
  type Driver,
  onDatabaseOf,
  processesElsewhere,
  type ServerDialect,
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

/** With settings that some apps give it. */
const mysql2: Driver = (uri) => {
  const pool = createPool({ uri, supportBigNumbers: true, bigNumberStrings: true, namedPlaceholders: true });
  return { db: drizzle(pool), end: () => pool.end() };
};

const migrate = true;
const lacks = { "hints between connections": "MySQL tells nobody of a commit: workers poll" } as const;

const server = (name: string, options: Omit<Parameters<typeof openMysql>[1], "migrate"> = {}) =>
  serverKind(dialect, {
    name,
    lacks,
    driver: mysql2,
    connect: (url) => openMysql(url, { migrate, ...options }),
  });

export const mysqlMain: readonly Kind[] = [server("MySQL")];

export const mysqlVariants: readonly Kind[] = [
  server("MySQL, optimistic", { strategy: "optimistic" }),
  serverKind(dialect, {
    name: "MySQL, an app's database over mysql2",
    lacks: { ...processesElsewhere, ...lacks },
    driver: mysql2,
    connect: (url) => onDatabaseOf(mysql2, url, (db) => openMysqlDatabase(db, { migrate })),
  }),
];

export const mysqlStores: readonly Kind[] = [...mysqlMain, ...mysqlVariants];
