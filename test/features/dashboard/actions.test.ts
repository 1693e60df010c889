/** What people do in the dashboard, by forms and as JSON. */

import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { type Queue, remoteTask, type Task, task } from "../../../src/index.ts";
import { startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { openDesk, origin } from "./requests.ts";

const send = remoteTask("send");

describe("one task", () => {
  test("is cancelled, retried, run now, edited, enqueued again and deleted, and each answer says what was done", async () => {
    const { queue, api } = await openDesk({ authorize: () => ({ allow: "all", actor: "eva" }) });
    const id = await queue.enqueueTask(send.with({ delay: "1h", kwargs: { to: "x" } }), 1);
    const act = async (action: string, body = {}) => (await api(`/api/tasks/${id}/${action}`, body)).body;
    expect(await act("edit", { args: [1, 2], priority: 8 })).toEqual({
      ok: true,
      message: expect.stringMatching(`Task ${id} is changed: it is scheduled and waits until`),
    });
    expect(await act("run")).toEqual({ ok: true, message: `Task ${id} runs as soon as a worker is free.` });
    expect(await queue.getTask(id)).toMatchObject({ status: "pending", args: [1, 2], priority: 8 });
    expect(await act("cancel")).toEqual({ ok: true, message: `Task ${id} is cancelled.` });
    expect(await act("cancel")).toMatchObject({ message: `Task ${id} is cancelled.` });
    expect(await act("retry")).toMatchObject({
      message: `Task ${id} is pending: it runs again from its first attempt.`,
    });
    const { message } = await act("enqueue");
    const again = Number(/^Task (\d+) is enqueued/.exec(String(message))?.[1]);
    expect(await queue.getTask(again)).toMatchObject({
      func: "send",
      args: [1, 2],
      kwargs: { to: "x" },
      priority: 8,
    });
    const shown = (await api(`/api/tasks/${id}`)).body.notes as { action: string; actor: string }[];
    expect(shown.map(({ action, actor }) => [action, actor])).toEqual(
      ["enqueue", "retry", "cancel", "cancel", "run", "edit"].map((action) => [action, "eva"]),
    );
    expect(await act("delete")).toMatchObject({
      message: `Task ${id} is deleted, with its attempts and log lines.`,
    });
    expect(await queue.getTask(id)).toBeUndefined();
    expect(await api(`/api/tasks/${id}/retry`, {})).toEqual({
      status: 404,
      body: { ok: false, message: `there is no task ${id}` },
    });
  });

  test("a task whose arguments cannot be read is enqueued again only with other ones", async () => {
    const target = join(temporaryFolder(), "dbq.db");
    const keyed = await temporaryQueue(
      { encryption: { keys: [{ id: "a", key: Buffer.alloc(32, 1) }] } },
      target,
    );
    const plain = await keyed.enqueueTask(send, "secret");
    const withKwargs = await keyed.enqueueTask(send.with({ kwargs: { to: "x" } }), "secret");
    const { queue, api } = await openDesk({}, await temporaryQueue({}, target));
    const again = async (id: number, body = {}) => await api(`/api/tasks/${id}/enqueue`, body);
    for (const [id, body] of [
      [plain, {}],
      [withKwargs, {}],
      [withKwargs, { args: [1] }],
    ] as const)
      expect(await again(id, body)).toMatchObject({
        status: 400,
        body: { message: expect.stringMatching("not enqueued: its (args|kwargs): encrypted with the key a") },
      });
    expect(await again(plain, { args: [1] })).toMatchObject({ status: 200 });
    expect((await queue.listTasks()).map(({ args }) => Array.isArray(args))).toEqual([true, false, false]);
  });

  test("a retry whose key another task holds says which", async () => {
    const { queue, api } = await openDesk();
    const id = await queue.enqueueTask(send.with({ uniqueKey: "k" }), 1);
    await queue.cancelTask(id);
    const holder = await queue.enqueueTask(send.with({ uniqueKey: "k" }), 1);
    expect(await api(`/api/tasks/${id}/retry`, {})).toEqual({
      status: 400,
      body: { ok: false, message: expect.stringContaining(`is held by task ${holder}`) },
    });
  });

  test.each([
    [{ args: "[1" }, "args: "],
    [{ args: '{"a":1}' }, 'args: expected a JSON array, got {"a":1}'],
    [{ priority: "high" }, "priority: expected a whole number from"],
    [{ waitUntil: "tomorrow" }, 'waitUntil: expected a time such as 2026-11-23T16:00, got "tomorrow"'],
    [
      { waitUntil: "2027-02-30T16:00" },
      'waitUntil: expected a day that exists, such as 2026-11-23T16:00, got "2027-02-30T16:00"',
    ],
    [{ priority: "1", generationId: "77" }, "it is at generation 1, not 77"],
    [{}, "nothing to change"],
  ])("an edit with %o is refused, and changes nothing", async (fields, message) => {
    const { queue, api } = await openDesk();
    const id = await queue.enqueueTask(send, 1);
    const before = await queue.getTask(id);
    expect(await api(`/api/tasks/${id}/edit`, fields)).toMatchObject({
      status: 400,
      body: { ok: false, message: expect.stringContaining(message) },
    });
    expect(await queue.getTask(id)).toEqual(before);
  });

  test("without a script a form is answered by a page that leads back to where it came from", async () => {
    const { queue, post } = await openDesk({ basePath: "/ops" });
    const id = await queue.enqueueTask(send, 1);
    const referer = `https://ops.example/ops/tasks?status=pending`;
    const html = await (await post(`/api/tasks/${id}/cancel`, {}, { referer })).text();
    expect(html).toContain(`Task ${id} is cancelled.`);
    expect(html).toContain('href="/ops/tasks?status=pending"');
    const foreign = await post(`/api/tasks/${id}/retry`, {}, { referer: "https://evil.example/ops/x" });
    expect(await foreign.text()).toContain('<a href="/ops/">Back</a>');
  });

  test("a running task is told at once, and its page shows progress, log lines and the timeline", async () => {
    const { queue, api, get } = await openDesk();
    const held = task(uniqueName("held"), async () => {
      const { currentTask } = await import("../../../src/index.ts");
      const running = currentTask();
      await running.progress(0.25, "a quarter");
      await running.log("on the way");
      await new Promise((_, reject) =>
        running.signal.addEventListener("abort", () => reject(running.signal.reason)),
      );
    });
    await startedWorker(queue);
    const id = await queue.enqueueTask(held);
    await expect.poll(async () => (await queue.getTask(id))?.progress).toBe(0.25);
    await expect.poll(async () => await (await get(`/tasks/${id}`)).text()).toContain("on the way");
    const html = await (await get(`/tasks/${id}`)).text();
    expect(html).toContain("a quarter");
    expect((await api(`/api/tasks/${id}/delete`, {})).body.message).toBe(`task ${id} runs: cancel it first`);
    expect((await api(`/api/tasks/${id}/cancel`, {})).body.message).toContain(
      "its function is told within a second",
    );
  });
});

describe("many tasks", () => {
  test("a filter is counted first, then acted on: 1,000 at a go, with a form that goes on", async () => {
    const { queue, post, api } = await openDesk();
    await queue.enqueueTasks(Array.from({ length: 1_005 }, (_, i) => [send, i] as const));
    const fields = { action: "cancel", scope: "filter", "filter.func": "send" };
    const asked = await (await post("/tasks/bulk", fields)).text();
    expect(asked).toContain("This will cancel 1,005 tasks.");
    expect(asked).toContain("Without JavaScript, 1,000 of them are changed at a go");
    expect((await queue.countTasks()).pending).toBe(1_005);
    expect(
      (await api("/api/tasks/bulk", { action: "cancel", filter: { func: "send" }, preview: true })).body,
    ).toMatchObject({
      count: 1_005,
      complete: true,
      cap: 1_000,
    });
    const done = await (await post("/tasks/bulk", { ...fields, confirmed: "yes" })).text();
    expect(done).toContain("1,000 tasks are cancelled.");
    expect(await queue.countTasks()).toMatchObject({ pending: 5, cancelled: 1_000 });
    const more = [...done.matchAll(/name="([^"]+)" value="([^"]*)"/g)].map(([, name, value]) => [
      name,
      value,
    ]);
    expect(Object.fromEntries(more)).toEqual({ ...fields, confirmed: "yes", after: "6" });
    const last = await (await post("/tasks/bulk", more as string[][])).text();
    expect(last).toContain("5 tasks are cancelled.");
    expect(last).not.toContain("Go on");
  });

  test("a search in texts is counted and acted on as a whole, and cancelled tasks have the reason that was given", async () => {
    const { queue, post, api } = await openDesk();
    await queue.enqueueTasks(["Eva", "Adam", "evangeline"].map((name) => [send, name] as const));
    await queue.enqueueTask(remoteTask("other"), "eva");
    const filter = { q: "EVA", func: "send" };
    expect((await api("/api/tasks/bulk", { action: "cancel", filter, preview: true })).body).toMatchObject({
      count: 2,
      complete: true,
    });
    const fields = {
      action: "cancel",
      scope: "filter",
      "filter.q": "eva",
      "filter.func": "send",
      reason: "",
    };
    const asked = await (await post("/tasks/bulk", fields)).text();
    expect(asked).toContain(
      "This will cancel 2 tasks. They are the tasks of the function send and the text eva",
    );
    const done = await api("/api/tasks/bulk", {
      action: "cancel",
      filter,
      reason: "left the shop",
      step: true,
    });
    expect(done.body).toMatchObject({ changed: 2, next: null });
    const all = await queue.listTasks();
    expect(
      all.filter(({ status }) => status === "cancelled").map(({ args, error }) => [args, error?.message]),
    ).toEqual([
      [["evangeline"], "left the shop"],
      [["Eva"], "left the shop"],
    ]);
  });

  test("step by step, each answer says where to go on", async () => {
    const { queue, api } = await openDesk();
    await queue.enqueueTasks(Array.from({ length: 150 }, (_, i) => [send, i] as const));
    const step = async (after?: unknown) =>
      (
        await api("/api/tasks/bulk", {
          action: "delete",
          filter: { status: "pending" },
          step: true,
          ...(after ? { after } : {}),
        })
      ).body;
    const first = await step();
    expect(first).toMatchObject({ ok: true, changed: 100, skipped: 0, next: 51 });
    expect(await step(first.next)).toMatchObject({ changed: 50, next: null });
    expect(await queue.listTasks()).toEqual([]);
  });

  test("only the selected tasks are changed, and only those that the action is for", async () => {
    const { queue, post } = await openDesk();
    const [a, b, c] = await queue.enqueueTasks([
      [send, 1],
      [send, 2],
      [send, 3],
    ]);
    await queue.cancelTask(b);
    const fields = [
      ["action", "cancel"],
      ["scope", "ids"],
      ["id", String(a)],
      ["id", String(b)],
      ["confirmed", "yes"],
    ];
    const done = await (await post("/tasks/bulk", fields)).text();
    expect(done).toContain("1 task is cancelled. 1 task stayed as it was.");
    expect((await queue.getTask(c))?.status).toBe("pending");
  });

  test("the answer tells the tasks that stayed as they were from those that do not exist", async () => {
    const { queue, api } = await openDesk();
    const [pending, ended] = await queue.enqueueTasks([
      [send, 1],
      [send, 2],
    ]);
    await queue.cancelTask(ended);
    const act = async (action: string, ids: number[], more = {}) =>
      (await api("/api/tasks/bulk", { action, ids, ...more })).body;
    expect(await act("retry", [ended, pending, 9999, ended], { preview: true })).toMatchObject({
      message: "2 tasks",
      count: 2,
    });
    expect(await act("retry", [ended], { preview: true })).toMatchObject({ message: "1 task" });
    expect(await act("retry", [ended, pending, 9999, ended])).toEqual({
      ok: true,
      message:
        "1 task is retried. 1 task stayed as it was: it runs, waits already, or another task holds its key. There is no task 9999.",
      ...{ changed: 1, skipped: 1, missing: [9999], next: null },
    });
    expect(await act("retry", [ended, pending])).toMatchObject({
      message:
        "0 tasks are retried. 2 tasks stayed as they were: they run, wait already, or another task holds their key.",
    });
    const unknown = Array.from({ length: 1_000 }, (_, i) => 10_000 + i);
    expect(await act("delete", unknown)).toMatchObject({
      message: `0 tasks are deleted. There are no tasks ${unknown.slice(0, 10).join(", ")} and 990 more.`,
      missing: unknown,
    });
    expect(await act("delete", [pending, 9999])).toMatchObject({
      message: "1 task is deleted. There is no task 9999.",
    });
  });

  test("the page that asks whether one task is meant speaks of one task", async () => {
    const { queue, post } = await openDesk();
    const id = await queue.enqueueTask(send, 1);
    const asked = await post("/tasks/bulk", { action: "cancel", scope: "ids", id: String(id) });
    expect(await asked.text()).toMatch(/This will cancel 1 task\.[\s\S]*>Cancel 1 task<\/button>/);
  });

  test("an unknown action and too many ids are refused", async () => {
    const { api } = await openDesk();
    const refused = async (body: object) => (await api("/api/tasks/bulk", body)).body.message;
    expect(await refused({ action: "fly" })).toBe('action: expected retry, edit, cancel, delete, got "fly"');
    expect(await refused({ action: "cancel", ids: Array.from({ length: 1_001 }, (_, i) => i) })).toContain(
      "1001 are given",
    );
  });
});

test("what was done to queues, functions, limits, schedules and many tasks is kept, and what changed nothing is not", async () => {
  const { queue, api } = await openDesk({ authorize: () => ({ allow: "all", actor: "eva" }) });
  await queue.enqueueTasks([
    [send, 1],
    [send, 2],
    [send, 3],
  ] as const);
  await queue.schedule("nightly", { every: "1h" }, send);
  await api("/api/queues/mail/pause", {});
  await api("/api/functions/send/pause", { group: "acme" });
  await api("/api/limits", { about: "name", name: "openai", concurrency: 2 });
  await api("/api/schedules/nightly/pause", {});
  await api("/api/tasks/bulk", { action: "cancel", ids: [1] });
  await api("/api/tasks/bulk", { action: "cancel", filter: { func: "send" } });
  await api("/api/tasks/bulk", { action: "delete", filter: { func: "unknown" } });
  await api("/api/tasks/bulk", { action: "delete", filter: { func: "send" }, preview: true });
  const kept = await internalsOf(queue).store.look.audits(undefined, 20);
  expect(kept.map(({ actor, action, target, count }) => [actor, action, target, count])).toEqual([
    ["eva", "cancel", expect.stringContaining("func=send"), 2],
    ["eva", "cancel", "1 selected task", 1],
    ["eva", "pause", "schedule nightly", 1],
    ["eva", "limit", "limit openai", 1],
    ["eva", "pause", "group acme of send", 1],
    ["eva", "pause", "queue mail", 1],
  ]);
});

test("an action is taken and kept with a long or hostile name of who did it, and not taken when it cannot be kept", async () => {
  const actor = `${"🌊".repeat(300)}`;
  const { queue, api } = await openDesk({ authorize: () => ({ allow: "all", actor }) });
  const id = await queue.enqueueTask(send.with({ delay: "1h" }), 1);
  expect((await api(`/api/tasks/${id}/edit`, { priority: 9 })).status).toBe(200);
  const kept = await internalsOf(queue).store.look.audits(undefined, 20);
  expect(kept.map((entry) => entry.actor)).toEqual(["🌊".repeat(255)]);
  await queue.transaction((tx) => (tx as never as { run(sql: string): void }).run("drop table dbq_audit"));
  const before = await queue.getTask(id);
  for (const action of ["retry", "run", "cancel", "delete", "edit", "enqueue"])
    expect([
      action,
      (await api(`/api/tasks/${id}/${action}`, action === "edit" ? { priority: 1 } : {})).status,
    ]).toEqual([action, 500]);
  for (const [path, body] of [
    ["/api/tasks/bulk", { action: "cancel", filter: {} }],
    ["/api/tasks/bulk", { action: "delete", ids: [id] }],
    ["/api/queues/mail/pause", {}],
    ["/api/limits", { about: "name", name: "openai", concurrency: 2 }],
  ] as const)
    expect([path, (await api(path, body)).status]).toEqual([path, 500]);
  expect(await queue.getTask(id)).toEqual(before);
  expect([(await queue.listTasks()).length, (await queue.listLimits()).length]).toEqual([1, 0]);
});

test.each([7, {}, []])("an actor that is no text (%o) is refused before anything is done", async (actor) => {
  const { queue, api } = await openDesk({ authorize: () => ({ allow: "all", actor: actor as never }) });
  const id = await queue.enqueueTask(send, 1);
  expect((await api(`/api/tasks/${id}/cancel`, {})).status).toBe(500);
  expect((await queue.getTask(id))?.status).toBe("pending");
});

test("what was done is deleted by a worker after 90 days", async () => {
  const { queue, api } = await openDesk({ authorize: () => ({ allow: "all", actor: "eva" }) });
  const id = await queue.enqueueTask(send.with({ queueName: "elsewhere" }), 1);
  await api(`/api/tasks/${id}/edit`, { priority: 1 });
  const days = (count: number) => Date.now() - count * 86_400_000;
  const age = (count: number) =>
    queue.transaction((tx) =>
      (tx as never as { run(sql: unknown): void }).run(
        `update dbq_audit set at = ${days(count)} where id = 1`,
      ),
    );
  await age(91);
  await api(`/api/tasks/${id}/edit`, { priority: 2 });
  const notes = async () => (await api(`/api/tasks/${id}`)).body.notes as unknown[];
  expect(await notes()).toHaveLength(2);
  await startedWorker(queue);
  await expect.poll(notes).toHaveLength(1);
});

describe("the page of tasks", () => {
  test("finds by status, function, queue, text and time, and goes on page by page", async () => {
    const { queue, api } = await openDesk();
    await queue.enqueueTasks(Array.from({ length: 7 }, (_, i) => [send, `order ${i}`] as const));
    const other = await queue.enqueueTask(
      remoteTask("other").with({ queueName: "mail", delay: "1h" }),
      "Order 7",
    );
    const ids = async (query: string) =>
      ((await api(`/api/tasks?${query}`)).body.tasks as { id: number }[]).map(({ id }) => id);
    expect(await ids("status=scheduled")).toEqual([other]);
    expect(await ids("queue=mail")).toEqual([other]);
    expect(await ids("func=send&limit=3")).toEqual([7, 6, 5]);
    expect(await ids("func=send&limit=3&after=5")).toEqual([4, 3, 2]);
    expect(await ids("q=order+7")).toEqual([other]);
    expect(await ids("to=2020-01-01T00:00")).toEqual([]);
    expect((await api("/api/tasks?status=lost")).body.message).toMatch(/^status: expected one of pending/);
    expect((await api("/api/tasks?limit=0")).body.message).toBe(
      'limit: expected a whole number from 1 to 200, got "0"',
    );
  });

  test("numbers that JavaScript does not hold exactly are shown as they are stored", async () => {
    const { queue, get } = await openDesk();
    await queue.enqueueTask(send, 1);
    await queue.transaction((tx) =>
      (tx as never as { run(sql: unknown): void }).run("update dbq_tasks set args = '[9007199254740993]'"),
    );
    expect(await (await get("/tasks/1")).text()).toContain("[9007199254740993]");
  });
});

describe("editing a task", () => {
  const storedArgs = (queue: Queue, args: string) =>
    queue.transaction((tx) =>
      (tx as never as { run(sql: unknown): void }).run(`update dbq_tasks set args = '${args}'`),
    );
  const shownArgs = (html: string) => /<textarea name="args"[^>]*>\s*([^<]*?)\s*<\/textarea>/.exec(html)?.[1];

  test("a form that sends the arguments back as it got them leaves them as they are stored", async () => {
    const { queue, get, post } = await openDesk();
    const id = await queue.enqueueTask(send.with({ delay: "1h" }), 1);
    await storedArgs(queue, '[9007199254740993, {"b":1, "a":2}]');
    const args = shownArgs(await (await get(`/tasks/${id}`)).text())?.replaceAll("&quot;", '"') ?? "";
    expect(args).toContain("9007199254740993");
    await post(`/api/tasks/${id}/edit`, { args: args.replaceAll("\n", "\r\n"), priority: "9" });
    expect((await queue.getTask(id))?.priority).toBe(9);
    expect(await (await get(`/tasks/${id}`)).text()).toContain("9007199254740993");
    const changed = await post(`/api/tasks/${id}/edit`, { args: "[9007199254740993]" });
    expect([changed.status, await changed.text()]).toEqual([
      400,
      expect.stringContaining("JavaScript cannot hold &quot;9007199254740993&quot; exactly"),
    ]);
  });

  test("a program's arguments are refused where JavaScript would change a number, and a form's that are there twice", async () => {
    const { queue, ui, post } = await openDesk();
    const id = await queue.enqueueTask(send.with({ delay: "1h" }), 1);
    const headers = { "content-type": "application/json", authorization: "Bearer x" };
    const edit = new Request(`${origin}/api/tasks/${id}/edit`, {
      ...{ method: "POST", headers, body: '{"args":[9007199254740993]}' },
    });
    expect(await (await ui(edit)).json()).toEqual({
      ok: false,
      message: 'the body: JavaScript cannot hold "9007199254740993" exactly: write it as a text',
    });
    const twice = await post(`/api/tasks/${id}/edit`, [
      ["args", "[2]"],
      ["args", "[3]"],
    ]);
    expect([twice.status, await twice.text()]).toEqual([
      400,
      expect.stringMatching(/args: expected one value, got several/i),
    ]);
    expect((await queue.getTask(id))?.args).toEqual([1]);
  });

  test("enqueued again, a task keeps its group, and is refused when its arguments would change", async () => {
    const { queue, post } = await openDesk();
    const id = await queue.enqueueTask(send.with({ group: "acme" }), 1);
    await post(`/api/tasks/${id}/enqueue`);
    expect((await queue.listTasks()).map(({ groupKey }) => groupKey)).toEqual(["acme", "acme"]);
    await storedArgs(queue, "[9007199254740993]");
    const refused = await post(`/api/tasks/${id}/enqueue`);
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining("9007199254740993"),
    ]);
    expect(await queue.countTasks()).toMatchObject({ pending: 2 });
  });

  test("arguments that redact has changed are not offered for a change, which would store what is shown", async () => {
    const redact = (task: Task) => ({ ...task, args: task.func === "send" ? ["***"] : task.args });
    const { queue, get } = await openDesk({ redact });
    const secret = await queue.enqueueTask(send.with({ delay: "1h" }), "secret");
    const other = await queue.enqueueTask(remoteTask("other").with({ delay: "1h" }), "open");
    const html = await (await get(`/tasks/${secret}`)).text();
    expect([shownArgs(html), html]).toEqual([undefined, expect.stringContaining("cannot be changed here")]);
    expect(shownArgs(await (await get(`/tasks/${other}`)).text())).toContain("open");
  });

  test("of arguments of a mebibyte the begin is shown, with the way to all of them", async () => {
    const { queue, get } = await openDesk({ basePath: "/ops" });
    const id = await queue.enqueueTask(send.with({ delay: "1h" }), "x".repeat(1_000_000));
    const html = await (await get(`/tasks/${id}`)).text();
    expect(html.length).toBeLessThan(100_000);
    expect(html).toContain(`The first 65,536 characters of 1,000,004 bytes. <a href="/ops/api/tasks/${id}">`);
    expect(shownArgs(html)).toBeUndefined();
  });
});

describe("queues and limits", () => {
  test("a queue is paused and goes on, and its page says so", async () => {
    const { queue, api, get } = await openDesk();
    await queue.enqueueTask(send.with({ queueName: "mail" }), 1);
    expect((await api("/api/queues/mail/pause", {})).body.message).toBe(
      "Queue mail is paused: none of its tasks starts, and those that run go on.",
    );
    expect((await api("/api/queues/mail/pause", {})).body.message).toBe("Queue mail was paused before.");
    expect(await (await get("/queues")).text()).toContain('action="/api/queues/resume?name=mail"');
    expect((await api("/api/queues/mail/resume", {})).body.message).toBe(
      "Queue mail goes on: 1 task that waited starts before newer ones.",
    );
    expect((await api("/api/queues/mail/resume", {})).body.message).toBe("Queue mail was not paused.");
    expect((await api("/api/queues/never/resume", {})).body.message).toBe("Queue never was not paused.");
    expect((await api("/api/queues/mail/fly", {})).status).toBe(404);
  });

  test("of a schedule, too, an answer says when it was paused or went on before", async () => {
    const { queue, api } = await openDesk();
    await queue.schedule("nightly", { every: "1h" }, send);
    const act = async (action: string) => (await api(`/api/schedules/nightly/${action}`, {})).body.message;
    expect(await act("resume")).toMatch(/^Schedule nightly was not paused: its next task is made at 2/);
    expect(await act("pause")).toMatch(/^Schedule nightly is paused: /);
    expect(await act("pause")).toBe("Schedule nightly was paused before.");
    expect(await act("resume")).toMatch(/^Schedule nightly goes on: its next task is made at 2/);
  });

  test("a function and a group of it are paused and go on, and their pages say so", async () => {
    const { queue, api, get } = await openDesk({ authorize: () => ({ allow: "all", actor: "eva" }) });
    await queue.enqueueTask(send.with({ group: "acme" }), 1);
    const paused = async () => (await queue.listLimits()).map(({ target }) => target);
    expect((await api("/api/functions/send/pause", {})).body.message).toBe(
      "Function send is paused: none of its tasks starts, and those that run go on.",
    );
    expect(await paused()).toEqual([{ func: "send" }]);
    expect(await (await get("/queues")).text()).toContain('action="/api/functions/resume?name=send"');
    expect((await api("/api/functions/send/resume", {})).body.message).toBe(
      "Function send goes on: 1 task that waited starts before newer ones.",
    );
    expect((await api("/api/functions/send/pause", { group: "acme" })).body.message).toContain(
      "Group acme of send is paused",
    );
    expect(await paused()).toEqual([{ func: "send", group: "acme" }]);
    expect((await api("/api/functions/send/resume", { group: "acme" })).body.message).toContain("goes on");
    expect(await paused()).toEqual([]);
    expect((await api("/api/functions/send/fly", {})).status).toBe(404);
  });

  test.each([".", "..", "%2e", "a/b", "../tasks", " a ", "a+b", "a\nb", "?x=1&name=y", "a#b", "é 🎉"])(
    "a queue, a function, a group and a schedule of the name %j are paused and go on by their page's buttons",
    async (name) => {
      const { queue, api, get } = await openDesk();
      await queue.enqueueTask(remoteTask(name).with({ queueName: name, group: name }));
      // A schedule's name has no white space at its ends.
      const scheduleName = name.trim();
      await queue.schedule(scheduleName, { every: "1h" }, send);
      const paused = async () => {
        const [schedule] = await queue.listSchedules();
        const targets = (await queue.listLimits()).flatMap(({ target, pausedAt }) =>
          pausedAt ? [target] : [],
        );
        return [...targets, ...(schedule?.pausedAt ? ["schedule"] : [])];
      };
      const press = async (page: string, button: RegExp) => {
        const actions = [
          ...(await (await get(page)).text()).matchAll(/<form method="post" action="([^"]+)"/g),
        ];
        const [path] = actions
          .map(([, to]) => String(to).replaceAll("&amp;", "&"))
          .filter((to) => button.test(to));
        expect((await api(String(path), {})).body).toMatchObject({ ok: true });
      };
      await press("/queues", /queues\/pause/);
      expect(await paused()).toEqual([{ queueName: name }]);
      await press("/queues", /queues\/resume/);
      const query = `?${new URLSearchParams({ name })}`;
      expect((await api(`/api/functions/pause${query}`, {})).body.ok).toBe(true);
      expect(await paused()).toEqual([{ func: name }]);
      await press("/queues", /functions\/resume/);
      expect((await api(`/api/functions/pause${query}`, { group: name })).body.ok).toBe(true);
      expect(await paused()).toEqual([{ func: name, group: name }]);
      await press("/queues", /functions\/resume/);
      await press("/schedules", /schedules\/pause/);
      expect(await paused()).toEqual(["schedule"]);
      await press("/schedules", /schedules\/resume/);
      expect(await paused()).toEqual([]);
      await press("/schedules", /schedules\/run/);
      expect(await queue.countTasks({ scheduleName })).toMatchObject({ pending: 1 });
    },
  );

  test("an action that names no queue, function or schedule is refused, and pauses nothing", async () => {
    const { queue, api } = await openDesk();
    await queue.schedule("nightly", { every: "1h" }, send);
    // A client makes `/api/queues/pause` and `/api/pause` of these.
    for (const path of [
      "/api/queues/./pause",
      "/api/functions/%2e/pause",
      "/api/schedules/pause",
      "/api/schedules/run?name=",
    ])
      expect((await api(path, {})).status).toBe(400);
    expect((await api("/api/queues/../pause", {})).status).toBe(404);
    expect((await queue.listLimits()).length).toBe(0);
    expect((await queue.listSchedules())[0]?.pausedAt).toBeNull();
    expect(await queue.countTasks()).toMatchObject({ pending: 0 });
  });

  test("who may not pause sees no button for it, and is refused", async () => {
    const { queue, api, get } = await openDesk({ authorize: () => ["resume"] });
    await queue.pause({ func: "send" });
    expect((await api("/api/functions/send/pause", {})).status).toBe(403);
    expect(await (await get("/queues")).text()).not.toContain("/pause");
    expect((await api("/api/functions/send/resume", {})).body.ok).toBe(true);
  });

  test("the limit that the code of a function sets stays, and the answer says so", async () => {
    const { queue, api } = await openDesk();
    const limited = task(uniqueName("limited"), async () => {}, { limit: { concurrency: 3 } });
    await startedWorker(queue, { tasks: [limited] });
    const name = limited.taskName;
    const set = async (body: object) => (await api("/api/limits", { about: "func", name, ...body })).body;
    expect(await set({ remove: true })).toMatchObject({
      message: `Function ${name} was not limited, except by its code.`,
    });
    await set({ concurrency: 1 });
    expect(await set({ remove: true })).toMatchObject({
      message: `Function ${name} is not limited any more, except by its code.`,
    });
    expect(await queue.listLimits()).toMatchObject([{ fromCode: true, concurrency: 3 }]);
  });

  test("a limit is set, shown and removed; a wrong one is refused by its name", async () => {
    const { queue, api } = await openDesk();
    const set = async (body: object) => (await api("/api/limits", body)).body.message;
    expect(await set({ about: "name", name: "openai", concurrency: "20", rate: "500/1m" })).toBe(
      "Limit openai is limited: 20 at once, 500 in 1m.",
    );
    expect(await queue.listLimits()).toMatchObject([
      { target: "openai", concurrency: 20, rate: { limit: 500, per: 60_000 } },
    ]);
    expect(await set({ about: "name", name: "mail", rate: "500/1m", burst: 10 })).toBe(
      "Limit mail is limited: 500 in 1m, in bursts of up to 10.",
    );
    expect(await set({ about: "name", name: "mail", remove: true })).toBe(
      "Limit mail is not limited any more.",
    );
    expect(await set({ about: "name", name: "mail", remove: true })).toBe("Limit mail was not limited.");
    expect(await set({ about: "func", name: "call", group: "acme", concurrency: 2 })).toContain(
      "Group acme of call is limited: 2 at once.",
    );
    expect(await set({ about: "name", name: "openai", remove: "yes" })).toBe(
      "Limit openai is not limited any more.",
    );
    expect(await set({ about: "queue", name: "mail", rate: "often" })).toBe(
      'rate: expected how many in how long, such as 100/1m, got "often"',
    );
    expect(await set({ about: "queue", name: "mail" })).toContain("give one of both");
    expect(await set({ about: "queue", name: "", concurrency: 1 })).toContain("got nothing");
  });
});
