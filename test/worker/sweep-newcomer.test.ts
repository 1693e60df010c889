/** A lone worker sweeps seldom, but finds a worker that registers and dies as soon as it would among many. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test, vi } from "vitest";
import { thisProcess } from "../../src/base/runtime/process-identity.ts";
import { openSqlite } from "../../src/stores/sqlite/store.ts";
import { Maintenance } from "../../src/worker/maintenance.ts";
import { insertOne, newWorker, recordOf, running } from "../conformance/arrange.ts";
import "../support/fakeable-timers.ts";

const forever = Number.POSITIVE_INFINITY;

/** The id of a process that has ended. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ["-e", ""]);
  await once(child, "exit");
  return child.pid ?? 0;
}

/** Runs what has been started by now. */
async function turns(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

test("a worker that registered and died is found within 400 ms of a change notification", async () => {
  const pid = await deadPid();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const store = await openSqlite(":memory:", { migrate: true, synchronous: "normal" });
  onTestFinished(() => store.close());
  const rescued: unknown[] = [];
  const errors: unknown[] = [];
  const maintenance = new Maintenance({
    store,
    workerId: "alone",
    lease: 15_000,
    retention: { completed: forever, failed: forever, cancelled: forever },
    onWork: () => undefined,
    onRescued: (...told) => rescued.push(told),
    report: (error) => errors.push(error),
  });
  onTestFinished(() => maintenance.stop());
  maintenance.start();
  await turns();

  await store.register(newWorker("dead", { ...thisProcess(), pid }));
  const { id } = await running(store, {}, "dead");
  await insertOne(store);
  maintenance.lookAround();
  await turns();
  expect(rescued).toEqual([]);
  vi.advanceTimersByTime(400);
  await turns();
  expect(rescued).toEqual([["dead", 1]]);
  expect(await recordOf(store, id)).toMatchObject({ status: "pending", retryCount: 1 });
  expect(errors).toEqual([]);
});
