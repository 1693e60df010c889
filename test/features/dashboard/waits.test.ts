/** Why tasks wait: what the overview and the page of a task say of pauses, throttles and limits. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { textOf } from "./page-text.ts";
import { openDesk } from "./requests.ts";

const send = remoteTask("send").with({ queueName: "mail", group: "acme" });

test("the overview lists a paused queue, function and group under what is wrong, and no resumed one", async () => {
  const { queue, get, api } = await openDesk();
  const stuck = async () => textOf(await (await get("/")).text(), "stuck");
  await queue.enqueueTask(send);
  await queue.pause({ queueName: "mail" });
  // The oldest comes first, by the millisecond.
  await sleep(5);
  await queue.pause({ func: "send" });
  await queue.pause({ func: "send", group: "acme" });
  expect(await stuck()).toMatch(/Queue mail was paused [^.]+: 1 task pending\./);
  expect(await stuck()).toMatch(/Function send was paused [^.]+: its tasks wait\./);
  expect(await stuck()).toMatch(/Group acme of send was paused [^.]+: its tasks wait\./);
  expect((await api("/api/overview")).body.pauses).toMatchObject([
    { target: { queueName: "mail" } },
    { target: { func: "send" } },
    { target: { func: "send", group: "acme" } },
  ]);
  await queue.resume({ queueName: "mail" });
  await queue.resume({ func: "send" });
  await queue.resume({ func: "send", group: "acme" });
  expect(await stuck()).not.toContain("paused");
});

test("of more than a hundred pauses the overview lists a hundred, and says how many more there are", async () => {
  const { queue, get } = await openDesk();
  for (let n = 0; n < 102; n += 1) await queue.pause({ func: "send", group: `group-${n}` });
  const stuck = textOf(await (await get("/")).text(), "stuck");
  expect(stuck.match(/was paused/g)).toHaveLength(100);
  expect(stuck).toContain("2 more pauses: all pauses");
});

test.each([
  [{ queueName: "mail" }, /Its queue mail was paused 2\d{3}-[^.]+\./],
  [{ func: "send" }, /Its function send was paused 2\d{3}-[^.]+\./],
  [{ func: "send", group: "acme" }, /Its group acme was paused 2\d{3}-[^.]+\./],
])("the page of a pending task says that %o is paused", async (target, words) => {
  const { queue, get, api } = await openDesk();
  const id = await queue.enqueueTask(send);
  const timeline = async () => textOf(await (await get(`/tasks/${id}`)).text(), "timeline");
  expect(await timeline()).toMatch(/waits for a worker$/);
  await queue.pause(target);
  expect(await timeline()).toMatch(/waits for the end of a pause/);
  expect(await timeline()).toMatch(words);
  expect((await api(`/api/tasks/${id}`)).body.waitsFor).toMatchObject([{ pausedAt: expect.any(String) }]);
});

test("it names no pause of another queue, function or group, and none of a task that has ended", async () => {
  const { queue, get, api } = await openDesk();
  const id = await queue.enqueueTask(send);
  await queue.pause({ queueName: "other" });
  await queue.pause({ func: "other" });
  await queue.pause({ func: "send", group: "other" });
  await queue.pause({ func: "other", group: "acme" });
  expect(textOf(await (await get(`/tasks/${id}`)).text(), "timeline")).toMatch(/waits for a worker$/);
  await queue.pause({ func: "send" });
  await queue.cancelTask(id);
  expect((await api(`/api/tasks/${id}`)).body.waitsFor).toEqual([]);
});

test("the page of a pending task names the limits that it may wait for", async () => {
  const { queue, get } = await openDesk();
  const id = await queue.enqueueTask(send);
  await queue.setLimit({ queueName: "mail" }, { concurrency: 4 });
  await queue.setLimit({ func: "send", group: "acme" }, { rate: { limit: 100, per: "1m" } });
  const timeline = textOf(await (await get(`/tasks/${id}`)).text(), "timeline");
  expect(timeline).toContain("waits for a worker, or for a limit");
  expect(timeline).toContain("Its queue mail has a limit: 4 at once (0 running).");
  expect(timeline).toContain("Its group acme has a limit: 100 per minute.");
});

test("a failed task without statistics yet is no proof that nothing failed: the overview says when workers write them", async () => {
  const { get } = await openDesk();
  const html = await (await get("/")).text();
  expect(textOf(html, "failing")).toMatch(
    /There are no statistics of this time\. Workers write them every 10 s\.$/,
  );
  expect(textOf(html, "charts")).toContain("There are no statistics of the last hour.");
  expect(textOf(await (await get("/functions")).text(), "functions")).toContain(
    "up to 10 s after its first attempt",
  );
});
