/** Why a task waits, as `dbq show` tells; what is still paused, and which shared names nobody has set. */

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import {
  openQueue,
  type Queue,
  remoteTask,
  type TaskWaits,
  task,
  unregisterTask,
  Worker,
} from "../../../src/index.ts";
import { deferred, temporaryFolder, uniqueName } from "../../support/queue.ts";
import { startDbq, tasks } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

async function opened(): Promise<{ folder: string; queue: Queue; why: (id: number) => Promise<string> }> {
  const folder = temporaryFolder();
  const queue = await openQueue(join(folder, "dbq.db"));
  onTestFinished(() => queue.close());
  const why = async (id: number) => (await dbq(folder, ["show", String(id)])).out.split("why")[1] ?? "";
  return { folder, queue, why };
}

/** A worker in this process, stopped after the test. */
async function working(queue: Queue): Promise<void> {
  const worker = new Worker(queue, { pollInterval: 50 });
  await worker.start();
  onTestFinished(() => worker.stop({ grace: 0 }));
}

/** Runs a task that uses this shared limit. Returns what lets the task end. */
async function runningWith(queue: Queue, name: string): Promise<() => void> {
  const held = deferred();
  const call = task(uniqueName("call"), () => held.promise, { uses: [name] });
  onTestFinished(() => void unregisterTask(call));
  await working(queue);
  await queue.enqueueTask(call);
  await expect.poll(async () => await queue.countTasks()).toMatchObject({ running: 1 });
  return () => held.resolve();
}

test.each([
  [{ queueName: "mail" }, /held by +queue mail: paused since \d{4}-/],
  [{ func: "send" }, /held by +function send: paused since \d{4}-/],
  [{ func: "send", group: "acme" }, /held by +group acme: paused since \d{4}-/],
])("show says that %o is paused, and no longer once it is resumed", async (target, words) => {
  const { folder, queue, why } = await opened();
  const id = await queue.enqueueTask(remoteTask("send").with({ queueName: "mail", group: "acme" }));
  await queue.pause({ func: "other" });
  await queue.pause(target);
  expect(await why(id)).toMatch(/^ +waits for the end of a pause\n/);
  expect(await why(id)).toMatch(words);
  const found = await dbqJson<TaskWaits>(folder, ["show", String(id)]);
  expect(found).toMatchObject({ waits: "waits for the end of a pause" });
  expect(found.waitsFor).toMatchObject([{ pausedAt: expect.any(String) }]);
  await queue.resume(target);
  expect(await why(id)).not.toContain("held by");
});

test("show names the limit whose places are taken, also one by a shared name, and the rate that has put a task off", async () => {
  const { folder, queue, why } = await opened();
  const held = deferred();
  const options = { group: (tenant: string) => tenant, uses: ["openai"], limit: { concurrency: 1 } };
  const call = task(uniqueName("call"), (_: string) => held.promise, options);
  const quick = task(uniqueName("quick"), async () => {}, { limit: { rate: { limit: 1, per: "1h" } } });
  for (const each of [call, quick]) onTestFinished(() => void unregisterTask(each));
  await queue.setLimit("openai", { concurrency: 1 });
  await queue.setLimit("other", { concurrency: 1 });
  await working(queue);
  await queue.enqueueTasks([[call, "acme"], [quick]]);
  await expect.poll(async () => await queue.countTasks()).toMatchObject({ running: 1, completed: 1 });
  const next = await queue.enqueueTask(call, "acme");
  expect(await why(next)).toMatch(/^ +waits for a limit that is used up\n/);
  expect(await why(next)).toMatch(
    new RegExp(`held by +function ${call.taskName}: 1 of 1 at once, each group\n`),
  );
  expect(await why(next)).toMatch(/ +shared limit openai: 1 of 1 at once\n/);
  expect(await why(next)).not.toContain("other");
  const late = await queue.enqueueTask(quick);
  await expect.poll(async () => (await queue.getTask(late))?.status).toBe("scheduled");
  expect(await why(late)).toMatch(
    /^ +waits for its turn at a rate\n +held by +function quick-\d+: rate 1\/1 ?h, has put it off until \d{4}-[^,]+, next start \d{4}-/,
  );
  const { waitsFor } = await dbqJson<TaskWaits>(folder, ["show", String(late)]);
  expect(waitsFor).toMatchObject([{ hasPutOff: true, isUsedUp: true, rate: { limit: 1, per: 3_600_000 } }]);
  held.resolve();
});

test("a limit of a group goes before that of its function, and one that was set before the whole one of the code", async () => {
  const { folder, queue } = await opened();
  const code = { func: "call", values: { concurrency: 9, rate: { limit: 1, per: 1_000, burst: 1 } } };
  await internalsOf(queue).store.limits.declare([code]);
  await queue.setLimit({ func: "call" }, { concurrency: 5 });
  await queue.setLimit({ func: "call", group: "acme" }, { concurrency: 2 });
  const limitsOf = async (group?: string) => {
    const id = await queue.enqueueTask(remoteTask("call").with(group === undefined ? {} : { group }));
    const { waitsFor } = await dbqJson<TaskWaits>(folder, ["show", String(id)]);
    return waitsFor.map(({ about, concurrency, rate }) => ({ about, concurrency, rate }));
  };
  expect(await limitsOf("acme")).toEqual([{ about: "group", concurrency: 2, rate: null }]);
  expect(await limitsOf("other")).toEqual([{ about: "function", concurrency: 5, rate: null }]);
});

test("show says that a task waits for its time or for a worker; of a finished or running one it says nothing", async () => {
  const { folder, queue, why } = await opened();
  const later = await queue.enqueueTask(remoteTask("send").with({ delay: "1h" }));
  expect(await why(later)).toMatch(/^ +waits for its time\n/);
  const now = await queue.enqueueTask(remoteTask("send"));
  expect(await why(now)).toMatch(/^ +waits for a worker/);
  await queue.cancelTask(now);
  expect(await why(now)).toBe("");
  const found = await dbqJson<TaskWaits>(folder, ["show", String(now)]);
  expect(found).toMatchObject({ waits: null, waitsFor: [], unserved: null });
});

test("of a function that is not known, a shared limit that is used up may be what holds the task back", async () => {
  const { queue, why } = await opened();
  await queue.setLimit("openai", { concurrency: 1 });
  const letGo = await runningWith(queue, "openai");
  const id = await queue.enqueueTask(remoteTask("elsewhere"));
  expect(await why(id)).toContain("shared limit openai: 1 of 1 at once, if the function uses it\n");
  letGo();
});

test("resume names what is still paused: of a queue functions and groups, of a function its groups and its queues", async () => {
  const { folder, queue } = await opened();
  await queue.enqueueTask(remoteTask("send").with({ queueName: "mail" }));
  for (const name of ["mail", "slow"]) await queue.pause({ queueName: name });
  // The oldest comes first, by the millisecond.
  await sleep(5);
  await queue.pause({ func: "send" });
  await queue.pause({ func: "send", group: "acme" });
  await sleep(5);
  await queue.pause({ func: "other", group: "acme" });
  expect((await dbq(folder, ["resume", "--func", "send"])).out).toBe(
    "function send is now resumed\nstill paused: queue mail; function send, group acme\n",
  );
  expect(await dbqJson(folder, ["resume", "--queue", "mail"])).toEqual({
    changed: true,
    stillPaused: [
      { func: "send", group: "acme" },
      { func: "other", group: "acme" },
    ],
  });
  await queue.pause({ func: "send" });
  expect((await dbq(folder, ["resume", "--func", "send", "--group", "acme"])).out).toBe(
    "function send, group acme is now resumed\nstill paused: function send\n",
  );
  await queue.resume({ func: "send" });
  expect(await dbqJson(folder, ["resume", "--func", "send"])).toEqual({ changed: false, stillPaused: [] });
});

test("limits and doctor name a shared name that a running task uses and nobody has set", async () => {
  const { folder, queue } = await opened();
  await queue.setLimit("mails", { concurrency: 1 });
  expect((await dbq(folder, ["limits"])).out).not.toContain("mailz");
  const letGo = await runningWith(queue, "mailz");
  const text =
    'tasks use the limit by the name "mailz", which nobody has set: it may be misspelt; dbq limit sets one';
  expect((await dbq(folder, ["limits"])).out).toContain(`${text}\n`);
  const { out, err } = await dbq(folder, ["limits", "--json"]);
  expect(JSON.parse(out)).toHaveLength(1);
  expect(JSON.parse(err)).toMatchObject({ event: "warning", message: text });
  const doctor = await dbq(folder, ["doctor", "--json"]);
  expect(doctor.code).toBe(1);
  expect(JSON.parse(doctor.out)).toMatchObject({ ok: false, problems: [text] });
  await queue.setLimit("mailz", { concurrency: 1 });
  expect(await dbqJson(folder, ["doctor"])).toMatchObject({ ok: true, problems: [] });
  letGo();
});

test("doctor with modules names a shared limit that none of their functions uses", async () => {
  const { folder, queue } = await opened();
  await queue.setLimit("mails", { concurrency: 1 });
  const { code, out } = await startDbq(folder, ["doctor", tasks, "--json"]).ended;
  const problem =
    'the limit by the name "mails" is used by no running task, and by no function of the given modules: it may be misspelt';
  expect({ code, problems: JSON.parse(out).problems }).toEqual({ code: 1, problems: [problem] });
});
