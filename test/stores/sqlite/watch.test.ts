/** A watch reports commits of other connections to its file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished, test, vi } from "vitest";
import { SqliteWatch } from "../../../src/stores/sqlite/watch.ts";

/** A watched connection, another one to the same file, and the reports of the watch. */
function watched(hasEvents?: boolean) {
  const folder = mkdtempSync(join(tmpdir(), "dbq-watch-"));
  const path = join(folder, "app.db");
  const [own, other] = [new Database(path), new Database(path)];
  own.pragma("journal_mode = wal");
  own.exec("create table notes (note text)");
  const reported = vi.fn();
  const watch = new SqliteWatch(path, own, hasEvents);
  watch.add(reported);
  onTestFinished(() => {
    watch.close();
    for (const client of [own, other]) client.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { other, reported };
}

test("a commit of another connection is reported", async () => {
  const { other, reported } = watched();
  other.exec("insert into notes values ('from elsewhere')");
  await vi.waitUntil(() => reported.mock.calls.length > 0, { timeout: 5_000 });
});

test("a commit of another connection is reported without events of the system", async () => {
  const { other, reported } = watched(false);
  reported.mockClear();
  other.exec("insert into notes values ('from elsewhere')");
  await vi.waitUntil(() => reported.mock.calls.length > 0, { timeout: 5_000 });
});
