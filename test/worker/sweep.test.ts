/**
 * When workers look for dead ones, and how they rescue them: a task runs again within a second of the death of its
 * process.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test, vi } from "vitest";
import { thisProcess } from "../../src/base/runtime/process-identity.ts";
import type { OnKept, Retention, WorkerRecord } from "../../src/store.ts";
import { Maintenance } from "../../src/worker/maintenance.ts";
import type { Job } from "../../src/worker/periodic-job.ts";
import { workerRecord } from "../conformance/arrange.ts";
import { deferred } from "../support/queue.ts";
import "../support/fakeable-timers.ts";

const forever = Number.POSITIVE_INFINITY;

/** Runs what has been started by now. */
async function turns(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

async function pass(ms: number): Promise<void> {
  vi.advanceTimersByTime(ms);
  await turns();
}

const recordOf = (id: string, change: Partial<WorkerRecord>) =>
  workerRecord(id, { ...thisProcess(), beat: 7, ...change });

/** The row of a worker whose process is seen to be dead: the pid has been given to another process. */
const dead = (id: string) => recordOf(id, { processStart: "1" });

interface Given {
  workers?: readonly WorkerRecord[];
  rescue?: (workerId: string, beat: number) => Promise<number | "busy">;
  heartbeat?: () => Promise<boolean>;
  prune?: (retention: Retention, limit: number, onKept: OnKept) => Promise<number>;
  jobs?: readonly Job[];
}

/** Starts the maintenance of a worker on a clock that the test moves, over a store that has these workers. */
async function maintenance({
  workers = [],
  rescue = async () => 0,
  heartbeat = async () => true,
  prune = async () => 0,
  jobs = [],
}: Given) {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const store = {
    workers: vi.fn(async () => [...workers]),
    heartbeat,
    rescue: vi.fn(rescue),
    rescueOrphans: async () => 0,
    promote: async () => ({ promoted: 0, nextDue: undefined }),
    prune: vi.fn((...given: Parameters<typeof prune>) => prune(...given)),
    freeKeys: async () => ({ freed: 0, last: undefined }),
  };
  const host = {
    store,
    workerId: "mine",
    lease: 15_000,
    retention: { completed: forever, failed: forever, cancelled: forever },
    onWork: vi.fn(),
    onRescued: vi.fn(),
    report: vi.fn(),
  };
  const started = new Maintenance(host, jobs);
  onTestFinished(() => started.stop());
  started.start();
  await turns();
  const rescued = () => store.rescue.mock.calls.map(([id]) => id);
  return { ...host, rescued };
}

test("a dead worker that another process is rescuing is looked at again after 100 ms", async () => {
  const answers: (number | "busy")[] = ["busy", 3];
  const { rescued, onRescued, onWork } = await maintenance({
    workers: [dead("w1")],
    rescue: async () => answers.shift() ?? 0,
  });
  expect(rescued()).toEqual(["w1"]);
  expect(onRescued).not.toHaveBeenCalled();
  await pass(99);
  expect(rescued()).toEqual(["w1"]);
  await pass(1);
  expect(rescued()).toEqual(["w1", "w1"]);
  expect(onRescued.mock.calls).toEqual([["w1", 3]]);
  expect(onWork).toHaveBeenCalledOnce();
});

test("the end of a worker that held no task wakes this process: it may have freed a place and told nobody", async () => {
  const { onRescued, onWork } = await maintenance({ workers: [dead("w1")], rescue: async () => 0 });
  expect(onRescued).not.toHaveBeenCalled();
  expect(onWork).toHaveBeenCalledOnce();
});

test("two dead workers are rescued at once, and the third when one of them is", async () => {
  const [first, second] = [deferred(), deferred()];
  const waits = [first.promise, second.promise];
  const { rescued } = await maintenance({
    workers: [dead("w1"), dead("w2"), dead("w3")],
    rescue: async () => {
      await waits.shift();
      return 1;
    },
  });
  // The maintenance stops when its rescues have ended.
  onTestFinished(() => {
    for (const { resolve } of [first, second]) resolve();
  });
  expect(rescued()).toEqual(["w1", "w2"]);
  second.resolve();
  await turns();
  expect(rescued()).toEqual(["w1", "w2", "w3"]);
});

test("the rescue of a dead worker does not wait for the write that confirms another suspect", async () => {
  const locked = deferred();
  const { rescued } = await maintenance({
    workers: [dead("w1"), recordOf("w2", { host: "elsewhere", sessionLives: false })],
    heartbeat: async () => {
      await locked.promise;
      return true;
    },
  });
  onTestFinished(() => locked.resolve());
  expect(rescued()).toEqual(["w1"]);
});

test("a rescue that fails is reported, and the other dead workers are rescued all the same", async () => {
  const failure = new Error("as planned");
  const { rescued, onRescued, report } = await maintenance({
    workers: [dead("w1"), dead("w2"), dead("w3")],
    rescue: async (id) => {
      if (id !== "w3") throw failure;
      return 1;
    },
  });
  expect(rescued()).toEqual(["w1", "w2", "w3"]);
  expect(onRescued.mock.calls).toEqual([["w3", 1]]);
  expect(report.mock.calls).toEqual([
    [failure, "looking for dead workers"],
    [failure, "looking for dead workers"],
  ]);
});

/** A process that lives until it is killed. */
function sleeper(): ChildProcess & { pid: number } {
  const child = spawn("sleep", ["600"], { stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  if (child.pid === undefined) throw new Error("there is no program called sleep");
  return child as ChildProcess & { pid: number };
}

test("the end of another worker's process on this host starts a sweep within 100 ms", async () => {
  const child = sleeper();
  const { rescued, store } = await maintenance({
    workers: [recordOf("w1", { pid: child.pid, processStart: null })],
  });
  await pass(100);
  expect(store.workers).toHaveBeenCalledTimes(1);
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
  await pass(100);
  expect(store.workers).toHaveBeenCalledTimes(2);
  expect(rescued()).toEqual(["w1"]);
});

test("a job that is added runs at the start, then after each delay that it returned", async () => {
  const run = vi.fn(async () => 250);
  await maintenance({ jobs: [{ name: "counting", run }] });
  expect(run).toHaveBeenCalledTimes(1);
  await pass(249);
  expect(run).toHaveBeenCalledTimes(1);
  await pass(1);
  expect(run).toHaveBeenCalledTimes(2);
});

test("a job that is added and fails is reported by its name, and runs again after a second", async () => {
  const failure = new Error("as planned");
  const run = vi.fn(async () => Promise.reject(failure));
  const { report } = await maintenance({ jobs: [{ name: "failing", run }] });
  expect(report.mock.calls).toEqual([[failure, "failing"]]);
  await pass(1_000);
  expect(run).toHaveBeenCalledTimes(2);
});

test("tasks that the database refuses to delete are reported at most once a minute: the first one, and how many", async () => {
  let id = 0;
  const error = new Error("a foreign key refers to it");
  const prune: Given["prune"] = async (_, __, onKept) => {
    for (let i = 0; i < 2; i += 1) onKept({ id: ++id, error });
    return 50;
  };
  const { store, report } = await maintenance({ prune });
  for (let i = 0; i < 4; i += 1) await pass(30_000);
  expect(store.prune).toHaveBeenCalledTimes(5);
  const messages = report.mock.calls.map(([{ message }, where]) => [where, message]);
  const refused = "the database refuses to delete task";
  expect(messages).toEqual([
    ["pruning finished tasks", `${refused} 1, and 1 others: ${error.message}`],
    ["pruning finished tasks", `${refused} 3, and 3 others: ${error.message}`],
    ["pruning finished tasks", `${refused} 7, and 3 others: ${error.message}`],
  ]);
});

test("after a failed pruning, the next one comes a minute later", async () => {
  const { store, report } = await maintenance({ prune: () => Promise.reject(new Error("as planned")) });
  await pass(59_000);
  expect(store.prune).toHaveBeenCalledOnce();
  await pass(1_000);
  expect(store.prune).toHaveBeenCalledTimes(2);
  expect(report.mock.calls.filter(([, where]) => where === "pruning finished tasks")).toHaveLength(2);
});
