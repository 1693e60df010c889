/** The real store on Postgres. */
import { Client, type QueryResult } from "pg";
import { openPostgres } from "../../src/stores/postgres/store.ts";
import { newSchema } from "../support/postgres.ts";
import { RealServer, type Server } from "./real-server.ts";
import type { Row } from "./real-store.ts";
import { type Client as Asked, type Failing, Wire } from "./wire.ts";

/** Above the explicit ids in rows of the commands: Postgres would use those a second time. */
const firstId = 20_000;

/** Replaces the server's clock functions for connections with this schema before `pg_catalog` in their path. */
const clock = `
  create table dbq_test_clock (at timestamptz not null);
  insert into dbq_test_clock values (now());
  create function statement_timestamp() returns timestamptz stable language sql return (select at from dbq_test_clock);
  create function clock_timestamp() returns timestamptz stable language sql return (select at from dbq_test_clock)`;

/** A row with a dangling reference: its transaction cannot be committed. */
const neverCommitted = `
  create table dbq_test_targets (id integer primary key);
  create table dbq_test_pointers (target integer references dbq_test_targets (id) deferrable initially deferred)`;

const failing: Failing = {
  throws: (query) => query("select 1 / 0"),
  passes: (query) => query("do $$ begin raise exception 'again' using errcode = '40001'; end $$"),
  commits: async (query) => {
    await query("insert into dbq_test_pointers values (1)");
    return await query("commit");
  },
};

export async function openRealPostgres(strategy: "skip-locked" | "optimistic"): Promise<RealServer> {
  const { client, url, name, drop } = await newSchema();
  await client.query(`${clock}; ${neverCommitted}`);
  const wire = new Wire(failing, async () => undefined);
  wire.standBefore(Client.prototype as unknown as Asked, (asked) => asked === client);
  const clocked = url.replace(`search_path%3D${name}`, `search_path%3D${name}%2Cpg_catalog`);
  const store = await openPostgres(clocked, { migrate: true, strategy });
  await client.query("select setval('dbq_tasks_id_seq', $1)", [firstId]);
  const server: Server = {
    ask: async (text) => {
      const results = (await client.query<Row>(text)) as unknown as QueryResult<Row>[];
      return results.map(({ rows }) => rows);
    },
    insert: async (columns, written, values) => {
      const text = `insert into dbq_tasks (${columns.join(", ")}) values (${written.join(", ")}) returning id`;
      return Number((await client.query<Row>(text, [...values])).rows[0]?.id);
    },
    millis: (column) => `(extract(epoch from ${column}) * 1000)::bigint`,
    time: (parameter) => `timestamptz 'epoch' + ${parameter} * interval '1 millisecond'`,
    text: (column) => `${column}::text`,
    parameter: (index) => `$${index + 1}`,
    setClock: async () => {
      const text = "update dbq_test_clock set at = timestamptz 'epoch' + $1 * interval '1 millisecond'";
      await client.query(text, [Date.now()]);
    },
    close: drop,
  };
  return new RealServer(store, server, wire, {
    ids: true,
    cursors: strategy === "skip-locked",
    seesFirst: true,
  });
}
