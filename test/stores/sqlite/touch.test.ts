/**
 * After a commit the file's modification time is set, at most a few times per millisecond, and nothing else is changed.
 */
import { mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openSqlite } from "../../../src/stores/sqlite/store.ts";
import { FileTouch } from "../../../src/stores/sqlite/touch.ts";
import type { TaskRecord } from "../../../src/task.ts";
import { claim, claimBy, newTask, newWorker, outcomes, settle } from "../../conformance/arrange.ts";
import "../../support/fakeable-timers.ts";

function file(): string {
  const folder = mkdtempSync(join(tmpdir(), "dbq-nudge-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "app.db");
  writeFileSync(path, "content");
  return path;
}

/** A clock that stands still, past the first moment, in which nothing is touched. */
function fakeClock(): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  vi.advanceTimersByTime(10);
}

/** Sets an old modification time, so that the next change shows. */
function age(path: string): void {
  utimesSync(path, 0, 0);
}

const isSource = (path: string) => statSync(path).mtimeMs === 0;

test("the file is touched at once, then once at the end of the next millisecond", async () => {
  fakeClock();
  const path = file();
  const nudge = new FileTouch(path);
  age(path);
  nudge.committed();
  expect(isSource(path)).toBe(false);
  age(path);
  nudge.committed();
  nudge.committed();
  expect(isSource(path)).toBe(true);
  vi.advanceTimersByTime(1);
  expect(isSource(path)).toBe(false);
  age(path);
  vi.advanceTimersByTime(5);
  expect(isSource(path)).toBe(true);
  nudge.close();
});

test("nothing is touched after close", () => {
  fakeClock();
  const path = file();
  const nudge = new FileTouch(path);
  nudge.committed();
  age(path);
  nudge.committed();
  nudge.close();
  vi.advanceTimersByTime(10);
  expect(isSource(path)).toBe(true);
});

test("a deleted file causes no error", () => {
  const path = file();
  rmSync(path);
  expect(() => new FileTouch(path).committed()).not.toThrow();
});

test("operations that others may wait for touch the file, and operations without a change do not", async () => {
  fakeClock();
  const path = join(dirname(file()), "store.db");
  const store = await openSqlite(path, { migrate: true, synchronous: "full" });
  onTestFinished(() => store.close());
  const nudges = async (act: () => Promise<unknown>) => {
    // The touch before this one may still be due.
    vi.advanceTimersByTime(10);
    age(path);
    await act();
    vi.advanceTimersByTime(10);
    return !isSource(path);
  };
  await store.register(newWorker("w1"));
  expect(await nudges(() => store.insert([newTask()], "report"))).toBe(true);
  expect(await nudges(() => store.list({}, 10, undefined))).toBe(false);
  expect(await nudges(() => store.promote(10))).toBe(false);
  expect(await nudges(() => store.rescueOrphans(60_000))).toBe(false);
  let claimed: TaskRecord[] = [];
  expect(await nudges(async () => (claimed = await claim(store, claimBy("w1"))))).toBe(false);
  expect(claimed).toHaveLength(1);
  expect(await nudges(() => settle(store, ...claimed.map(outcomes.completed)))).toBe(true);
  expect(await nudges(() => settle(store, ...claimed.map(outcomes.completed)))).toBe(false);
});
