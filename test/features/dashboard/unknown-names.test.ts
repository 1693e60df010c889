/** A pause or a limit of a name that nothing has: it is set, and the answer says that the name may be misspelt. */
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { openQueue, remoteTask, task } from "../../../src/index.ts";
import { dbq, dbqJson } from "../../entries/cli/in-process.ts";
import { startedWorker, temporaryFolder, uniqueName } from "../../support/queue.ts";
import { openDesk } from "./requests.ts";

test("the page and the API say that nothing has the name of a paused queue, function or group", async () => {
  const { queue, api, post } = await openDesk();
  const paused = async (path: string, body = {}) => (await api(`/api/${path}/pause`, body)).body.message;
  expect(await paused("queues/mial")).toMatch(
    /^Queue mial is paused: .* No task is in a queue of this name, and no worker serves it: check the spelling\.$/,
  );
  expect(await paused("functions/sned")).toMatch(/No task has a function of this name/);
  expect(await paused("functions/sned", { group: "acme" })).toMatch(
    /No task is in this group of this function/,
  );
  expect(await (await post("/api/queues/malis/pause")).text()).toContain("check the spelling");
  expect((await queue.health()).pauses).toHaveLength(4);
  expect((await api("/api/queues/mial/resume", {})).body.message).toBe("Queue mial goes on.");
});

test("a name that a task, a worker or a registered function has is not doubted", async () => {
  const { queue, api } = await openDesk();
  const paused = async (path: string, body = {}) => (await api(`/api/${path}/pause`, body)).body.message;
  await queue.enqueueTask(remoteTask("send").with({ queueName: "mail", group: "acme" }));
  const registered = task(uniqueName("registered"), async () => {});
  await startedWorker(queue, { queueName: "images" });
  for (const [path, body] of [
    ["queues/mail", {}],
    ["queues/images", {}],
    ["functions/send", {}],
    ["functions/send", { group: "acme" }],
    [`functions/${registered.taskName}`, {}],
  ] as const)
    expect(await paused(path, body)).not.toContain("check the spelling");
});

test("dbq pause says so too", async () => {
  const folder = temporaryFolder();
  const queue = await openQueue(join(folder, "dbq.db"));
  onTestFinished(() => queue.close());
  await queue.enqueueTask(remoteTask("send"));
  expect((await dbq(folder, ["pause", "--queue", "mial"])).out).toBe(
    "queue mial is now paused\nNo task is in a queue of this name, and no worker serves it: check the spelling.\n",
  );
  expect(await dbqJson(folder, ["pause", "--func", "sned"])).toEqual({
    changed: true,
    warning: expect.stringContaining("No task has a function of this name"),
  });
  expect(await dbqJson(folder, ["pause", "--func", "send"])).toEqual({ changed: true });
});

test("a limit of a misspelt queue or function says so as well", async () => {
  const { queue, api } = await openDesk();
  await queue.enqueueTask(remoteTask("send"));
  const limited = async (name: string) =>
    (await api("/api/limits", { about: "func", name, concurrency: 2 })).body.message;
  expect(await limited("sned")).toMatch(/^Function sned is limited: 2 at once\. No task has a function of/);
  expect(await limited("send")).toBe("Function send is limited: 2 at once.");
  const folder = temporaryFolder();
  await (await openQueue(join(folder, "dbq.db"))).close();
  expect((await dbq(folder, ["limit", "--queue", "mial", "--concurrency", "2"])).out).toMatch(
    /^the limit of queue mial is set\nNo task is in a queue of this name/,
  );
  expect((await dbq(folder, ["limit", "--queue", "mial", "--remove"])).out).not.toContain("spelling");
});

test("a function that has a limit in the code of a worker is not doubted", async () => {
  const folder = temporaryFolder();
  const queue = await openQueue(join(folder, "dbq.db"));
  onTestFinished(() => queue.close());
  const { store } = internalsOf(queue);
  const values = { concurrency: 2, rate: null };
  await store.limits.declare([{ func: "charge", values }]);
  expect(await dbqJson(folder, ["pause", "--func", "charge"])).toEqual({ changed: true });
  expect((await dbq(folder, ["limit", "--func", "charge", "--concurrency", "1"])).out).not.toContain(
    "check the spelling",
  );
});

test("dbq limit --json prints the doubt as a line of JSON on stderr, and the limits alone on stdout", async () => {
  const folder = temporaryFolder();
  const queue = await openQueue(join(folder, "dbq.db"));
  onTestFinished(() => queue.close());
  const { out, err } = await dbq(folder, ["limit", "--func", "sned", "--concurrency", "1", "--json"]);
  expect(JSON.parse(out)).toMatchObject([{ target: { func: "sned" } }]);
  expect(JSON.parse(err)).toEqual({
    time: expect.any(String),
    event: "warning",
    message: expect.stringContaining("No task has a function of this name"),
  });
});
