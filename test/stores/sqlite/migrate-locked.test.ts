/** When several processes open a new database at once, one migrates it, and no other writes during the migration. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { migrate } from "../../../src/stores/sql/migrations.ts";
import { runnerOver, SqliteConnection } from "../../../src/stores/sqlite/connection.ts";
import { sqliteMigrations } from "../../../src/stores/sqlite/migrations.ts";

/** A connection that tests before each statement which changes something whether another one could write. */
class Asking extends Database {
  readonly answers: string[] = [];
  readonly #other: Database.Database;

  constructor(path: string) {
    super(path);
    this.#other = new Database(path, { timeout: 0 });
  }

  // biome-ignore lint/suspicious/noExplicitAny: the type of what it returns depends on type parameters.
  override prepare(sql: string): any {
    if (/^\s*(create|alter|drop|insert|update)/i.test(sql)) this.answers.push(this.#ask());
    return super.prepare(sql);
  }

  #ask(): string {
    try {
      this.#other.exec("begin immediate; rollback");
      return "it could";
    } catch (error) {
      return (error as { code: string }).code;
    }
  }

  override close(): this {
    this.#other.close();
    return super.close();
  }
}

test("no other connection can write between the statements of a migration", async () => {
  const folder = mkdtempSync(join(tmpdir(), "dbq-migrate-"));
  const client = new Asking(join(folder, "app.db"));
  onTestFinished(() => {
    client.close();
    rmSync(folder, { recursive: true, force: true });
  });
  await migrate(runnerOver(new SqliteConnection(client)), sqliteMigrations, "app.db");
  expect(client.answers.length).toBeGreaterThan(5);
  expect(new Set(client.answers)).toEqual(new Set(["SQLITE_BUSY"]));
  expect(client.prepare("select count(*) from dbq_tasks").pluck().get()).toBe(0);
});
