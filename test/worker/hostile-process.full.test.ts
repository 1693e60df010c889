/**
 * Invariant: whatever a handler does to its own process, the tasks of that process run again elsewhere within a second
 * or so, with the crash charged. A live process is not declared dead, however busy it is, and children of a dead
 * process have no effect.
 */
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { expect, onTestFinished, test, vi } from "vitest";
import type { TaskFunction } from "../../src/index.ts";
import { onLinux, patient } from "../chaos/linux.ts";
import {
  aborts,
  exits,
  exitsInside,
  goFile,
  holds,
  leavesChild,
  loops,
  overflows,
  rejects,
  starves,
  throwsAfterReturn,
  throwsLater,
  throwsOnAbort,
} from "../fixtures/hostile-tasks.ts";
import { type Child, start, type TestHarness, testHarness } from "../fixtures/processes.ts";
import { amount } from "../support/amount.ts";
import { until } from "./setup.ts";

/** Milliseconds. The promise is one second; this test kills many processes on a busy machine. */
const soon = 3_000;

/** By heartbeat alone, dead workers would be found after the lease, which is longer than `soon`. */
const lease = 15_000;

function hostileWorker({ database, eventLog }: TestHarness, options: object): Child {
  return start("hostile-worker.ts", database, eventLog.path, JSON.stringify({ lease, ...options }));
}

const ready = ({ eventLog }: TestHarness, { pid }: Child) =>
  eventLog.until("ready", (entry) => entry.pid === pid);

interface Death {
  /** The exit of its worker process. */
  how: number | string;
  /** What the process prints. */
  says?: string;
  task: TaskFunction<[]>;
}

const deaths: Record<string, Death> = {
  "process.exit(0)": { task: exits, how: 0 },
  "process.exit(3) in a transaction": { task: exitsInside, how: 3 },
  "process.abort()": { task: aborts, how: "SIGABRT" },
  "an exception from a timer": { task: throwsLater, how: 1, says: "Error: from a timer" },
  "an exception from a microtask": { task: throwsAfterReturn, how: 1, says: "Error: from a microtask" },
  "a rejection that nobody awaits": { task: rejects, how: 1, says: "Error: that nobody awaits" },
  "an exception from a listener of its signal": {
    task: throwsOnAbort,
    how: 1,
    says: "Error: from a listener",
  },
  "more memory than there is": { task: overflows, how: "SIGABRT", says: "heap out of memory" },
};

interface Victim {
  name: string;
  child: Child;
  ids: number[];
  diedAt: Promise<number>;
}

/** A worker of a new queue, which runs this task beside one that only waits. */
async function victim(all: TestHarness, queueName: string, harmful: TaskFunction<[]>): Promise<Victim> {
  const child = hostileWorker(all, { queueName, concurrency: 2 });
  const ids = await all.queue.enqueueTasks([
    [harmful.with({ queueName, timeout: harmful === throwsOnAbort ? "2s" : "5m" })],
    [holds.with({ queueName })],
  ]);
  const diedAt = child.ended.then(() => Date.now());
  return { name: queueName, child, ids, diedAt };
}

/** Both tasks of the victim have crashed once, and the witness has completed them. @returns milliseconds until then */
async function recovered(
  all: TestHarness,
  { name, ids, diedAt }: Victim,
  witness: Child,
  since = 0,
): Promise<number> {
  const { queue, eventLog } = all;
  const died = Math.max(await diedAt, since);
  const takeovers: number[] = [];
  for (const id of ids) {
    const done = await queue.awaitTaskCompletion(id, { timeout: "20s" });
    expect(done, name).toMatchObject({ status: "completed", result: witness.pid, retryCount: 1 });
    expect(await queue.listAttempts(id), name).toMatchObject([{ outcome: "crashed", generationId: 2 }]);
    const started = eventLog.entries("start").filter((entry) => entry.task === id);
    expect(started, name).toHaveLength(2);
    takeovers.push((started[1]?.at ?? Number.NaN) - died);
  }
  return Math.max(0, ...takeovers);
}

onLinux("a handler that ends its process", () => {
  test(
    "a handler that ends its process by any means: its tasks run elsewhere with a retry charged",
    patient,
    async () => {
      const all = await testHarness();
      const raw = new Database(all.database, { timeout: 5_000 });
      onTestFinished(() => {
        raw.close();
      });
      raw.exec("create table effects (task integer not null)");
      // For all of them; only the one that fills its memory needs it.
      vi.stubEnv("NODE_OPTIONS", "--max-old-space-size=64");
      onTestFinished(() => {
        vi.unstubAllEnvs();
      });
      const names = Object.keys(deaths);
      const victims = await Promise.all(names.map((name) => victim(all, name, (deaths[name] as Death).task)));
      await all.eventLog.count("start", 2 * names.length);
      const witness = hostileWorker(all, { queueName: names, concurrency: 20 });
      const { at } = await ready(all, witness);
      writeFileSync(goFile(all.eventLog.path), "");
      for (const one of victims) {
        const { how, says = "" } = deaths[one.name] as Death;
        expect(await one.child.ended, `${one.name}: ${one.child.output()}`).toBe(how);
        expect(one.child.output()).toContain(says);
        const takeover = await recovered(all, one, witness, at);
        console.log(`${one.name}: runs elsewhere after ${takeover} ms`);
        expect(takeover, one.name).toBeLessThanOrEqual(soon);
      }
      expect(raw.prepare("select count(*) from effects").pluck().get()).toBe(0);
      expect(raw.pragma("integrity_check", { simple: true })).toBe("ok");
      expect(all.eventLog.entries("error")).toEqual([]);
      expect((await all.queue.listWorkers()).map(({ pid }) => pid)).toEqual([witness.pid]);
    },
  );
});

/** Whether the process exists, also as a zombie. */
function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The open files of a process, and its locks. */
function holdsOf(pid: number): string[] {
  const open = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
  const locks = readFileSync("/proc/locks", "utf8").split("\n");
  return [...open, ...locks.filter((line) => line.split(/\s+/).includes(String(pid)))];
}

// Endless microtasks and an endless loop block a worker in the same way: one of them is enough in each run.
const endless: [what: string, task: TaskFunction<[]>][] = [
  ["a loop", loops],
  ["microtasks", starves],
];

onLinux("a handler that never ends", () => {
  test.each(endless.slice(0, amount(1, 1, 2)))(
    "a handler that blocks its process with %s: its task runs elsewhere only after the process is killed",
    patient,
    async (name, task) => {
      const all = await testHarness();
      const shortLease = 1_000;
      const busy = hostileWorker(all, { queueName: name, concurrency: 1, lease: shortLease });
      const id = await all.queue.enqueueTask(task.with({ queueName: name }));
      await all.eventLog.until("start");
      const witness = hostileWorker(all, { queueName: name, lease: shortLease });
      await ready(all, witness);
      writeFileSync(goFile(all.eventLog.path), "");
      await all.eventLog.until("harm");
      await sleep(3 * shortLease);
      expect(all.eventLog.entries("start")).toHaveLength(1);
      expect(all.eventLog.entries("rescued")).toEqual([]);
      expect(await all.queue.getTask(id)).toMatchObject({
        status: "running",
        generationId: 2,
        retryCount: 0,
      });
      const diedAt = Promise.resolve(await busy.kill());
      const takeover = await recovered(all, { name, child: busy, ids: [id], diedAt }, witness);
      console.log(`${name}: runs elsewhere ${takeover} ms after the kill`);
      expect(takeover).toBeLessThanOrEqual(soon);
    },
  );

  test("a child process that outlives its worker does not keep the worker's locks", patient, async () => {
    const all = await testHarness();
    const parent = hostileWorker(all, { queueName: "parent", concurrency: 1 });
    const id = await all.queue.enqueueTask(leavesChild.with({ queueName: "parent" }));
    await all.eventLog.until("start");
    const witness = hostileWorker(all, { queueName: "parent" });
    await ready(all, witness);
    writeFileSync(goFile(all.eventLog.path), "");
    const child = (await all.eventLog.until("child")).note as number;
    try {
      const diedAt = Date.now();
      // Not `kill`: the child keeps its parent's output open, so the parent's exit does not close it.
      parent.signal("SIGKILL");
      await until(() => !exists(parent.pid));
      const gone = { name: "parent", child: parent, ids: [id], diedAt: Promise.resolve(diedAt) };
      const takeover = await recovered(all, gone, witness);
      console.log(`beside the child of the dead: runs elsewhere after ${takeover} ms`);
      expect(takeover).toBeLessThanOrEqual(soon);
      expect(exists(child)).toBe(true);
      expect(holdsOf(child).filter((held) => held.includes("dbq.db") || held.includes("POSIX"))).toEqual([]);
      // Another connection can lock the file exclusively.
      const raw = new Database(all.database, { timeout: 5_000 });
      raw.exec("begin exclusive; commit");
      expect(raw.pragma("wal_checkpoint(truncate)", { simple: true })).toBe(0);
      raw.close();
    } finally {
      process.kill(child, "SIGKILL");
    }
  });
});
