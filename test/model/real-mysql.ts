/** The real store on MySQL or MariaDB. */
import type { ResultSetHeader } from "mysql2/promise";
import { openMysql } from "../../src/stores/mysql/store.ts";
import { newDatabase } from "../support/mysql.ts";
import { RealServer, type Server } from "./real-server.ts";
import type { Row } from "./real-store.ts";
import { type Client, type Failing, Wire } from "./wire.ts";

/** Above the explicit ids in rows of the commands. */
const firstId = 20_000;

const failing: Failing = {
  throws: (query) => query("signal sqlstate '45000' set message_text = 'the disk is full'"),
  passes: (query) => query("signal sqlstate '40001' set mysql_errno = 1213, message_text = 'deadlock'"),
  commits: async (query) => {
    await query("rollback");
    return await failing.throws(query);
  },
};

/** Sets the session's clock. Half a millisecond is added because the server's seconds are not exact decimals. */
const clockText = () => `set timestamp = ${((Date.now() + 0.5) / 1_000).toFixed(4)}`;

export async function openRealMysql(strategy: "skip-locked" | "optimistic"): Promise<RealServer> {
  const { client, url, drop } = await newDatabase();
  const shown = new WeakMap<object, string>();
  const wire = new Wire(failing, async (connection, query) => {
    const text = clockText();
    if (shown.get(connection) === text) return;
    await query(text);
    shown.set(connection, text);
  });
  wire.standBefore(Object.getPrototypeOf(client) as Client, (asked) => asked === client);
  const store = await openMysql(url, { migrate: true, strategy });
  await client.query(`alter table dbq_tasks auto_increment = ${firstId}`);
  const server: Server = {
    ask: async (text) => (await client.query(text))[0] as unknown as Row[][],
    insert: async (columns, written, values) => {
      const text = `insert into dbq_tasks (${columns.join(", ")}) values (${written.join(", ")})`;
      const [{ insertId }] = await client.query<ResultSetHeader>(text, [...values]);
      return columns.includes("id") ? Number(values[columns.indexOf("id")]) : insertId;
    },
    millis: (column) => `timestampdiff(microsecond, '1970-01-01', ${column}) div 1000`,
    time: (parameter) => `timestampadd(microsecond, ${parameter} * 1000, '1970-01-01')`,
    text: (column) => column,
    parameter: () => "?",
    setClock: async () => {
      await client.query(clockText());
    },
    close: drop,
  };
  return new RealServer(store, server, wire, {
    ids: true,
    cursors: false,
    seesFirst: strategy === "optimistic",
  });
}
