/** The pages of workflows, over runs that a worker has made. */
import { expect, test, vi } from "vitest";
import { Access } from "../../../src/features/dashboard/access.ts";
import type { DashboardOptions } from "../../../src/features/dashboard/index.ts";
import type { PageContext } from "../../../src/features/dashboard/page.ts";
import { type RunData, run as runPage } from "../../../src/features/dashboard/pages/run.tsx";
import type { WorkflowsData } from "../../../src/features/dashboard/pages/workflows.tsx";
import { axisOf, readRun } from "../../../src/features/dashboard/runs.ts";
import { type ShownRun, shownRun } from "../../../src/features/operate/shown.ts";
import { all, child, step, waitForEvent } from "../../../src/features/workflows/steps.ts";
import { remoteTask, type Task, task } from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { textOf } from "./page-text.ts";
import { type Desk, openDesk } from "./requests.ts";
import { evil } from "./scenes.ts";

const atOnce = { maxRetries: 0 };

const label = task(uniqueName("label"), async (id: string) => `label of ${id}`);
const customs = task(
  uniqueName("customs"),
  async (id: string) => {
    await step("declare", () => `declared ${id}`);
    throw new RangeError("no such tariff");
  },
  atOnce,
);

/** Steps, an error that was caught, two children, and a wait for an event. */
const order = task(uniqueName("order"), async (id: string) => {
  await step("charge", () => ({ receipt: `receipt of ${id}` }));
  await step("reserve", () => {
    throw new TypeError("two articles are missing");
  }).catch(() => {});
  await all([child(label, id), child(customs, id).catch(() => "none")]);
  await waitForEvent(`approved:${id}`, { timeout: "7d" });
});

/** An order that waits for its event, and its dashboard. */
async function waitingOrder(options: DashboardOptions = {}): Promise<{ desk: Desk; id: number }> {
  const queue = await temporaryQueue();
  await startedWorker(queue, { concurrency: 1, pollInterval: 50 });
  const id = await queue.enqueueTask(order, "a-7");
  await vi.waitFor(async () => expect((await queue.listWaiting("approved:a-7"))[0]?.status).toBe("waiting"), {
    timeout: 20_000,
  });
  return { desk: await openDesk(options, queue), id };
}

/** The words of a page, with the lists in it. */
const wordsOf = (html: string) =>
  html
    .replaceAll(/<[^>]+>/g, "")
    .replaceAll("&quot;", '"')
    .replaceAll(/\s+/g, " ");

const pageOf = async ({ get }: Desk, path: string) => await (await get(path)).text();
const runOf = async ({ api }: Desk, path: string) => (await api(path)).body as unknown as RunData;

test("the tasks that wait for one event have pages, the oldest first", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue, { concurrency: 1, pollInterval: 50 });
  const waits = task(uniqueName("waits"), () => waitForEvent("opened"));
  const ids = await queue.enqueueTasks(Array.from({ length: 60 }, () => [waits] as const));
  await vi.waitFor(async () => expect((await queue.countTasks()).waiting).toBe(60), { timeout: 20_000 });
  const desk = await openDesk({}, queue);
  const read = async (after: string) =>
    (await desk.api(`/api/workflows?event=opened${after}`)).body as unknown as WorkflowsData;
  const first = await read("");
  expect(first.waiting.map((one) => one.task.id)).toEqual(ids.slice(0, 50));
  expect(first.next).toBe(ids[49]);
  expect(await pageOf(desk, "/workflows?event=opened")).toContain(`after=${first.next}">More tasks</a>`);
  const second = await read(`&after=${first.next}`);
  expect([second.waiting.map((one) => one.task.id), second.next]).toEqual([ids.slice(50), null]);
  expect((await desk.api("/api/workflows?event=opened&after=x")).status).toBe(400);
});

test("a run's page shows the beginning of a long value, and reads no more of it", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue);
  const export_ = task(uniqueName("export"), async (_rows: string) => {
    await step("rows", () => "r".repeat(500_000));
  });
  const id = await queue.enqueueTask(export_, "a".repeat(500_000));
  await queue.awaitTaskCompletion(id, { timeout: "20s" });
  const desk = await openDesk({}, queue);
  const { run } = await runOf(desk, `/api/workflows/${id}`);
  expect(run.task.cut).toEqual({ args: 500_004 });
  expect(run.steps[0]?.cut).toEqual({ value: 500_002 });
  const html = await pageOf(desk, `/workflows/${id}`);
  expect(wordsOf(html)).toContain("500,002 bytes");
  expect(html).toContain("The first 2,000 characters.");
  expect(html).toContain(`"${"r".repeat(1_999)}`.replace('"', "&quot;"));
  expect(html.length).toBeLessThan(20_000);
});

test("the workflows that were active last and the tasks that wait have pages, the newest first", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue, { concurrency: 1, pollInterval: 50 });
  const waits = task(uniqueName("waits"), async () => {
    await step("one", () => 1);
    await waitForEvent("opened");
  });
  const ids = await queue.enqueueTasks(Array.from({ length: 60 }, () => [waits] as const));
  await vi.waitFor(async () => expect((await queue.countTasks()).waiting).toBe(60), { timeout: 20_000 });
  const newest = [...ids].reverse();
  const desk = await openDesk({}, queue);
  const read = async (query: string) =>
    (await desk.api(`/api/workflows${query}`)).body as unknown as WorkflowsData;
  const first = await read("");
  expect(first.workflows.map((one) => one.id)).toEqual(newest.slice(0, 50));
  expect(first.waiting.map((one) => one.task.id)).toEqual(newest.slice(0, 50));
  const html = await pageOf(desk, "/workflows");
  expect(html).toContain(`before=${first.nextWorkflows}">Workflows that were active before<`);
  expect(html).toContain(`after=${first.next}">More tasks</a>`);
  const waiting = await read(`?after=${first.next}`);
  expect([waiting.waiting.map((one) => one.task.id), waiting.next]).toEqual([newest.slice(50), null]);
  const older = await read(`?before=${first.nextWorkflows}`);
  expect([older.workflows.map((one) => one.id), older.nextWorkflows]).toEqual([newest.slice(50), null]);
  expect((await desk.api("/api/workflows?before=x")).status).toBe(400);
});

test("the page of queues counts the tasks that wait, where some do", async () => {
  const { desk } = await waitingOrder();
  const page = await pageOf(desk, "/queues");
  expect(page).toMatch(/data-label="Waiting"><a href="[^"]*status=waiting[^"]*">1</);
  expect(await pageOf(await openDesk({}, await temporaryQueue()), "/queues")).not.toContain("Waiting<");
});

test("the page of a run shows its tasks, steps and waits, in order", async () => {
  const { desk, id } = await waitingOrder();
  const html = await pageOf(desk, `/workflows/${id}`);
  const text = wordsOf(html);
  const parts = [
    /order-\d+ waiting "a-7"/,
    /waits for the event approved:a-7, or until 2\d{3}-/,
    /charge {"receipt":"receipt of a-7"}\d+ ms/,
    /reserve TypeError: two articles are missing\d+ ms/,
    /label-\d+ completed "a-7"\d+ ms/,
    /customs-\d+ failed Retry"a-7"RangeError: no such tariff\d+ ms/,
    /declare Retry from here"declared a-7"\d+ ms/,
  ];
  expect(text).toMatch(new RegExp(parts.map(({ source }) => source).join(".*")));
  const { children } = (await runOf(desk, `/api/workflows/${id}`)).run;
  for (const { task: one } of children) expect(html).toContain(`href="/tasks/${one.id}"`);
  expect(html.match(/<svg class="bar/g)).toHaveLength(6);
});

test("the list shows the workflow, and what waits for which event until when", async () => {
  const { desk, id } = await waitingOrder();
  const html = await pageOf(desk, "/workflows");
  expect(textOf(html, "workflows")).toMatch(new RegExp(`${id}waitingorder-\\d+&quot;a-7&quot;`));
  expect(textOf(html, "waiting")).toMatch(/waits for the event approved:a-7, or until 2\d{3}-/);
  const { workflows, waiting, moreWaiting } = (await desk.api("/api/workflows"))
    .body as unknown as WorkflowsData;
  expect(workflows.map((one) => one.id)).toEqual([id]);
  expect(waiting).toMatchObject([{ task: { id }, waits: [{ kind: "event", target: "approved:a-7" }] }]);
  expect(moreWaiting).toBe(false);
  const of = async (event: string) => (await desk.api(`/api/workflows?event=${event}`)).body.waiting;
  expect(await of("approved:a-7")).toHaveLength(1);
  expect(await of("approved:a-8")).toEqual([]);
  expect((await desk.api(`/api/workflows?event=${"x".repeat(256)}`)).status).toBe(400);
});

test("a group that waits for many members is listed once, with some of them", async () => {
  const desk = await openDesk();
  const members = Array.from({ length: 30 }, (_, n) => [label, `part ${n}`] as const);
  const group = await desk.queue.enqueueGroup(members);
  const { workflows, waiting } = (await desk.api("/api/workflows")).body as unknown as WorkflowsData;
  expect(workflows.map((one) => one.id)).toEqual([group.id]);
  expect(waiting).toMatchObject([{ task: { id: group.id, func: "dbq.group" }, waits: { length: 10 } }]);
  expect(textOf(await pageOf(desk, "/workflows"), "waiting")).toMatch(
    /waits for the tasks \d+, \d+, \d+, \d+, \d+ and others/,
  );
});

test("no copy of a group can be enqueued: its own task is none that a worker runs", async () => {
  const desk = await openDesk();
  const { id } = await desk.queue.enqueueGroup([[label, "a"]]);
  expect(await pageOf(desk, `/tasks/${id}`)).not.toMatch(/Enqueue again|\/enqueue"/);
  const { status, body } = await desk.api(`/api/tasks/${id}/enqueue`, {});
  expect([status, body]).toMatchObject([400, { message: expect.stringContaining("dbq.group is dbq's own") }]);
  await expect(async () => remoteTask("dbq.group")).rejects.toThrow(TypeError);
  expect(() => task("dbq.group", () => 1)).toThrow("task: name: dbq.group is dbq's own");
});

test("a workflow that has ended stays in the list, under the task at its root", async () => {
  const { desk, id } = await waitingOrder();
  await desk.queue.emitEvent("approved:a-7");
  await desk.queue.awaitTaskResult(id, { timeout: "20s" });
  await desk.queue.enqueueTask(label, "no workflow");
  const { workflows, waiting } = (await desk.api("/api/workflows")).body as unknown as WorkflowsData;
  expect(workflows.map((one) => [one.id, one.status])).toEqual([[id, "completed"]]);
  expect(waiting).toEqual([]);
});

test("the page of a task of a workflow leads to its run, and that of another task does not", async () => {
  const { desk, id } = await waitingOrder();
  const { run } = await runOf(desk, `/api/workflows/${id}`);
  const part = run.children[0]?.task.id ?? 0;
  for (const one of [id, part])
    expect(await pageOf(desk, `/tasks/${one}`)).toContain(`href="/workflows/${one}"`);
  expect(await pageOf(desk, `/workflows/${part}`)).toContain(`<a href="/workflows/${id}">workflow ${id}</a>`);
  const alone = await desk.queue.enqueueTask(label.with({ delay: "1h" }), "alone");
  expect(await pageOf(desk, `/tasks/${alone}`)).not.toContain("/workflows/");
  expect(await pageOf(desk, `/workflows/${alone}`)).toContain("It has no steps and has started no tasks.");
});

test("redact hides the values and errors of steps, in pages, answers and live updates", async () => {
  const { desk, id } = await waitingOrder({
    redact: (shown) => ({ ...shown, args: ["***"], error: null, result: undefined }),
    pollInterval: 250,
  });
  const event = await desk.get(`/events?of=/workflows/${id}`);
  const reader = (event.body as ReadableStream<Uint8Array>).getReader();
  let live = "";
  while (!live.includes("event: page")) live += new TextDecoder().decode((await reader.read()).value);
  await reader.cancel();
  const answers = [live, await pageOf(desk, `/workflows/${id}`), await pageOf(desk, "/workflows")];
  for (const path of [`/api/workflows/${id}`, "/api/workflows"])
    answers.push(JSON.stringify((await desk.api(path)).body));
  for (const secret of ["receipt of", "declared a-7", "articles are missing", "no such tariff", "label of"])
    for (const answer of answers) expect([secret, answer.includes(secret)]).toEqual([secret, false]);
  expect(answers[1]).toContain("its value is hidden");
  expect((await runOf(desk, `/api/workflows/${id}`)).run.hidesSteps).toBe(true);
});

test("a step, an event and a task that are named by a stranger are text", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue, { pollInterval: 50 });
  const bad = task(`${evil}-${uniqueName()}`, async () => {
    await step(evil, () => ({ [evil]: evil }));
    await waitForEvent(evil);
  });
  const id = await queue.enqueueTask(bad);
  await vi.waitFor(async () => expect(await queue.listWaiting(evil)).toHaveLength(1), { timeout: 20_000 });
  const desk = await openDesk({}, queue);
  for (const path of [`/workflows/${id}`, "/workflows", `/workflows?event=${encodeURIComponent(evil)}`]) {
    const html = await pageOf(desk, path);
    expect([path, html.includes("&lt;script&gt;")]).toEqual([path, true]);
    expect([path, html.includes("<script>window"), html.includes("<img")]).toEqual([path, false, false]);
    expect([path, html.replaceAll(/<[^>]*>/g, "").includes("\u202e")]).toEqual([path, false]);
  }
});

test("a button is there for those who may, and the server refuses the others", async () => {
  const { desk, id } = await waitingOrder({ authorize: () => "read" });
  const failed = (await runOf(desk, `/api/workflows/${id}`)).run.children[1]?.task.id ?? 0;
  expect(await pageOf(desk, `/workflows/${id}`)).not.toContain('method="post"');
  for (const [one, action] of [
    [id, "cancel"],
    [failed, "retry"],
  ])
    expect((await desk.post(`/api/tasks/${one}/${action}`, { fromStep: "declare" })).status).toBe(403);
  expect((await desk.queue.getTask(failed))?.status).toBe("failed");
  const retries = await openDesk({ authorize: () => ["retry"] }, desk.queue);
  const html = await pageOf(retries, `/workflows/${id}`);
  expect([html.includes("Retry from here"), html.includes("Cancel with")]).toEqual([true, false]);
  const nobody = await openDesk({ authorize: () => "none" }, desk.queue);
  for (const path of ["/workflows", `/workflows/${id}`, `/api/workflows/${id}`])
    expect((await nobody.get(path)).status).toBe(403);
});

test("a retry from a step drops it, says so, and is kept with the name of the person", async () => {
  const queue = await temporaryQueue();
  const worker = await startedWorker(queue, { pollInterval: 50 });
  const id = await queue.enqueueTask(customs, "a-8");
  expect((await queue.awaitTaskCompletion(id, { timeout: "20s" })).status).toBe("failed");
  await worker.stop();
  const desk = await openDesk({ authorize: () => ({ allow: "all", actor: "eva" }) }, queue);
  const notes = async () => (await desk.api(`/api/tasks/${id}`)).body.notes;
  const unknown = await desk.api(`/api/tasks/${id}/retry`, { fromStep: "fly" });
  expect([unknown.status, unknown.body.message]).toEqual([
    400,
    expect.stringContaining('has stored no step "fly"'),
  ]);
  expect(await notes()).toEqual([]);
  const { body } = await desk.api(`/api/tasks/${id}/retry`, { fromStep: "declare" });
  expect(body).toEqual({ ok: true, message: `Task ${id} is pending: it runs again from the step declare.` });
  expect((await queue.getRun(id))?.steps).toEqual([]);
  expect(await notes()).toMatchObject([{ actor: "eva", action: "retry", count: 1 }]);
  const again = await desk.api(`/api/tasks/${id}/retry`, { fromStep: "declare" });
  expect(again.status).toBe(400);
  expect(await notes()).toHaveLength(1);
});

test("a cancel says that the task undoes its steps, and the page has a button for what was not undone", async () => {
  const queue = await temporaryQueue();
  const worker = await startedWorker(queue, { pollInterval: 50 });
  let isOpen = false;
  const refund = () => {
    if (!isOpen) throw new Error("no bank");
  };
  const sale = task(uniqueName("sale"), async () => {
    await step("charge", () => 7, { undo: { run: refund, maxRetries: 0 } });
    await waitForEvent("never");
  });
  const id = await queue.enqueueTask(sale);
  await vi.waitFor(async () => expect((await queue.getTask(id))?.status).toBe("waiting"), {
    timeout: 20_000,
  });
  await worker.stop();
  const desk = await openDesk({}, queue);
  const cancelled = await desk.api(`/api/tasks/${id}/cancel`, {});
  expect(cancelled.body.message).toBe(`Task ${id} undoes its steps, and ends then.`);
  expect(wordsOf(await pageOf(desk, `/workflows/${id}`))).toContain("scheduled undoes its steps");
  for (const [action, fields] of [
    ["retry", {}],
    ["delete", {}],
  ] as const) {
    const refused = await desk.api(`/api/tasks/${id}/${action}`, fields);
    expect([refused.status, refused.body.message]).toEqual([
      400,
      `task ${id} undoes its steps: await its end first`,
    ]);
  }
  await startedWorker(queue, { pollInterval: 50 });
  expect((await queue.awaitTaskCompletion(id, { timeout: 20_000 })).status).toBe("failed");
  const html = await pageOf(desk, `/workflows/${id}`);
  expect(wordsOf(html)).toMatch(/charge .*undo: failed ?Error: no bank/);
  expect(html).toContain("Undo again");
  isOpen = true;
  const again = await desk.api(`/api/tasks/${id}/retry`, { undo: true });
  expect(again.body.message).toBe(`Task ${id} undoes its steps once more, and ends then.`);
  expect((await queue.awaitTaskCompletion(id, { timeout: 20_000 })).status).toBe("cancelled");
  expect(await pageOf(desk, `/workflows/${id}`)).not.toContain("Undo again");
});

test("the button of the page cancels the tree", async () => {
  const { desk, id } = await waitingOrder();
  const part = await desk.queue.enqueueTask(label.with({ delay: "1h" }), "part");
  await desk.queue.transaction((tx) => {
    const run = (text: string) => (tx as never as { run(sql: string): void }).run(text);
    run(`update dbq_tasks set parent_id = ${id}, root_id = ${id} where id = ${part}`);
  });
  const html = await pageOf(desk, `/workflows/${id}`);
  expect(html).toContain(`action="/api/tasks/${id}/cancel"`);
  expect((await desk.post(`/api/tasks/${id}/cancel`)).status).toBe(200);
  expect((await desk.queue.getTask(part))?.status).toBe("cancelled");
  expect(await pageOf(desk, `/workflows/${id}`)).toContain(`action="/api/tasks/${id}/retry"`);
});

test("an id that no task has is not found, and one that is no id is refused", async () => {
  const desk = await openDesk();
  for (const [path, status] of [
    ["/workflows/9", 404],
    ["/workflows/x", 400],
    ["/workflows/9?limit=0", 400],
  ] as const) {
    expect([path, (await desk.get(path)).status]).toEqual([path, status]);
    expect([path, (await desk.api(`/api${path}`)).status]).toEqual([path, status]);
  }
  expect((await desk.api("/api/workflows?depth=3")).status).toBe(400);
  expect(textOf(await pageOf(desk, "/workflows"), "workflows")).toContain("There are no workflows.");
});

/** A task with `steps` steps and `children` children, by plain SQL. */
async function wide(
  { queue }: Desk,
  parent: number | null,
  steps: number,
  children: number,
): Promise<number> {
  const id = await queue.enqueueTask(label, "wide");
  await queue.transaction((tx) => {
    const run = (text: string) => (tx as never as { run(sql: string): void }).run(text);
    const root = parent ?? id;
    run(`update dbq_tasks set parent_id = ${parent}, root_id = ${root} where id = ${id}`);
    for (let n = 1; n <= steps; n += 1)
      run(`insert into dbq_steps (task_id, name, seq, generation_id) values (${id}, 'step ${n}', ${n}, 1)`);
    for (let n = 1; n <= children; n += 1)
      run(`insert into dbq_tasks (func, parent_id, root_id) values ('leaf', ${id}, ${root})`);
  });
  return id;
}

test("what is left out is said, with a link to it", async () => {
  const desk = await openDesk();
  const id = await wide(desk, null, 2, 101);
  const inner = await wide(desk, id, 120, 1);
  const of = async (path: string) => await runOf(desk, `/api/workflows/${path}`);
  expect((await of(`${id}`)).run).toMatchObject({
    more: true,
    steps: { length: 2 },
    children: { length: 100 },
  });
  const html = await pageOf(desk, `/workflows/${id}`);
  expect(html).toContain(`Task ${id} has more steps or tasks than these. `);
  expect(html).toContain(`href="/workflows/${id}?limit=500"`);
  const { run } = await of(`${id}?limit=200`);
  expect(run).toMatchObject({ more: false, children: { length: 102 } });
  expect(run.children.at(-1)).toMatchObject({
    task: { id: inner },
    steps: { length: 120 },
    children: { length: 1 },
  });
  const most = await of(`${id}?limit=110`);
  expect(most.run.children.at(-1)).toMatchObject({ more: true, steps: { length: 110 } });
  expect(await pageOf(desk, `/workflows/${id}?limit=110`)).toContain(`href="/workflows/${inner}"`);
});

test("a tree has a thousand steps and tasks at most, those next to the root first", async () => {
  const desk = await openDesk();
  const id = await wide(desk, null, 0, 0);
  for (let n = 0; n < 12; n += 1) await wide(desk, id, 50, 50);
  const run = await readRun(desk.queue, id, 100);
  const lines = (one: NonNullable<typeof run>): number =>
    one.steps.length + one.children.length + one.children.reduce((sum, each) => sum + lines(each), 0);
  expect(run && lines(run)).toBe(1_000);
  expect(run?.children).toHaveLength(12);
  expect(run?.children.map(({ more }) => more)).toEqual([...Array(9).fill(false), true, true, true]);
});

test("the bars of a run that has ended span it, and those of an unfinished one grow in leaps", () => {
  const at = (ms: number) => new Date(1_000_000 + ms);
  const of = (finishedAt: Date | null) => {
    const shown = { createdAt: at(0), startedAt: at(10), finishedAt, status: "running" };
    const steps = [{ name: "a", value: 1, error: null, startedAt: at(20), endedAt: at(900) }];
    const run = { task: shown, steps, waits: [], children: [], more: false } as never;
    return shownRun(run, (each) => each) as ShownRun;
  };
  expect(axisOf(of(at(1_000)), at(99_999).getTime())).toEqual({ from: 1_000_000, to: 1_001_000 });
  const lengths = [1_100, 1_150, 1_151, 1_153].map(
    (now) => axisOf(of(null), at(now).getTime()).to - 1_000_000,
  );
  expect(lengths).toEqual([1_152, 1_152, 1_152, 1_280]);
});

test("the page of a run says of the undos of a completed task nothing", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue, { pollInterval: 50 });
  const flow = task(uniqueName("flow"), async () => {
    await step("charge", () => 7, { undo: () => undefined });
    await waitForEvent("paid");
  });
  const id = await queue.enqueueTask(flow);
  await vi.waitFor(async () => expect(await queue.listWaiting("paid")).toHaveLength(1), { timeout: 20_000 });
  const desk = await openDesk({}, queue);
  expect(wordsOf(await pageOf(desk, `/workflows/${id}`))).toMatch(/charge +undo: wanted/);
  await queue.emitEvent("paid");
  await queue.awaitTaskCompletion(id, { timeout: "20s" });
  expect(wordsOf(await pageOf(desk, `/workflows/${id}`))).not.toContain("undo:");
  expect((await runOf(desk, `/api/workflows/${id}`)).run.steps[0]?.undo).toBe("wanted");
});

test("the page of a run tells a wait whose time was over from an event without a payload", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue, { pollInterval: 50 });
  const flow = task(uniqueName("flow"), async () => {
    await waitForEvent("approved", { timeout: 1 });
    await waitForEvent("signed");
    await step("nothing", () => undefined);
  });
  await queue.emitEvent("signed");
  const id = await queue.enqueueTask(flow);
  await queue.awaitTaskCompletion(id, { timeout: "20s" });
  const text = wordsOf(await pageOf(await openDesk({}, queue), `/workflows/${id}`));
  expect(text).toMatch(
    /approved Retry from hereits time was over.*signed Retry from herenull.*nothing Retry from here\d+ ms/,
  );
  const redact = (each: Task) => ({ ...each, args: ["***"] });
  const hidden = wordsOf(await pageOf(await openDesk({ redact }, queue), `/workflows/${id}`));
  expect([hidden.includes("its value is hidden"), hidden.includes("its time was over")]).toEqual([
    true,
    false,
  ]);
});

test("what became of an undo is shown where a step has one", async () => {
  const desk = await openDesk();
  const id = await wide(desk, null, 2, 0);
  const read = await readRun(desk.queue, id, 10);
  if (!read) throw new Error("there is no run");
  const undoError = { name: "RoomError", message: "the room is taken" };
  Object.assign(read.steps[0] ?? {}, { undo: "failed", undoError });
  const context = { access: Access.of("read"), base: "" } as PageContext;
  const textIn = async (visible: (task: Task) => Task) =>
    wordsOf(String(await runPage.view({ run: shownRun(read, visible), limit: 10 }, context)));
  expect(await textIn((each) => each)).toMatch(/step 1 undo: failedRoomError: the room is taken.*step 2/);
  expect(await textIn((each) => ({ ...each }))).toMatch(/step 1 undo: failedits value is hidden.*step 2/);
});
