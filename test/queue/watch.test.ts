/** `queue.watchTask`: the events of one task, from any process. */
import { once } from "node:events";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, test } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import {
  CancelTask,
  currentTask,
  type Queue,
  QueueClosedError,
  SnoozeTask,
  type TaskEvent,
  TaskNotFoundError,
  task,
} from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { ended, loggingTask, queueOnFile, rejection } from "../worker/setup.ts";

/** An event in one word or two. */
function said(event: TaskEvent): string {
  if (event.type === "log") return `log ${event.line.message}`;
  return event.type === "progress" ? `progress ${event.progress} ${event.note ?? ""}`.trim() : event.type;
}

async function allOf(events: AsyncIterable<TaskEvent>): Promise<string[]> {
  const all: string[] = [];
  for await (const event of events) all.push(said(event));
  return all;
}

/** Takes events until one says this; returns all that were taken. */
async function upTo(events: AsyncGenerator<TaskEvent, void>, last: string): Promise<string[]> {
  const taken: string[] = [];
  while (taken.at(-1) !== last) {
    const { value, done } = await events.next();
    if (done || !value) throw new Error(`ended before "${last}": ${taken.join(", ")}`);
    taken.push(said(value));
  }
  return taken;
}

test.each(["in the worker's process", "in another process"])(
  "a watch %s sees the start, progress and lines, and ends with the final status",
  async (where) => {
    const { queue, elsewhere } = await queueOnFile();
    const watching = where.includes("another") ? await elsewhere() : queue;
    const [first, second] = [deferred(), deferred()];
    const slow = task(uniqueName(), async () => {
      const { log, progress } = currentTask();
      log("one");
      progress(0.5, "half");
      await first.promise;
      log("two");
      await second.promise;
      log("three");
      progress(1);
      return { bytes: 123 };
    });
    const id = await queue.enqueueTask(slow);
    const events = watching.watchTask(id);
    expect(await upTo(events, "pending")).toEqual(["pending"]);
    await startedWorker(queue);
    const begun = await upTo(events, "running");
    expect(begun).toEqual(["running"]);
    const noted = [
      said((await events.next()).value as TaskEvent),
      said((await events.next()).value as TaskEvent),
    ];
    expect(noted.sort()).toEqual(["log one", "progress 0.5 half"]);
    first.resolve();
    expect(await upTo(events, "log two")).toEqual(["log two"]);
    second.resolve();
    expect(await upTo(events, "completed")).toEqual(["log three", "progress 1", "completed"]);
    expect(await events.next()).toEqual({ done: true, value: undefined });
    expect(await ended(queue, id)).toMatchObject({ result: { bytes: 123 } });
  },
);

test("a watch of a task that has ended gives its lines and then its final status", async () => {
  const { queue } = await queueOnFile();
  const failing = task(
    uniqueName(),
    async () => {
      currentTask().log("here");
      throw new RangeError("out of paper");
    },
    { maxRetries: 0 },
  );
  await startedWorker(queue);
  const id = await queue.enqueueTask(failing);
  await ended(queue, id);
  const events: TaskEvent[] = [];
  for await (const event of queue.watchTask(id)) events.push(event);
  expect(events.map(said)).toEqual(["log here", "failed"]);
  expect(events[1]).toMatchObject({ type: "failed", task: { id, error: { name: "RangeError" } } });
});

test("retries and snoozes are seen as scheduled, with the lines of an attempt before what follows it", async () => {
  const { queue } = await queueOnFile();
  const seen = [deferred(), deferred(), deferred()];
  const flaky = task(
    uniqueName(),
    async () => {
      const { retryCount, log, generationId } = currentTask();
      const attempt = generationId === 2 ? 0 : retryCount === 0 ? 1 : 2;
      log(`attempt ${attempt}`);
      await seen[attempt]?.promise;
      if (attempt === 0) throw new SnoozeTask(1);
      if (attempt === 1) throw new Error("no luck");
      throw new CancelTask("enough");
    },
    { backoff: () => 1 },
  );
  const id = await queue.enqueueTask(flaky);
  const events = queue.watchTask(id);
  await startedWorker(queue);
  const all: string[] = [];
  for (const [attempt, { resolve }] of seen.entries()) {
    all.push(...(await upTo(events, `log attempt ${attempt}`)));
    resolve();
  }
  all.push(...(await upTo(events, "cancelled")));
  const lines = all.filter((event) => event.startsWith("log"));
  expect(lines).toEqual(["log attempt 0", "log attempt 1", "log attempt 2"]);
  // States between two looks may be skipped; what is there has its order.
  for (const line of lines) expect(all[all.indexOf(line) - 1]).toBe("running");
  expect(all.at(-1)).toBe("cancelled");
});

test("more lines than one look reads are all delivered, in order, before the final status", async () => {
  const { queue } = await queueOnFile();
  await startedWorker(queue);
  const id = await queue.enqueueTask(loggingTask(2, 900));
  await ended(queue, id);
  const expected = [0, 1].flatMap((retry) => Array.from({ length: 900 }, (_, n) => `log ${retry}.${n}`));
  expect(await allOf(queue.watchTask(id))).toEqual([...expected, "completed"]);
});

test("a line that is logged during a look is delivered before the end that the same look sees", async () => {
  const { queue } = await queueOnFile();
  const { store } = internalsOf(queue);
  const release = deferred();
  const slow = task(uniqueName(), async () => {
    await release.promise;
    currentTask().log("last");
  });
  await startedWorker(queue);
  const id = await queue.enqueueTask(slow);
  const events = queue.watchTask(id);
  await upTo(events, "running");
  const { taskProgress } = store;
  store.taskProgress = async (ids) => {
    release.resolve();
    await ended(queue, id);
    return await taskProgress(ids);
  };
  expect(await upTo(events, "completed")).toEqual(["log last", "completed"]);
});

test("a look that has waited for the end of an outage causes no long pause", async () => {
  const { queue } = await queueOnFile();
  const { store } = internalsOf(queue);
  const [second, last] = [deferred(), deferred()];
  const slow = task(uniqueName(), async () => {
    currentTask().log("one");
    await second.promise;
    currentTask().log("two");
    await last.promise;
  });
  await startedWorker(queue);
  const id = await queue.enqueueTask(slow);
  const events = queue.watchTask(id, { signal: AbortSignal.timeout(15_000) });
  await upTo(events, "log one");
  const { taskProgress } = store;
  store.taskProgress = async (ids) => {
    store.taskProgress = taskProgress;
    await sleep(2_000);
    return await taskProgress(ids);
  };
  second.resolve();
  await upTo(events, "log two");
  last.resolve();
  expect(await upTo(events, "completed")).toEqual(["completed"]);
});

test("a watch of a task that never existed, or is purged, rejects with TaskNotFoundError", async () => {
  const { queue } = await queueOnFile();
  expect(await rejection(queue.watchTask(4711).next())).toBeInstanceOf(TaskNotFoundError);
  const waiting = task(uniqueName(), async () => "done");
  const id = await queue.enqueueTask(waiting);
  const events = queue.watchTask(id);
  await upTo(events, "pending");
  const next = rejection(events.next());
  await queue.purgeTasks();
  expect(await next).toBeInstanceOf(TaskNotFoundError);
  expect(await events.next()).toEqual({ done: true, value: undefined });
});

test("an aborted signal rejects the watch with its reason, while it waits and between two events", async () => {
  const { queue } = await queueOnFile();
  const id = await queue.enqueueTask(task(uniqueName(), async () => "done"));
  const [reason, controller] = [new Error("enough"), new AbortController()];
  const events = queue.watchTask(id, { signal: controller.signal });
  await upTo(events, "pending");
  const next = rejection(events.next());
  controller.abort(reason);
  expect(await next).toBe(reason);
  expect(await rejection(queue.watchTask(id, { signal: controller.signal }).next())).toBe(reason);
});

test("a closed queue rejects its watches, and leaves nothing behind", async () => {
  const { queue } = await queueOnFile();
  const subscriptions = subscriptionsOf(queue);
  const id = await queue.enqueueTask(task(uniqueName(), async () => "done"));
  const [waits, reads] = [queue.watchTask(id), queue.watchTask(id)];
  await upTo(waits, "pending");
  await upTo(reads, "pending");
  const next = rejection(waits.next());
  await queue.close();
  expect(subscriptions()).toBe(0);
  expect(await next).toBeInstanceOf(QueueClosedError);
  expect(await rejection(reads.next())).toBeInstanceOf(QueueClosedError);
  expect(() => queue.watchTask(id)).toThrow(QueueClosedError);
});

test("an error of the database rejects the watches that wait", async () => {
  const { queue } = await queueOnFile();
  const id = await queue.enqueueTask(task(uniqueName(), async () => "done"));
  const events = queue.watchTask(id);
  await upTo(events, "pending");
  const broken = new Error("disk broken");
  internalsOf(queue).store.taskProgress = async () => Promise.reject(broken);
  expect(await rejection(events.next())).toBe(broken);
});

test("a hundred watches share the queries of one, and a watch that is left costs none", async () => {
  const { queue } = await queueOnFile();
  const { store } = internalsOf(queue);
  let looks = 0;
  let most = 0;
  const { taskProgress } = store;
  store.taskProgress = async (ids) => {
    looks += 1;
    most = Math.max(most, ids.length);
    return await taskProgress(ids);
  };
  let watched = 0;
  const { watch } = store;
  store.watch = (listener) => {
    watched += 1;
    const stop = watch(listener);
    return () => {
      watched -= 1;
      stop();
    };
  };
  const waiting = task(uniqueName(), async () => "done");
  const ids = await queue.enqueueTasks(Array.from({ length: 50 }, () => [waiting] as const));
  const watches = [...ids, ...ids].map((id) => queue.watchTask(id));
  await Promise.all(watches.map((events) => upTo(events, "pending")));
  expect(most).toBe(50);
  expect(looks).toBeLessThan(10);
  expect(watched).toBe(1);
  for (const events of watches.slice(1)) await events.return();
  const [last] = watches;
  most = 0;
  const next = last?.next();
  await queue.cancelTask(ids[0] as number);
  expect((await next)?.value).toMatchObject({ type: "cancelled" });
  expect(most).toBe(1);
  await last?.return();
  expect(watched).toBe(0);
  looks = 0;
  await queue.cancelTask(ids[1] as number);
  await new Promise((resolve) => setImmediate(resolve));
  expect(looks).toBe(0);
});

/** How many subscriptions to changes of the database there are. */
function subscriptionsOf(queue: Queue): () => number {
  const { store } = internalsOf(queue);
  let count = 0;
  const { watch } = store;
  store.watch = (listener) => {
    count += 1;
    const stop = watch(listener);
    return () => {
      count -= 1;
      stop();
    };
  };
  return () => count;
}

test("a break in the loop ends the watch", async () => {
  const { queue } = await queueOnFile();
  const subscriptions = subscriptionsOf(queue);
  const id = await queue.enqueueTask(task(uniqueName(), async () => "done"));
  for await (const event of queue.watchTask(id)) {
    expect(subscriptions()).toBe(1);
    if (event.type === "pending") break;
  }
  expect(subscriptions()).toBe(0);
});

describe("a watch that is ended while it waits for an event", () => {
  /** A watch that waits, and what its `next` will give. */
  const waiting = async () => {
    const { queue } = await queueOnFile();
    const subscriptions = subscriptionsOf(queue);
    const events = queue.watchTask(await queue.enqueueTask(task(uniqueName(), async () => "done")));
    await upTo(events, "pending");
    return { subscriptions, events, next: events.next() };
  };
  /** The same by a stream, which has given its first event. */
  const streaming = async () => {
    const { queue } = await queueOnFile();
    const subscriptions = subscriptionsOf(queue);
    const id = await queue.enqueueTask(task(uniqueName(), async () => "done"));
    const stream = Readable.from(queue.watchTask(id));
    await once(stream, "data");
    return { subscriptions, stream };
  };
  const done = { done: true, value: undefined };

  it("by return(), gives the end to the next() that waits, and leaves nothing behind", async () => {
    const { subscriptions, events, next } = await waiting();
    const after = events.next();
    expect(await events.return()).toEqual(done);
    expect([await next, await after, await events.next()]).toEqual([done, done, done]);
    expect(subscriptions()).toBe(0);
  });

  it("by throw(), does the same and rejects with that error", async () => {
    const { subscriptions, events, next } = await waiting();
    const error = new Error("enough");
    expect(await rejection(events.throw(error))).toBe(error);
    expect(await next).toEqual(done);
    expect(subscriptions()).toBe(0);
  });

  it("by the end of its stream, closes the stream and leaves nothing behind", async () => {
    const { subscriptions, stream } = await streaming();
    expect(subscriptions()).toBe(1);
    stream.destroy();
    await once(stream, "close");
    expect(subscriptions()).toBe(0);
  });

  it("by an error of its stream, does the same", async () => {
    const { subscriptions, stream } = await streaming();
    const error = new Error("enough");
    stream.destroy(error);
    expect(await rejection(once(stream, "close"))).toBe(error);
    expect(subscriptions()).toBe(0);
  });

  it("leaves the other watches of its task as they are", async () => {
    const { queue } = await queueOnFile();
    const id = await queue.enqueueTask(task(uniqueName(), async () => "done"));
    const [left, kept] = [queue.watchTask(id), queue.watchTask(id)];
    for (const events of [left, kept]) await upTo(events, "pending");
    const [, next] = [left.next(), kept.next()];
    await left.return();
    await queue.cancelTask(id);
    expect(await next).toMatchObject({ value: { type: "cancelled" } });
  });
});

test("a watch whose reader is busy leaves nothing behind when its signal is aborted", async () => {
  const { queue } = await queueOnFile();
  const subscriptions = subscriptionsOf(queue);
  const id = await queue.enqueueTask(task(uniqueName(), async () => "done"));
  const [reason, controller] = [new Error("enough"), new AbortController()];
  const events = queue.watchTask(id, { signal: controller.signal });
  await upTo(events, "pending");
  controller.abort(reason);
  expect(subscriptions()).toBe(0);
  expect(await rejection(events.next())).toBe(reason);
});

test("a wrong id or option is a TypeError", async () => {
  const { queue } = await queueOnFile();
  expect(() => queue.watchTask(Promise.resolve(7) as never)).toThrow(
    "got an object (Promise): await it first",
  );
  expect(() => queue.watchTask("7" as never)).toThrow(
    /^watchTask: expected the id of a task, a whole number, got "7"$/,
  );
  expect(() => queue.watchTask(7, { timeout: 1 } as never)).toThrow(/watchTask.*timeout/);
});
