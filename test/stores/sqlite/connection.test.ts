/**
 * A write takes the write lock with its first statement, so that nothing that it reads is out of date when it writes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { sql } from "drizzle-orm/sql/sql";
import { expect, onTestFinished, test } from "vitest";
import { type Program, rowsOnce, transaction } from "../../../src/stores/sql/program.ts";
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
