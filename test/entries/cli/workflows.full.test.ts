/** What the command line shows of workflows, and does to them. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { all, child, sleep, step, waitForEvent } from "../../../src/features/workflows/steps.ts";
import { type Queue, type Run, remoteTask, type Task, type TaskFunction, task } from "../../../src/index.ts";
import { startedWorker, uniqueName } from "../../support/queue.ts";
import { folderWithQueue } from "./dbq.ts";
import { dbq, dbqJson } from "./in-process.ts";

type Shown = Task & { run?: Omit<Run, "task"> };

const has = async (queue: Queue, status: "waiting" | "completed", count: number) => {
  while ((await queue.countTasks())[status] !== count) await new Promise((go) => setTimeout(go, 5));
};

/** An order that has charged and failed to notify, and whose two children wait for an event. */
async function folderWithOrder() {
  const { folder, queue } = await folderWithQueue();
  const event = uniqueName("approved");
  const part = task(uniqueName("part"), async (name: string) => await waitForEvent(name, { timeout: "1d" }));
  const order = task(uniqueName("order"), async () => {
    await step("charge", () => ({ paid: 12, note: "x".repeat(300) }));
    await step("notify", () => {
      throw new RangeError("no\u001b[31m mail");
    }).catch(() => undefined);
    await step("nothing", () => undefined);
    await all([child(part, event), child(part, event), waitForEvent("parcel")]);
  });
  const worker = await startedWorker(queue, { concurrency: 1, pollInterval: 50 });
  onTestFinished(() => worker.stop());
  const id: number = await queue.enqueueTask(order);
  await has(queue, "waiting", 3);
  return { folder, queue, worker, event, id, order: order.taskName, part: part.taskName };
}

test("show prints the steps of a task, what it waits for, and its children", async () => {
  const { folder, event, id, part, queue } = await folderWithOrder();
  const { out, code } = await dbq(folder, ["show", String(id)]);
  expect(code).toBe(0);
  const [one = 0, two = 0] = (await queue.getRun(id))?.children.map((each) => each.task.id) ?? [];
  expect(out).toMatch(new RegExp(`^ {2}waits for +event parcel\\n +task ${one}\\n +task ${two}$`, "m"));
  expect(out).toMatch(
    /^STEP +TOOK +VALUE\ncharge +\d+ ms +\{"paid":12,"note":"x+…\nnothing +\d+ ms\nnotify +\d+ ms +failed: RangeError: no\\x1b\[31m mail$/m,
  );
  const waits = `${part} waiting for event ${event} until \\d{4}-\\d\\d-\\d\\d [\\d:.]+Z`;
  expect(out).toMatch(new RegExp(`^CHILDREN\\n${one} ${waits}\\n${two} ${waits}$`, "m"));
  const { run } = await dbqJson<Shown>(folder, ["show", String(id)]);
  expect(run?.steps.map(({ name, error }) => [name, error?.name])).toEqual([
    ["charge", undefined],
    ["nothing", undefined],
    ["notify", "RangeError"],
  ]);
  expect(run?.waits).toHaveLength(3);
  expect(run?.children).toMatchObject([
    { task: { id: one }, waits: [{ target: event }] },
    { task: { id: two } },
  ]);
  expect(run?.more).toBe(false);
});

test("show of a child names its parent, and the task at the root of the workflow", async () => {
  const { folder, queue } = await folderWithQueue();
  const nest: TaskFunction<[number], Promise<unknown>> = task(uniqueName("nest"), async (depth: number) =>
    depth === 0 ? await waitForEvent("never") : await child(nest, depth - 1),
  );
  await startedWorker(queue, { concurrency: 1, pollInterval: 50 });
  await queue.enqueueTask(nest, 2);
  await has(queue, "waiting", 3);
  const shown = async (id: number) => (await dbq(folder, ["show", String(id)])).out;
  const { taskName } = nest;
  expect(await shown(1)).not.toMatch(/^ {2}(parent|root)/m);
  expect(await shown(2)).toMatch(new RegExp(`^ {2}parent +task 1 ${taskName}$`, "m"));
  expect(await shown(2)).not.toMatch(/^ {2}root/m);
  expect(await shown(3)).toMatch(
    new RegExp(`^ {2}parent +task 2 ${taskName}\n {2}root +task 1 ${taskName}$`, "m"),
  );
  await queue.cancelTask(2, { tree: false });
  await queue.deleteTasks({ status: "cancelled" });
  expect(await shown(3)).toMatch(/^ {2}parent +task 2, which was deleted$/m);
});

test("show names the group of a member and of the task behind it, and that task for the group", async () => {
  const { folder, queue } = await folderWithQueue();
  const [leaf, report] = [remoteTask("leaf"), remoteTask("report")];
  const { id, ids, thenId } = await queue.enqueueGroup([[leaf], [leaf]], { then: report });
  const shown = async (one?: number) => (await dbq(folder, ["show", String(one)])).out;
  expect(await shown(ids[0])).toMatch(
    new RegExp(`^ {2}member of +group ${id}\n {2}root +task ${thenId} report$`, "m"),
  );
  expect(await shown(thenId)).toMatch(new RegExp(`^ {2}runs after +group ${id}$`, "m"));
  expect(await shown(id)).toMatch(new RegExp(`^ {2}then +task ${thenId} report$`, "m"));
  for (const one of [ids[1], thenId])
    expect(await dbqJson(folder, ["show", String(one)])).toMatchObject({ groupId: id });
  const plain = await queue.enqueueTask(leaf);
  expect(await dbqJson(folder, ["show", String(plain)])).not.toHaveProperty("groupId");
  const alone = await queue.enqueueGroup([[leaf]]);
  expect(await shown(alone.ids[0])).toMatch(new RegExp(`^ {2}member of +group ${alone.id}$`, "m"));
  expect(await shown(alone.ids[0])).not.toMatch(/^ {2}(parent|root|runs after)/m);
});

test("show tells a wait whose time was over from an event without a payload", async () => {
  const { folder, queue } = await folderWithQueue();
  await queue.emitEvent("signed");
  const flow = task(uniqueName("flow"), async () => {
    await sleep("cool-off", 1);
    await waitForEvent("approved", { timeout: 1 });
    await waitForEvent("signed");
    await step("nothing", () => undefined);
  });
  await startedWorker(queue, { pollInterval: 50 });
  const id = await queue.enqueueTask(flow);
  await queue.awaitTaskCompletion(id);
  const { out } = await dbq(folder, ["show", String(id)]);
  expect(out).toMatch(
    /^cool-off +its time was over\napproved +its time was over\nsigned +null\nnothing +\d+ ms$/m,
  );
  await writeFile(join(folder, "redact.mjs"), "export default (task) => ({ ...task, args: ['***'] })");
  const hidden = await dbq(folder, ["show", String(id), "--redact", "redact.mjs"]);
  expect(hidden.out).toMatch(/^approved$/m);
});

test("stats counts the tasks that wait, and says what for and since when", async () => {
  const { folder, queue } = await folderWithOrder();
  const { out } = await dbq(folder, ["stats"]);
  expect(out).toMatch(/^QUEUE +FUNC +PENDING +SCHEDULED +WAITING +RUNNING /m);
  expect(out).toMatch(/^WAITING FOR +TASKS +OLDEST\nchildren +1 +[\d.]+ m?s\nan event +3 +[\d.]+ m?s$/m);
  const { waits } = await dbqJson<{ waits: unknown }>(folder, ["stats"]);
  expect(waits).toMatchObject({
    kinds: [
      { kind: "child", tasks: 1 },
      { kind: "event", tasks: 3 },
    ],
  });
  await queue.emitEvent("unrelated");
  const { folder: plain } = await folderWithQueue();
  expect((await dbq(plain, ["stats"])).out).not.toMatch(/WAITING/);
});

test("show says of a deep or wide run that there is more, and nothing of a task that is no workflow", async () => {
  const { folder, queue } = await folderWithQueue();
  const leaf = remoteTask("leaf");
  const group = await queue.enqueueGroup(Array.from({ length: 1_001 }, () => [leaf] as const));
  const { out } = await dbq(folder, ["show", String(group.id)]);
  expect(out).toMatch(/^ {2}waits for +task \d+\n( +task \d+\n){4} +and others$/m);
  expect(out.match(/^\d+ leaf pending$/gm)).toHaveLength(1_000);
  expect(out).toContain(`\ntask ${group.id} has 1 more child than these\n`);
  const plain = await queue.enqueueTask(leaf);
  expect(await dbqJson<Shown>(folder, ["show", String(plain)])).not.toHaveProperty("run");
  expect((await dbq(folder, ["show", String(plain)])).out).not.toMatch(/STEP|CHILDREN|waits for +task/);
});

test("show prints 1,000 steps and tasks of a wide and deep run in all, and says how many more each task has", async () => {
  const { folder, queue } = await folderWithQueue();
  const leaf = task(uniqueName("leaf"), () => 1, { delay: "1h" });
  const branch = task(uniqueName("branch"), async () => {
    for (let n = 0; n < 10; n += 1) await step("turn", () => n);
    await all(Array.from({ length: 150 }, () => child(leaf)));
  });
  const top = task(uniqueName("top"), async () => {
    await step("begin", () => 1);
    await all(Array.from({ length: 9 }, () => child(branch)));
  });
  const worker = await startedWorker(queue, { concurrency: 4, pollInterval: 50 });
  onTestFinished(() => worker.stop());
  const id = await queue.enqueueTask(top);
  await has(queue, "waiting", 10);
  const { out } = await dbq(folder, ["show", String(id)]);
  expect(out.match(/^ {2}\d+ leaf-\d+ scheduled$/gm)).toHaveLength(1_000 - 1 - 9 - 90);
  expect(out.match(/^ {2}150 more children: dbq show \d+$/gm)).toHaveLength(3);
  const one = (await queue.getRun(id, { depth: 2 }))?.children[8]?.task.id;
  expect((await dbq(folder, ["show", String(one)])).out.match(/^\d+ leaf-\d+ scheduled$/gm)).toHaveLength(
    150,
  );
});

test("a tree that is cut off names the task to go on with", async () => {
  const { folder, queue } = await folderWithQueue();
  const nest: TaskFunction<[number], Promise<unknown>> = task(uniqueName("nest"), async (depth: number) =>
    depth === 0 ? await waitForEvent("never") : await child(nest, depth - 1),
  );
  await startedWorker(queue, { concurrency: 1, pollInterval: 50 });
  const id = await queue.enqueueTask(nest, 10);
  await has(queue, "waiting", 11);
  const { out } = await dbq(folder, ["show", String(id)]);
  expect(out).toMatch(/^ {16}10 nest\S* waiting for task 11\n {18}1 more child: dbq show 10$/m);
  expect((await dbq(folder, ["show", "10"])).out).toMatch(/^11 nest\S* waiting for event never$/m);
});

test("list --waiting-for finds those that wait for an event or a task, and event lets them go", async () => {
  const { folder, queue, event, id } = await folderWithOrder();
  const waiting = async (name: string, ...more: string[]) =>
    (await dbqJson<Task[]>(folder, ["list", "--waiting-for", name, ...more])).map((each) => each.id);
  const [one = 0, two = 0] = await waiting(event);
  expect([await waiting("parcel"), await waiting(String(two))]).toEqual([[id], [id]]);
  const first = await dbq(folder, ["list", "--waiting-for", event, "--limit", "1"]);
  expect(first.out).toMatch(new RegExp(`^ *${one} +waiting`, "m"));
  expect(first.err).toBe(`there may be more tasks: --after ${one}\n`);
  expect(await waiting(event, "--limit", "1", "--after", String(one))).toEqual([two]);
  expect(await waiting(event, "--after", String(two))).toEqual([]);
  const emitted = await dbq(folder, ["event", event, '{"by": "eva"}']);
  expect(emitted).toMatchObject({
    code: 0,
    out: `event ${event} is emitted: 2 tasks waited for it\n`,
    err: "",
  });
  await has(queue, "completed", 2);
  expect((await queue.getTask(one))?.result).toEqual({ by: "eva" });
  const again = await dbq(folder, ["event", event, "1"]);
  expect(again).toMatchObject({
    code: 0,
    out: `there is an event ${event} already, and the first one counts: nothing was changed\n`,
  });
  expect(await dbqJson(folder, ["event", event])).toEqual({ changed: false });
  expect(await dbqJson(folder, ["event", "parcel"])).toEqual({ changed: true, waited: 1 });
  expect(await dbq(folder, ["list", "--waiting-for", event])).toMatchObject({ out: "", err: "no tasks\n" });
});

test("event says that no task waits for it yet, also when its name is the id of a task that is awaited", async () => {
  const { folder, queue } = await folderWithQueue();
  const leaf = task(uniqueName("leaf"), () => waitForEvent("never"));
  const flow = task(uniqueName("flow"), () => child(leaf));
  await startedWorker(queue, { concurrency: 1, pollInterval: 50 });
  await queue.enqueueTask(flow);
  await has(queue, "waiting", 2);
  for (const name of ["early", "2"])
    expect(await dbq(folder, ["event", name])).toMatchObject({
      code: 0,
      out: `event ${name} is emitted: no task waits for it yet, and it is kept for 30 days\n`,
    });
  const awaits = task(uniqueName("awaits"), () => waitForEvent("3"));
  await queue.enqueueTask(awaits);
  await has(queue, "waiting", 3);
  expect((await dbq(folder, ["event", "3"])).out).toBe("event 3 is emitted: 1 task waited for it\n");
});

test("cancel takes the tree, and with --no-tree the task alone; a filter takes the trees", async () => {
  const { folder, queue, id, order } = await folderWithOrder();
  expect(await dbq(folder, ["cancel", String(id), "--no-tree"])).toMatchObject({ code: 0 });
  expect(await queue.countTasks()).toMatchObject({ cancelled: 1, waiting: 2 });
  await queue.retryTask(id);
  await has(queue, "waiting", 3);
  expect(await dbq(folder, ["cancel", String(id), "--tree"])).toMatchObject({ code: 0 });
  expect(await queue.countTasks()).toMatchObject({ cancelled: 3, waiting: 0 });
  await queue.enqueueTask(remoteTask(order));
  await has(queue, "waiting", 3);
  const all = await dbq(folder, ["cancel", "--func", order, "--status", "waiting", "--yes"]);
  expect(all).toMatchObject({ code: 0, out: "cancelled 1 task\n" });
  expect(await queue.countTasks()).toMatchObject({ cancelled: 6, waiting: 0 });
});

test("cancel says that a task undoes its steps, show says what was not undone, and retry --undo undoes it", async () => {
  const { folder, queue } = await folderWithQueue();
  let isOpen = false;
  const refund = () => {
    if (!isOpen) throw new Error("no bank");
  };
  const flow = task(uniqueName("flow"), async () => {
    await step("charge", () => 7, { undo: { run: refund, maxRetries: 0 } });
    await step("note", () => 8);
    await waitForEvent("never");
  });
  await startedWorker(queue, { pollInterval: 50 });
  const id = await queue.enqueueTask(flow);
  await has(queue, "waiting", 1);
  const cancelled = await dbq(folder, ["cancel", String(id)]);
  expect(cancelled).toMatchObject({ code: 0, err: "" });
  expect(cancelled.out).toMatch(/^task \d+ \(flow\S*\) undoes its steps, and ends then\n$/);
  expect(await queue.awaitTaskCompletion(id)).toMatchObject({ status: "failed" });
  const shown = (await dbq(folder, ["show", String(id)])).out;
  expect(shown).toMatch(/^STEP +TOOK +VALUE +UNDO\ncharge +.* 7 +failed: Error: no bank\nnote .* 8$/m);
  expect(shown).toMatch(
    new RegExp(`^ {2}not undone +1 step: dbq retry ${id} --undo runs its undo again$`, "m"),
  );
  isOpen = true;
  expect((await dbq(folder, ["retry", String(id), "--undo"])).out).toContain("undoes its steps");
  expect(await queue.awaitTaskCompletion(id)).toMatchObject({ status: "cancelled" });
  expect((await dbq(folder, ["show", String(id)])).out).not.toMatch(/not undone/);
  const again = await dbq(folder, ["retry", String(id), "--undo"]);
  expect([again.code, again.err.includes("no step whose undo has failed")]).toEqual([2, true]);
});

test("show says of the undos of a completed task nothing, and of those of an unfinished one that they are wanted", async () => {
  const { folder, queue } = await folderWithQueue();
  const flow = task(uniqueName("flow"), async () => {
    await step("charge", () => 7, { undo: () => undefined });
    await waitForEvent("paid");
  });
  await startedWorker(queue, { pollInterval: 50 });
  const id = await queue.enqueueTask(flow);
  await has(queue, "waiting", 1);
  const shown = async () => (await dbq(folder, ["show", String(id)])).out;
  expect(await shown()).toMatch(/^STEP +TOOK +VALUE +UNDO\ncharge +.* 7 +wanted$/m);
  await queue.emitEvent("paid");
  await queue.awaitTaskCompletion(id);
  expect(await shown()).toMatch(/^STEP +TOOK +VALUE\ncharge +.* 7$/m);
  expect((await dbqJson<Shown>(folder, ["show", String(id)])).run?.steps[0]?.undo).toBe("wanted");
});

test("on a terminal of 80 columns, show cuts long values so that the undos stand beside them", async () => {
  const { folder, queue } = await folderWithQueue();
  const flow = task(uniqueName("flow"), async () => {
    await step("charge", () => "x".repeat(300), { undo: () => undefined });
    await waitForEvent("never");
  });
  await startedWorker(queue, { pollInterval: 50 });
  const id = await queue.enqueueTask(flow);
  await has(queue, "waiting", 1);
  const rowOf = async () => /^charge .*$/m.exec((await dbq(folder, ["show", String(id)])).out)?.[0] ?? "";
  expect((await rowOf()).length).toBeGreaterThan(200);
  const { columns } = process.stdout;
  onTestFinished(() => void Object.assign(process.stdout, { columns }));
  Object.assign(process.stdout, { columns: 80 });
  const row = await rowOf();
  expect(row).toMatch(/^charge +\d+ m?s +"x{38}… {2}wanted$/);
  expect(row.length).toBeLessThanOrEqual(80);
});

test("retry --from-step runs that step and the later ones again", async () => {
  const { folder, queue } = await folderWithQueue();
  const calls: string[] = [];
  const flow = task(uniqueName("flow"), async () => {
    for (const name of ["a", "b", "c"]) await step(name, () => void calls.push(name));
  });
  await startedWorker(queue, { pollInterval: 50 });
  const id = await queue.enqueueTask(flow);
  await queue.awaitTaskCompletion(id);
  const none = await dbq(folder, ["retry", String(id), "--from-step", "z"]);
  expect([none.code, none.out]).toEqual([2, ""]);
  expect(none.err).toContain(`task ${id} has stored no step "z"`);
  expect(await dbq(folder, ["retry", String(id), "--from-step", "b"])).toMatchObject({ code: 0, err: "" });
  await queue.awaitTaskCompletion(id);
  expect(calls.join("")).toBe("abcbc");
});

test.each([
  [["retry", "--status", "failed", "--from-step", "b"], '--from-step "b" needs the ids of tasks'],
  [["retry", "--status", "failed", "--undo"], "--undo needs the ids of tasks"],
  [["cancel", "--func", "order", "--no-tree"], "--no-tree needs the ids of tasks"],
  [["list", "--waiting-for", "paid", "--func", "order"], '--waiting-for "paid" takes --limit'],
  [["list", "--waiting-for", "paid", "--status", "failed"], '--waiting-for "paid" takes --limit'],
  [["event", ""], "'name'"],
  [["event", "paid", "{by"], 'payload: "{by" is not JSON'],
  [["event", "paid", "12345678901234567890"], "12345678901234567890"],
  [["event", "paid", "1", "2"], 'got "2" too'],
])("%j is wrong usage, and changes nothing", async (args, message) => {
  const { folder, queue } = await folderWithQueue();
  await queue.enqueueTask(remoteTask("order"));
  const { code, out, err } = await dbq(folder, [...args]);
  expect([code, out, err]).toEqual([2, "", expect.stringContaining(message)]);
  expect(await queue.countTasks()).toMatchObject({ pending: 1 });
});
