/** The lists of functions and tasks, and the question before an action on many tasks. */
import { expect, test, vi } from "vitest";
import { relative } from "../../../src/features/dashboard/client/times.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { type Queue, remoteTask, type Task } from "../../../src/index.ts";
import { newWorker } from "../../conformance/arrange.ts";
import { queueOnFile } from "../../worker/setup.ts";
import { textOf } from "./page-text.ts";
import { type Desk, openDesk } from "./requests.ts";

const named = (name: string, queueName = "default") => remoteTask(name).with({ queueName });

const functionsOf = async ({ api }: Desk, query = "") => {
  const { body } = await api(`/api/functions${query}`);
  return (body.functions as { func: string; queueName: string | null }[]).map(({ func, queueName }) => [
    func,
    queueName,
  ]);
};

test("a paused function and one with pending tasks of a paused queue are listed without statistics", async () => {
  const desk = await openDesk();
  const { queue, get } = desk;
  await queue.enqueueTask(named("resize", "images"));
  await queue.pause({ queueName: "images" });
  await queue.enqueueTask(named("mail-2"));
  await queue.enqueueTask(named("mail-10"));
  await queue.pause({ func: "mail-10" });
  await queue.pause({ func: "forgotten" });
  expect(await functionsOf(desk)).toEqual([
    ["forgotten", null],
    ["mail-10", "default"],
    ["mail-2", "default"],
    ["resize", "images"],
  ]);
  expect(await functionsOf(desk, "?sort=name")).toEqual([
    ["forgotten", null],
    ["mail-2", "default"],
    ["mail-10", "default"],
    ["resize", "images"],
  ]);
  const html = await (await get("/functions")).text();
  expect(html).toContain('action="/api/functions/resume?name=forgotten"');
  const marked = async (path: string) =>
    /<a href="([^"]+)" aria-current="true">/.exec(await (await get(path)).text())?.[1];
  expect(await marked("/functions")).toBeUndefined();
  expect(await marked("/functions?sort=name")).toBe("/functions?sort=name");
});

test("the list of tasks says when a scheduled one is due, and shows errors as such", async () => {
  const { queue, get } = await openDesk();
  const heads = async (path: string) =>
    [...(await (await get(path)).text()).matchAll(/<th scope="col">([A-Z][^<]*)</g)].map(([, head]) => head);
  await queue.enqueueTask(named("send"), 1);
  expect(await heads("/tasks")).not.toContain("Due");
  await queue.enqueueTask(named("send").with({ delay: "2h" }), 2);
  expect(await heads("/tasks")).toContain("Due");
  expect(await heads("/tasks")).toContain("Arguments");
});

test("the list of schedules has pages of 200", async () => {
  const { queue, get, api } = await openDesk();
  const name = (n: number) => `s${String(n).padStart(3, "0")}`;
  const names = Array.from({ length: 201 }, (_, n) => name(n));
  await queue.schedules(names.map((each) => [each, { cron: "@daily" }, named("report")] as const));
  const first = await (await get("/schedules")).text();
  expect(first).toContain('href="/schedules?after=s199"');
  expect(first).not.toContain("s200");
  const last = await (await get("/schedules?after=s199")).text();
  expect(last).toContain("s200");
  expect(last).not.toContain("More schedules");
  const { body } = await api("/api/schedules?after=s198");
  expect([body.schedules, body.next]).toMatchObject([[{ name: "s199" }, { name: "s200" }], null]);
  expect((await get(`/schedules?after=${"x".repeat(300)}`)).status).toBe(400);
});

test("the list of schedules says whether each makes tasks while an earlier one has not ended", async () => {
  const { queue, get } = await openDesk();
  await queue.schedule("piles", { every: "1h", overlap: "allow" }, named("report"));
  await queue.schedule("skips", { every: "1h" }, named("report"));
  const rows = [...(await (await get("/schedules")).text()).matchAll(/<tr>(.*?)<\/tr>/gs)].map(
    ([, row = ""]) => [
      /<bdi[^>]*>([^<]*)|<a class="clamp"[^>]*>([^<]*)/.exec(row)?.[2],
      /data-label="Overlap">([^<]*)/.exec(row)?.[1],
    ],
  );
  expect(rows.slice(1)).toEqual([
    ["piles", "allow"],
    ["skips", "skip"],
  ]);
});

test("a frozen worker is not counted as alive, on any page", async () => {
  const { queue, raw } = await queueOnFile();
  const { get } = await openDesk({}, queue);
  const { store } = internalsOf(queue);
  for (const id of ["stands", "works", "also works"])
    await store.register(newWorker(id, { queueNames: ["mail"], lease: 60_000 }));
  await queue.enqueueTask(named("send", "mail"));
  const alive = async (path: string) =>
    /Workers alive<\/span>(?:<strong>| )*([^<]*)/.exec(await (await get(path)).text())?.[1];
  expect(await alive("/")).toBe("3");
  raw.exec("update dbq_workers set heartbeat_at = heartbeat_at - 40000 where id = 'stands'");
  expect(await alive("/")).toBe("2 of 3, 1 frozen");
  expect(await alive("/queues/detail?name=mail")).toBe("2 of 3, 1 frozen");
  expect(await alive("/functions/detail?name=send")).toBe("2 of 3, 1 frozen");
  expect(await (await get("/functions/detail?name=send")).text()).toContain('class="status frozen"');
  const workers = /data-label="Workers">(.*?)<\/td>/s.exec(await (await get("/queues")).text())?.[1];
  expect(workers).toBe('2<small class="warn">1 frozen</small>');
});

test("an empty list has nothing below its sentence", async () => {
  const { get } = await openDesk();
  expect(await (await get("/tasks?func=nobody")).text()).not.toContain("<footer");
});

test("the question before an action on many names the filter or the ids, and Back keeps the filter", async () => {
  const { queue, post } = await openDesk();
  for (let i = 0; i < 3; i += 1) await queue.enqueueTask(named("send", "mail"), i);
  const filter = [
    ["filter.func", "send"],
    ["filter.queue", "mail"],
  ];
  const question = async (fields: string[][]) => await (await post("/tasks/bulk", fields)).text();
  const all = await question([...filter, ["action", "cancel"], ["scope", "filter"]]);
  expect(textOf(all, "answer")).toContain(
    "This will cancel 3 tasks. They are the tasks of the function send and the queue mail that are pending, scheduled, running or waiting.",
  );
  expect(all).toContain(">Cancel 3 tasks</button>");
  expect(all).toContain('href="/tasks?func=send&amp;queue=mail"');
  const some = await question([...filter, ["action", "delete"], ["scope", "ids"], ["id", "1"], ["id", "3"]]);
  expect(textOf(some, "answer")).toContain("This will delete 2 tasks. They are the tasks 1 and 3.");
  expect(some).toContain('href="/tasks?func=send&amp;queue=mail"');
  expect(
    textOf(
      await question([
        ["action", "delete"],
        ["scope", "filter"],
      ]),
      "answer",
    ),
  ).toContain("They are all tasks that are pending,");
});

test.each([
  [117 * 60_000 + 59_000, "in 1 h 57 min"],
  [22.5 * 3_600_000, "in 22 h 30 min"],
  [46 * 3_600_000, "in 1 d 22 h"],
  [12.5 * 86_400_000, "in 12 d"],
  [12.5 * 60_000, "in 12 min"],
  [101_000, "in 1 min 41 s"],
  [120_000, "in 2 min"],
  [59_900, "in 59 s"],
  [-59_900, "59 s ago"],
  [-200, "now"],
])("a time %d ms away is shown as %s", (distance, text) => {
  expect(relative(new Date(1_000_000_000 + distance), 1_000_000_000)).toBe(text);
});

const run = (queue: Queue, text: string) =>
  queue.transaction((tx) => (tx as never as { run(sql: string): void }).run(text));

test("lists show the beginning of long values and their lengths, and errors by their message", async () => {
  const { queue, get, api } = await openDesk();
  const long = named("send").with({ kwargs: { k: "y".repeat(5_000) }, meta: { m: "z".repeat(5_000) } });
  const id = await queue.enqueueTask(long, "begin", "x".repeat(900_000));
  await queue.enqueueTask(named("send"), "short");
  const error = JSON.stringify({ name: "E", message: `said "no" \u0001${"m".repeat(9_000)}`, stack: "at x" });
  await run(
    queue,
    `update dbq_tasks set status = 'failed', finished_at = 1, error = '${error}' where id = ${id}`,
  );
  for (const path of ["/tasks", "/tasks?status=failed", "/tasks?q=begin", "/tasks?func=send"]) {
    const html = await (await get(path)).text();
    expect([path, html]).toEqual([path, expect.stringContaining("&quot;begin&quot;")]);
    expect(html).toContain("900 kB");
    expect(html).toContain("E: said &quot;no&quot;");
    expect([path, html.length < 30_000]).toEqual([path, true]);
    const { body } = await api(`/api${path}`);
    expect(JSON.stringify(body).length).toBeLessThan(20_000);
    const [found] = (body.tasks as { id: number; args: unknown; cut?: object }[]).filter(
      (task) => task.id === id,
    );
    expect(found).toMatchObject({
      args: `["begin","${"x".repeat(1_990)}`,
      cut: { args: 900_012, kwargs: 5_008, meta: 5_008, error: expect.any(Number) },
      error: { name: "E", message: expect.stringContaining(`said "no" \u0001${"m".repeat(1_900)}`) },
    });
  }
  expect((await api(`/api/tasks?func=send&limit=1`)).body.tasks).toMatchObject([{ args: ["short"] }]);
  expect(JSON.stringify((await api("/api/overview")).body).length).toBeLessThan(20_000);
  expect((await (await get(`/tasks/${id}`)).text()).length).toBeLessThan(200_000);
  expect((await api(`/api/tasks/${id}`)).body.task).toMatchObject({
    args: ["begin", "x".repeat(900_000)],
  });
});

test("redact is given nothing of a list's task of which it cannot see all", async () => {
  const redact = vi.fn((shown: Task) => ({ ...shown, args: shown.meta.secret ? [] : shown.args }));
  const { queue, api, get } = await openDesk({ redact });
  const meta = { pad: "p".repeat(3_000), secret: true };
  await queue.enqueueTask(named("send").with({ meta, kwargs: { of: "Eva" } }), "classified");
  expect((await api("/api/tasks")).body.tasks).toMatchObject([{ args: [], kwargs: {}, meta: {}, cut: {} }]);
  expect(await (await get("/tasks")).text()).not.toMatch(/classified|Eva/);
  expect(await (await get("/tasks/1")).text()).not.toContain("classified");
  expect(redact).toHaveBeenLastCalledWith(expect.objectContaining({ args: ["classified"], meta }));
});

test("an argument that is nested deeply makes no long page", async () => {
  const { queue, get } = await openDesk();
  const deep = JSON.parse(
    `${"[".repeat(90)}${Array.from({ length: 30_000 }, () => 1).join()}${"]".repeat(90)}`,
  );
  const id = await queue.enqueueTask(named("send").with({ delay: "1h" }), deep);
  const html = await (await get(`/tasks/${id}`)).text();
  expect(html.length).toBeLessThan(600_000);
  const wide = await queue.enqueueTask(
    named("send"),
    JSON.parse(`${"[".repeat(5)}1,2${"]".repeat(5)}`),
    "x".repeat(80),
  );
  expect(await (await get(`/tasks/${wide}`)).text()).toContain("\n            1,\n            2\n");
});

test("ids that JavaScript has no number for are shown as they are, and cannot be acted on", async () => {
  const { queue, get, api, post } = await openDesk();
  for (const end of [2, 3])
    await run(queue, `insert into dbq_tasks (id, func) values (900719925474099${end}, 'send')`);
  const html = await (await get("/tasks")).text();
  for (const id of ["9007199254740992", "9007199254740993"]) {
    expect(html).toContain(`>${id}</span>`);
    expect(html).not.toContain(`value="${id}"`);
    expect((await get(`/tasks/${id}`)).status).toBe(400);
  }
  const ids = ((await api("/api/tasks")).body.tasks as Task[]).map(({ id }) => id);
  expect(ids).toEqual(["9007199254740993", "9007199254740992"]);
  const all = { action: "cancel", scope: "filter", "filter.func": "send", confirmed: "yes" };
  expect(await (await post("/tasks/bulk", all)).text()).toContain("2 tasks stayed as they were");
  expect((await queue.countTasks()).pending).toBe(2);
});
