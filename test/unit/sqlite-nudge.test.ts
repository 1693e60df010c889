/** After a commit the file's modification time is set, at most a few times in a millisecond, and nothing else is touched. */
import { mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { SqliteNudge } from "../../src/stores/sqlite-nudge.ts";

function file(): string {
  const folder = mkdtempSync(join(tmpdir(), "dbq-nudge-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "app.db");
  writeFileSync(path, "content");
  return path;
}

/** Makes it look old, so that the next change shows. */
function age(path: string): void {
  utimesSync(path, 0, 0);
}

const isOld = (path: string) => statSync(path).mtimeMs === 0;

test("the first at once, those of the next millisecond together at its end", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  vi.advanceTimersByTime(10);
  const path = file();
  const nudge = new SqliteNudge(path);
  age(path);
  nudge.committed();
  expect(isOld(path)).toBe(false);
  age(path);
  nudge.committed();
  nudge.committed();
  expect(isOld(path)).toBe(true);
  vi.advanceTimersByTime(1);
  expect(isOld(path)).toBe(false);
  age(path);
  vi.advanceTimersByTime(5);
  expect(isOld(path)).toBe(true);
  nudge.close();
});

test("closed, it owes nothing", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  vi.advanceTimersByTime(10);
  const path = file();
  const nudge = new SqliteNudge(path);
  nudge.committed();
  age(path);
  nudge.committed();
  nudge.close();
  vi.advanceTimersByTime(10);
  expect(isOld(path)).toBe(true);
});

test("a file that is gone hurts nobody", () => {
  const path = file();
  rmSync(path);
  expect(() => new SqliteNudge(path).committed()).not.toThrow();
});
