/** `requestTimeout`: behind a connection that was cut, the app's calls reject in time, and workers keep their patience. */
import { describe, expect, it, onTestFinished } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { openQueue, type Queue, RequestTimeoutError, remoteTask } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { wireTo } from "./cut-wire.ts";

const task = remoteTask("f");

const kinds = [
  ["Postgres", { server: await postgresServer(), create: newSchema }],
  ["MariaDB", { server: await mysqlServer(), create: newDatabase }],
] as const;

const calls: [string, (queue: Queue) => Promise<unknown>][] = [
  ["getTask", (queue) => queue.getTask(1)],
  ["listTasks", (queue) => queue.listTasks()],
  ["countTasks", (queue) => queue.countTasks()],
  ["health", (queue) => queue.health()],
  ["stats", (queue) => queue.stats()],
  ["enqueueTask", (queue) => queue.enqueueTask(task)],
  ["enqueueTasks", (queue) => queue.enqueueTasks([[task], [task]])],
  ["cancelTask", (queue) => queue.cancelTask(1)],
  ["retryTask from a step", (queue) => queue.retryTask(1, { fromStep: "charge" })],
  ["enqueueGroup", (queue) => queue.enqueueGroup([[task], [task]])],
  ["enqueueChain", (queue) => queue.enqueueChain([[task], [task]])],
  ["emitEvent", (queue) => queue.emitEvent("paid")],
  ["getRun", (queue) => queue.getRun(1)],
  ["listWaiting", (queue) => queue.listWaiting("paid")],
  ["countWaits", (queue) => queue.countWaits()],
  ["getSchedule", (queue) => queue.getSchedule("nightly")],
  ["listSchedules", (queue) => queue.listSchedules()],
  ["triggerSchedule", (queue) => queue.triggerSchedule("nightly")],
  ["listCauses", (queue) => queue.listCauses()],
];

describe.each(kinds)("over a wire to %s", (_, { server, create }) => {
  /** A queue with this limit, over a wire that can be cut. */
  async function overWire(requestTimeout: number) {
    const { url, drop } = await create();
    onTestFinished(drop);
    const wire = await wireTo(url);
    return { wire, queue: await temporaryQueue({ requestTimeout, poolSize: 1 }, wire.url) };
  }

  it.skipIf(isMissing(server)).each(calls)(
    "%s rejects after requestTimeout, and the next call has another connection",
    async (__, call) => {
      const { wire, queue } = await overWire(400);
      await queue.enqueueTask(task);
      wire.cut();
      await expect(call(queue)).rejects.toMatchObject({ code: "DBQ_REQUEST_TIMEOUT", limit: 400 });
      expect(await queue.getTask(1)).toMatchObject({ id: 1 });
    },
  );

  it.skipIf(isMissing(server))("calls that wait for a connection reject too, and none is left", async () => {
    const { wire, queue } = await overWire(400);
    await queue.enqueueTask(task);
    wire.cut();
    const ended = await Promise.allSettled(Array.from({ length: 20 }, () => queue.getTask(1)));
    const reasons = ended.map((end) => (end.status === "rejected" ? end.reason : undefined));
    expect(reasons[0]).toBeInstanceOf(RequestTimeoutError);
    expect(await queue.getTask(1)).toMatchObject({ id: 1 });
  });

  it.skipIf(isMissing(server))("a worker's statement outlives the limit of the app's calls", async () => {
    const { wire, queue } = await overWire(300);
    await queue.enqueueTask(task);
    wire.cut();
    const { store } = internalsOf(queue);
    const first = await Promise.race([
      store.get([1]).then(
        () => "the worker's",
        () => "the worker's",
      ),
      queue.getTask(1).catch(() => "the app's"),
    ]);
    expect(first).toBe("the app's");
  });
});

it.each([0, -1, "soon", Number.POSITIVE_INFINITY, "2d", null])(
  "requestTimeout: %j is a TypeError that names it",
  async (value) => {
    const opening = openQueue(":memory:", { requestTimeout: value as never });
    await expect(opening).rejects.toThrow(TypeError);
    await expect(opening).rejects.toThrow(/^openQueue: requestTimeout: /);
    await expect(opening).rejects.toThrow(typeof value === "string" ? JSON.stringify(value) : String(value));
  },
);

it("requestTimeout has no effect on SQLite", async () => {
  const queue = await temporaryQueue({ requestTimeout: "2s" }, ":memory:");
  expect(await queue.getTask(await queue.enqueueTask(task))).toMatchObject({ func: "f" });
});
