/** The screen of `dbq top`, from figures that are made up. */
import { describe, expect, test } from "vitest";
import { columnsOf } from "../../../src/entries/cli/text.ts";
import { lookAt, type TopLook } from "../../../src/entries/cli/top-look.ts";
import { screen } from "../../../src/entries/cli/top-screen.ts";
import { remoteTask, task } from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";

const at = new Date("2026-11-23T12:05:30Z");

function lookOf(queues: number, functions = 3): TopLook {
  const none = { p50: null, p95: null, p99: null };
  return {
    at,
    since: new Date("2026-11-23T12:00:00Z"),
    queues: Array.from({ length: queues }, (_, i) => ({
      name: i === 1 ? "漢字漢字漢字漢字 \u001b[31m" : `queue-${i}`,
      ...{ pending: 10_000, scheduled: 0, running: i, waiting: 0, failed: 2, atLeast: ["pending" as const] },
      ...{ putOff: 0, putOffSince: null },
      ...{ oldestPendingAge: 3_400, pausedAt: i === 0 ? at : null, limits: [], workers: 1 },
    })),
    unservedFunctions: [],
    workers: [],
    functions: Array.from({ length: functions }, (_, i) => ({
      ...{ queueName: "default", func: `function-${i}`, count: 55, failed: 11 },
      ...{ wait: { ...none, p95: 12 }, run: { ...none, p50: 3, p95: 2_000 } },
    })),
    limits: [],
    causes: [],
  };
}

const shown = (look: TopLook, columns: number, rows: number, problem?: string) =>
  screen(look, "app.db", { columns, rows }, problem);

describe("the screen of dbq top", () => {
  test("shows what waits, what runs, what fails and what is paused", () => {
    const text = shown(lookOf(2), 120, 40).join("\n");
    expect(text).toMatch(/pending 20,000\+ {2}running 1 {2}scheduled 0 {2}failed 4/);
    expect(text).toContain("last 5 min: 30 attempts a minute, 20 % failed");
    expect(text).toMatch(/queue-0 +10,000\+ +0 +3\.4 s +0 +2 +1 +paused/);
    expect(text).toMatch(/function-0 +10 +20 % +12 ms +3 ms +2\.0 s +default/);
    expect(text).toContain("no worker is registered");
  });

  test("without statistics it says when workers write them, and not that no attempt has ended", () => {
    const text = shown(lookOf(2, 0), 120, 40).join("\n");
    expect(text).toContain("failed 4");
    expect(text).toContain("last 5 min: no statistics\n");
    expect(text).toContain("no statistics of the last 5 minutes: workers write them every 10 s");
    expect(text).not.toMatch(/no attempt|0 %/);
  });

  test.each([
    [200, 60],
    [80, 24],
    [60, 16],
    [40, 10],
    [20, 5],
    [5, 3],
    [1, 1],
  ])("fits a terminal of %i columns and %i rows", (columns, rows) => {
    const lines = shown(lookOf(30, 30), columns, rows, "the database does not answer");
    expect(lines.length).toBeLessThanOrEqual(rows);
    expect(Math.max(...lines.map(columnsOf))).toBeLessThanOrEqual(columns);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those that a terminal would obey
    expect(lines.join("")).not.toMatch(/[\x00-\x1f]/);
  });

  test("a table that is cut says how many rows it leaves out, and leaves the others their rows", () => {
    const lines = shown(lookOf(30, 2), 100, 24);
    expect(lines.find((line) => line.startsWith("… and "))).toMatch(/^… and \d+ more$/);
    expect(lines.filter((line) => /^(?:queue-|漢字)/.test(line)).length).toBeGreaterThan(8);
    expect(lines.filter((line) => line.startsWith("function-"))).toHaveLength(2);
  });

  test("many functions that nobody takes leave the tables their rows", () => {
    const unservedFunctions = Array.from({ length: 500 }, (_, i) => ({
      ...{ func: `lost-${i}`, queueName: "lost", tasks: 1, pendingFor: 5_000, reason: "no live worker" },
      advice: "start one",
    }));
    const look = { ...lookOf(30, 2), unservedFunctions };
    const lines = shown(look, 100, 24);
    expect(lines.filter((line) => line.includes("lost-"))).toHaveLength(4);
    expect(lines.find((line) => line.includes("more functions"))).toMatch(/not taken:\s+tasks of 496 more/);
    expect(lines.filter((line) => /^(?:queue-|漢字)/.test(line)).length).toBeGreaterThan(3);
    const all = screen(look, "app.db", { columns: null, rows: null });
    expect(all.filter((line) => line.includes("lost-"))).toHaveLength(500);
  });

  test("a number of pending tasks of which some were not looked at is a lower bound", () => {
    const queues = lookOf(1).queues.map((queue) => ({ ...queue, atLeast: [] }));
    expect(shown({ ...lookOf(1), queues }, 120, 24).join("\n")).toContain("pending 10,000  running");
    expect(shown({ ...lookOf(1), queues, moreQueues: true }, 120, 24).join("\n")).toContain(
      "pending 10,000+  running",
    );
  });

  test("without a size it shows all", () => {
    const lines = screen(lookOf(30, 30), "app.db", { columns: null, rows: null });
    expect(lines.filter((line) => /^(?:queue-|漢字|function-)/.test(line))).toHaveLength(60);
  });

  test("says why its figures are old", () => {
    expect(shown(lookOf(1), 80, 24, "the database does not answer")).toContain(
      "not read: the database does not answer",
    );
  });
});

test("a look has the queues, what each worker runs, and the limits", async () => {
  const queue = await temporaryQueue();
  let release = () => {};
  const held = task(uniqueName("held"), () => new Promise<void>((resolve) => (release = resolve)));
  const worker = await startedWorker(queue);
  const id = await queue.enqueueTask(held);
  await queue.enqueueTask(remoteTask("other").with({ queueName: "mail" }));
  await queue.setLimit("openai", { concurrency: 2 });
  await expect.poll(async () => (await queue.getTask(id))?.status).toBe("running");
  const look = await lookAt(queue);
  release();
  expect(look.queues.map(({ name, pending, running }) => [name, pending, running])).toEqual([
    ["default", 0, 1],
    ["mail", 1, 0],
  ]);
  expect(look.workers).toMatchObject([{ id: worker.id, running: [{ id, func: held.taskName }] }]);
  expect(look.limits).toMatchObject([{ target: "openai", concurrency: 2 }]);
});
