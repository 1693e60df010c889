/** The drain on SQLite, with brokers in memory. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { bullmq } from "../../../src/features/drain/bullmq.ts";
import { type DrainOptions, drain } from "../../../src/features/drain/index.ts";
import { redisStream } from "../../../src/features/drain/redis-stream.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { moveQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { Broker, newDrain, next, sentBy } from "./broker.ts";
import { drainCases } from "./cases.ts";

drainCases("SQLite", async () => join(temporaryFolder(), "dbq.db"));

test("a move keeps the origin: a message that was sent before has the same id after", async () => {
  const [from, to] = [await temporaryQueue(), await temporaryQueue()];
  const origins = () => Promise.all([from, to].map((queue) => internalsOf(queue).store.drains.knownOrigin()));
  const id = await from.enqueueTask(remoteTask("send"), 1);
  const broker = new Broker();
  broker.faults = Array.from({ length: 50 }, () => async (messages) => {
    broker.take(messages);
    throw new Error("the answer is lost");
  });
  const lossy = newDrain(from, { to: broker });
  const paused = next(lossy.carrier, "paused");
  await lossy.carrier.start();
  await paused;
  await lossy.carrier.stop();
  await moveQueue(from, to);
  const [before, after] = await origins();
  expect(after).toBe(before);
  broker.faults = [];
  const { carrier } = newDrain(to, { to: broker });
  const sent = sentBy(carrier, 1);
  await carrier.start();
  expect(await sent).toEqual([`dbq-${before}-${id}`]);
  expect(broker.received.size).toBe(1);
});

test("wrong options are refused by name, with the value", async () => {
  const queue = await temporaryQueue();
  const to = new Broker();
  const options = (given: object) => () => drain(queue, given as DrainOptions);
  expect(options({})).toThrow("drain: to: expected a target, such as bullmq(queue), got undefined");
  expect(options({ to: {} })).toThrow("drain: to: expected a target");
  expect(options({ to, batch: 0 })).toThrow(/drain: batch: .*got 0/);
  expect(options({ to, keep: "30d" })).toThrow(/keep is 2592000000 ms, but the queue keeps/);
  expect(options({ to, keep: 0, results: true })).toThrow("keep: 0 would delete the results");
  expect(options({ to, resultsWithin: "1h" })).toThrow("resultsWithin is for results: true");
  expect(options({ to, onRefused: "drop" })).toThrow(/onRefused/);
  expect(options({ to, retries: 3 })).toThrow(/there is no option "retries"/);
  expect(() => drain({} as Queue, { to })).toThrow("expected a Queue");
  expect(() => bullmq({} as never)).toThrow("bullmq: expected a Queue of BullMQ");
  expect(() => redisStream({} as never, "key")).toThrow("redisStream: expected a client of ioredis");
  expect(() => redisStream({ eval: () => undefined } as never, "")).toThrow('got ""');
});
