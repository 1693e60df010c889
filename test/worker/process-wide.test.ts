/**
 * dbq does not affect the app's process: it installs no handlers, swallows no rejection, and does not keep the process
 * alive.
 */
import { join } from "node:path";
import { expect, test } from "vitest";
import { task, Worker } from "../../src/index.ts";
import { start } from "../fixtures/processes.ts";
import { temporaryFolder, temporaryQueue, uniqueName } from "../support/queue.ts";
import { ended } from "./setup.ts";

/** Process events that a library might listen to. */
const tempting = [
  "SIGTERM",
  "SIGINT",
  "SIGHUP",
  "beforeExit",
  "disconnect",
  "exit",
  "message",
  "multipleResolves",
  "rejectionHandled",
  "uncaughtException",
  "uncaughtExceptionMonitor",
  "unhandledRejection",
  "warning",
];

const counts = () => Object.fromEntries(tempting.map((event) => [event, process.listenerCount(event)]));

test("a worker adds no listener to the process", async () => {
  const before = counts();
  const queue = await temporaryQueue();
  const quick = task(uniqueName(), async () => "done");
  const worker = new Worker(queue);
  await worker.start();
  await ended(queue, await queue.enqueueTask(quick));
  expect(counts()).toEqual(before);
  await worker.stop();
  await queue.close();
  expect(counts()).toEqual(before);
});

const app = (what: string) => start("app.ts", join(temporaryFolder(), "dbq.db"), what);

test("an unhandled rejection in a handler ends the app as it would without dbq", async () => {
  const child = app("stray");
  expect(await child.ended).toBe(1);
  expect(child.output()).toContain("Error: stray");
});

test("an app's own listener receives an unhandled rejection of a handler, and the worker goes on", async () => {
  const child = app("handled");
  expect(await child.ended).toBe(0);
  expect(child.output()).toContain("the app heard: stray");
  expect(child.output()).toContain("the task completed");
});

test("the process exits after stop and close", async () => {
  const child = app("quiet");
  expect(await child.ended).toBe(0);
  expect(child.output().trim()).toBe("the task completed");
});
