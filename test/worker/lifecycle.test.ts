import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Lifecycle } from "../../src/worker/lifecycle.ts";
import { deferred } from "../support/queue.ts";

function setUp(finalMs = 1_000) {
  const reports: string[] = [];
  const report = (error: unknown, where: string) =>
    void reports.push(`${where}: ${(error as Error).message}`);
  return { reports, lifecycle: new Lifecycle({ of: "the pump", finalMs, report }) };
}

test("a stop takes the steps backwards; one that throws or hangs is reported, and the others are taken", async () => {
  const { lifecycle, reports } = setUp(30);
  const taken: string[] = [];
  await lifecycle.start(async () => {
    lifecycle.onStop(
      () => taken.push("first"),
      () => new Promise(() => undefined),
      () => Promise.reject(new Error("locked")),
      () => taken.push("last"),
    );
  });
  await lifecycle.stop(0);
  expect(taken).toEqual(["last", "first"]);
  expect(reports).toEqual(["stopping the pump: locked", "stopping the pump: it was not done within 30 ms"]);
});

test("a start that fails is undone, and the next call starts again", async () => {
  const { lifecycle } = setUp();
  const taken: string[] = [];
  const failing = lifecycle.start(async () => {
    lifecycle.onStop(() => taken.push("undone"));
    throw new Error("refused");
  });
  await expect(failing).rejects.toThrow("refused");
  expect(taken).toEqual(["undone"]);
  await lifecycle.start(async () => void taken.push("started"));
  expect(taken).toEqual(["undone", "started"]);
});

test("a restart goes on until a start succeeds, and a stop ends it", async () => {
  const { lifecycle, reports } = setUp();
  let starts = 0;
  await lifecycle.start(async () => undefined);
  lifecycle.restart(async () => {
    starts += 1;
    if (starts < 3) throw new Error("refused");
  }, 1);
  await lifecycle.start(() => Promise.reject(new Error("shares the restart")));
  expect(starts).toBe(3);
  expect(reports).toEqual(Array(2).fill("starting the pump again: refused"));
  lifecycle.restart(async () => {
    starts += 1;
    throw new Error("refused");
  }, 1);
  await expect.poll(() => starts).toBeGreaterThan(3);
  await lifecycle.stop(0);
  const atStop = starts;
  await sleep(20);
  expect(starts).toBe(atStop);
});

test("what still runs at the end of the grace is interrupted, and given up when that does not end it", async () => {
  const { lifecycle } = setUp(20);
  const seen: string[] = [];
  const given = deferred();
  await lifecycle.start(async () => {
    lifecycle.runs({
      stopClaiming: () => void seen.push("stopClaiming"),
      drained: () => given.promise,
      interrupt: () => void seen.push("interrupt"),
      abandon: () => {
        seen.push("abandon");
        given.resolve();
      },
    });
  });
  const stopped = lifecycle.stop(60_000);
  await Promise.all([stopped, lifecycle.stop(10)]);
  expect([...new Set(seen)]).toEqual(["stopClaiming", "interrupt", "abandon"]);
});
