/**
 * A write takes the write lock with its first statement, so that nothing that it reads is out of date when it writes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { sql } from "drizzle-orm/sql/sql";
import { expect, onTestFinished, test } from "vitest";
import { insertedIds, type Program, rowsOnce, transaction } from "../../../src/stores/sql/program.ts";
import type { Statement } from "../../../src/stores/sql/statements.ts";
import { SqliteConnection } from "../../../src/stores/sqlite/connection.ts";

/** A connection to a file whose write lock another connection holds; reads are free. */
function locked(): SqliteConnection {
  const folder = mkdtempSync(join(tmpdir(), "dbq-connection-"));
  const path = join(folder, "dbq.db");
  const [theirs, ours] = [new Database(path), new Database(path, { timeout: 0 })];
  onTestFinished(() => {
    for (const client of [theirs, ours]) client.close();
    rmSync(folder, { recursive: true, force: true });
  });
  theirs.pragma("journal_mode = wal");
  theirs.exec("begin immediate");
  return new SqliteConnection(ours);
}

/** An operation that records how far it came. */
function reading(): { seen: unknown[]; read: () => Program<void> } {
  const seen: unknown[] = [];
  return {
    seen,
    read: function* () {
      seen.push(yield* rowsOnce(sql`select 1`));
    },
  };
}

test("a read does not wait for a writer", () => {
  const { seen, read } = reading();
  locked().run(read());
  expect(seen).toEqual([[[1]]]);
});

test("a write takes the write lock before its first statement", () => {
  const { seen, read } = reading();
  const connection = locked();
  expect(() => connection.atomically(read)).toThrow("SQLITE_BUSY");
  expect(seen).toEqual([]);
});

test("a transaction inside an operation takes the write lock before its first statement", () => {
  const { seen, read } = reading();
  const connection = locked();
  expect(() => connection.run(transaction(read, true))).toThrow("SQLITE_BUSY");
  expect(seen).toEqual([]);
});

/** Inserts so many rows in one batch, each with a text of its own, and gives for each of their ids the text of its row. */
function insertedTexts(rows: number, before = ""): string[] {
  const client = new Database(":memory:");
  onTestFinished(() => {
    client.close();
  });
  client.exec(`create table notes (id integer primary key autoincrement, text text not null); ${before}`);
  const insert: Statement = (p) => sql`insert into notes (text) values (${p.text})`;
  const texts = Array.from({ length: rows }, (_, i) => ({ text: `text ${i}` }));
  const ids = new SqliteConnection(client).atomically(() => insertedIds(insert, texts));
  const textOf = client.prepare("select text from notes where id = ?").pluck();
  return ids.map((id) => String(textOf.get(id)));
}

const inOrder = (rows: number) => Array.from({ length: rows }, (_, i) => `text ${i}`);

test.each([1, 49, 50, 51, 100, 123])("a batch of %i inserted rows has their ids in its order", (rows) => {
  expect(insertedTexts(rows)).toEqual(inOrder(rows));
});

test("a batch has the ids of its rows where an app's trigger inserts others between them", () => {
  const trigger = `create trigger doubled after insert on notes when new.text like 'text%' begin
    insert into notes (text) values ('a copy'); end`;
  expect(insertedTexts(123, trigger)).toEqual(inOrder(123));
});

test("a batch has ids behind the last for which JavaScript has a number", () => {
  const last = BigInt(Number.MAX_SAFE_INTEGER) - 30n;
  const ids = insertedTexts(100, `insert into sqlite_sequence (name, seq) values ('notes', ${last})`);
  expect(ids).toEqual(inOrder(100));
});
