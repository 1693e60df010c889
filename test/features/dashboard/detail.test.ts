/** The pages of one function and one queue, what people did, and the bars of a task's attempts. */
import { expect, test } from "vitest";
import type { Attempt } from "../../../src/base/tasks/history.ts";
import { joined } from "../../../src/features/dashboard/pages/audit.tsx";
import { barsOf } from "../../../src/features/dashboard/pages/waterfall.tsx";
import { remoteTask } from "../../../src/index.ts";
import type { Task } from "../../../src/task.ts";
import { queueOnFile } from "../../worker/setup.ts";
import { textOf } from "./page-text.ts";
import { openDesk } from "./requests.ts";

const send = remoteTask("send");

test("a function and a queue have a page each with what waits, what limits it and when it is paused", async () => {
  const { queue, api, get } = await openDesk();
  await queue.enqueueTask(send.with({ queueName: ".." }), 1);
  await queue.enqueueTask(remoteTask("other"), 1);
  await queue.setLimit({ func: "send", group: "acme" }, { concurrency: 1 });
  await queue.setLimit({ queueName: ".." }, { concurrency: 2 });
  await queue.schedule("nightly", { every: "1h" }, send);
  await queue.pause({ func: "send" });
  const ofFunction = (await api("/api/functions/detail?name=send")).body;
  expect(ofFunction).toMatchObject({
    ...{ name: "send", pending: { count: 1, complete: true }, running: { count: 0 }, failed: { count: 0 } },
    ...{ pausedAt: expect.any(String), workers: [], schedules: [{ name: "nightly" }] },
  });
  expect((ofFunction.limits as { target: unknown }[]).map(({ target }) => target)).toEqual([
    { func: "send" },
    { func: "send", group: "acme" },
  ]);
  expect((await api("/api/queues/detail?name=..")).body).toMatchObject({
    ...{ name: "..", pending: { count: 1 }, pausedAt: null },
    limits: [{ target: { queueName: ".." }, concurrency: 2 }],
  });
  const page = await (await get("/functions/detail?name=send")).text();
  expect(page).toContain('action="/api/functions/resume?name=send"');
  expect(page).toContain("No worker serves a queue in which its tasks are.");
  expect((await api("/api/queues/detail")).body.message).toContain("name: expected the name of a function");
});

test("a function that no worker runs is wrong on its own page and on that of its queue", async () => {
  const { queue, raw } = await queueOnFile();
  const { get } = await openDesk({}, queue);
  await queue.enqueueTask(send, 1);
  raw.exec("update dbq_tasks set updated_at = updated_at - 900000");
  const why = "1 task of send in the queue default waits for 15 min: no live worker serves its queue";
  for (const path of ["/functions/detail?name=send", "/queues/detail?name=default"])
    expect(textOf(await (await get(path)).text(), "stuck").toLowerCase()).toContain(why);
});

test("a worker that sends no heartbeat is frozen on the page of workers, although its lease has not run out", async () => {
  const { queue, raw } = await queueOnFile();
  const { api, get } = await openDesk({}, queue);
  const state = async () =>
    /<span class="status \w+">(\w+)<\/span>/.exec(await (await get("/workers")).text())?.[1];
  const isFrozen = async () =>
    ((await api("/api/workers")).body.workers as { isFrozen: boolean }[]).map((worker) => worker.isFrozen);
  raw.exec(`insert into dbq_workers (id, queue_names, concurrency, lease, host, pid, started_at, heartbeat_at)
    values ('far:1:aa', '["default"]', 1, 3600000, 'far', 1, ${Date.now()}, ${Date.now()})`);
  expect([await state(), await isFrozen()]).toEqual(["alive", [false]]);
  raw.exec("update dbq_workers set heartbeat_at = heartbeat_at - 2400000");
  expect([await state(), await isFrozen()]).toEqual(["frozen", [true]]);
});

test("who may only read sees no form on these pages", async () => {
  const { queue, get } = await openDesk({ authorize: () => "read" });
  await queue.enqueueTask(send, 1);
  for (const path of ["/functions/detail?name=send", "/queues/detail?name=default", "/audit", "/failures"])
    expect([path, /<form|<button/.test(await (await get(path)).text())]).toEqual([path, false]);
});

test("what people did has a page, on which the steps of one action are one entry", async () => {
  const { queue, api, get } = await openDesk({ authorize: () => ({ allow: "all", actor: "eva" }) });
  await queue.enqueueTasks(Array.from({ length: 150 }, (_, i) => [send, i] as const));
  const filter = { func: "send" };
  const { next } = (await api("/api/tasks/bulk", { action: "cancel", filter, step: true })).body;
  await api("/api/tasks/bulk", { action: "cancel", filter, step: true, after: next });
  await api("/api/queues/mail/pause", {});
  const { entries } = (await api("/api/audit")).body as { entries: object[] };
  expect(entries).toMatchObject([
    { actor: "eva", action: "pause", target: "queue mail", count: 1 },
    { action: "cancel", count: 150 },
  ]);
  expect((await api("/api/audit?target=queue%20mail")).body.entries).toHaveLength(1);
  expect((await api("/api/audit?actor=adam")).body.entries).toEqual([]);
  expect(await (await get("/audit")).text()).toContain('href="/audit?actor=eva"');
});

test("two actions of different people, or with a pause between them, stay two entries", () => {
  const row = {
    at: 200_000,
    actor: "eva",
    action: "retry",
    target: "tasks with func=send",
    count: 2,
    reason: null,
  };
  expect(joined([row, { ...row, at: 190_000 }, { ...row, actor: "adam" }])).toHaveLength(2);
  expect(joined([row, { ...row, at: 100_000 }])).toHaveLength(2);
  expect(joined([row, { ...row, at: 190_000, reason: "again" }])).toHaveLength(2);
  expect(joined([row, { ...row, at: 190_000 }])).toEqual([{ ...row, count: 4 }]);
});

test("an attempt is a bar from the end of the one before, and the last one ends now while it runs", () => {
  const at = (seconds: number) => new Date(seconds * 1_000);
  const attempt = (startedAt: number, endedAt: number) =>
    ({ startedAt: at(startedAt), endedAt: at(endedAt), outcome: "failed" }) as unknown as Attempt;
  const task = { createdAt: at(10), startedAt: at(50), finishedAt: null, status: "running" } as Task;
  expect(barsOf(task, [attempt(12, 20)], 60_000)).toEqual([
    { from: 10_000, startedAt: 12_000, endedAt: 20_000, outcome: "failed", isFirst: true },
    { from: 20_000, startedAt: 50_000, endedAt: 60_000, outcome: "running", isFirst: false },
  ]);
});
