/**
 * One row that another program has written, and that dbq cannot read, must not keep others from being read, run, limited and
 * shown; `diagnose` names its table and key.
 */
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, describe, expect, it } from "vitest";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { temporaryFolder } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";
import { brokenPages, onSqlite, problemOf, queueBeside, reads, withTime, worked } from "./unreadable.ts";

const server = await postgresServer();
const ends: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(ends.map((end) => end())));

const kinds = {
  SQLite: async () => {
    const file = join(temporaryFolder(), "dbq.db");
    const database = new Database(file);
    const sql = (text: string) => database.exec(text);
    return await queueBeside(file, sql, String(Date.now() - 100_000), onSqlite);
  },
  Postgres: async () => {
    const { url, client, drop } = await newSchema();
    ends.push(drop);
    const rows = withTime("timestamptz '290000-01-01'");
    return await queueBeside(url, (text) => client.query(text), "now() - interval '100 s'", rows);
  },
};

describe.each(Object.entries(kinds))("beside rows on %s that dbq cannot read", (name, open) => {
  it.skipIf(name === "Postgres" && isMissing(server))(
    "all others are read, run, limited and shown, and diagnose names these",
    async () => {
      const { queue, missing } = await open();
      expect(await missing()).toEqual([]);
      for (const [method, read] of Object.entries(reads))
        expect([method, await problemOf(read, queue)]).toEqual([method, undefined]);
      expect(await brokenPages(queue)).toEqual([]);
      expect(await worked(queue)).toEqual([]);
      expect((await queue.listLimits()).map(({ target }) => target)).toContainEqual({ func: "late" });
    },
  );
});
