/** The option `redact` of the queue, in the dashboard: alone, and before the dashboard's own one. */
import { expect, test } from "vitest";
import { remoteTask, type Task } from "../../../src/index.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { openDesk } from "./requests.ts";

const send = remoteTask<(text: string) => Promise<void>>("send");

const ofQueue = (task: Task): Task => ({ ...task, args: task.args.map(() => "by the queue") });

test("without a redact of its own, the dashboard uses the queue's", async () => {
  const { queue, get, api } = await openDesk({}, await temporaryQueue({ redact: ofQueue }));
  const id = await queue.enqueueTask(send, "secret");
  for (const path of ["/tasks", `/tasks/${id}`]) {
    const text = await (await get(path)).text();
    expect(text).toContain("by the queue");
    expect(text).not.toContain("secret");
  }
  expect(JSON.stringify((await api(`/api/tasks/${id}`)).body)).not.toContain("secret");
});

test("with a redact of its own, that one gets what the queue's has left", async () => {
  const own = (task: Task): Task => ({ ...task, args: [...task.args, "by the dashboard"] });
  const { queue, get } = await openDesk({ redact: own }, await temporaryQueue({ redact: ofQueue }));
  const id = await queue.enqueueTask(send, "secret");
  const text = await (await get(`/tasks/${id}`)).text();
  expect(text.indexOf("by the dashboard")).toBeGreaterThan(text.indexOf("by the queue"));
  expect(text).not.toContain("secret");
});

test("an error of the queue's redact hides the values, and goes to onError without its message", async () => {
  const redact = (task: Task): Task => {
    throw new Error(String(task.args[0]));
  };
  const { queue, get, errors } = await openDesk({}, await temporaryQueue({ redact }));
  const id = await queue.enqueueTask(send, "secret");
  const response = await get(`/tasks/${id}`);
  expect([response.status, await response.text()]).toEqual([200, expect.not.stringContaining("secret")]);
  expect(errors.map(String)).toEqual([
    `Error: redact has failed with Error, so values of task ${id} are not shown`,
  ]);
});
