/** The lists of functions and tasks, and the question before an action on many tasks. */
import { expect, test } from "vitest";
import { relative } from "../../../src/features/dashboard/client/times.ts";
import { remoteTask } from "../../../src/index.ts";
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
