/** The drain into a real Redis: into BullMQ, whose own worker consumes what arrives, and into a stream. */
import { join } from "node:path";
import { Queue as BullQueue, Worker as BullWorker, type Job, type QueueOptions } from "bullmq";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { bullmq, bullmqPriority } from "../../../src/features/drain/bullmq.ts";
import type { DrainOptions } from "../../../src/features/drain/index.ts";
import { redisStream } from "../../../src/features/drain/redis-stream.ts";
import { openQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { temporaryFolder, uniqueName } from "../../support/queue.ts";
import { newRedis, type OwnRedis, redisServer, restartableRedis } from "../../support/redis.ts";
import { isMissing } from "../../support/server.ts";
import { newDrain, next, sentBy } from "./broker.ts";

const send = remoteTask("send", { queueName: "mail", maxRetries: 3 });

let url = process.env.DBQ_TEST_REDIS_URL ?? "";
let own: OwnRedis | undefined;

function connect(to = url): Redis {
  const client = new Redis(to, { maxRetriesPerRequest: null });
  client.on("error", () => undefined);
  onTestFinished(() => client.disconnect());
  return client;
}

function bullQueue(options: Partial<QueueOptions> = {}, to = url): BullQueue {
  const queue = new BullQueue(`dbq-${process.pid}-${uniqueName("mail")}`, {
    connection: connect(to),
    ...options,
  });
  queue.on("error", () => undefined);
  onTestFinished(async () => {
    if (process.env.DBQ_TEST_REDIS_URL !== undefined) await queue.obliterate({ force: true });
    await queue.close();
  });
  return queue;
}

async function setUp(options: Omit<DrainOptions, "queueName">) {
  const queue = await openQueue(join(temporaryFolder(), "dbq.db"));
  onTestFinished(() => queue.close());
  return { queue, ...newDrain(queue, { queueName: "mail", ...options }) };
}

/** Runs the jobs one after another, and returns them when there were so many. */
async function consumed(queue: BullQueue, count: number, run: (job: Job) => unknown = () => 1) {
  const jobs: Job[] = [];
  let done: () => void = () => undefined;
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  const worker = new BullWorker(
    queue.name,
    async (job) => {
      jobs.push(job);
      const result = await run(job);
      if (jobs.length === count) done();
      return result;
    },
    { connection: connect() },
  );
  worker.on("error", () => undefined);
  onTestFinished(() => worker.close(true));
  await all;
  return jobs;
}

const textOf = ({ data }: Job) => (data as { args: unknown[] }).args[0];

describe.skipIf(isMissing(await redisServer()))("a drain into Redis", () => {
  beforeAll(async () => {
    if (process.env.DBQ_TEST_REDIS_URL !== undefined) return;
    own = await newRedis();
    url = own.url;
  });

  afterAll(() => own?.kill());

  test("BullMQ's own worker runs what was drained, highest priority first, with the task's attempts", async () => {
    const mail = bullQueue();
    const { queue, carrier } = await setUp({ to: bullmq(mail) });
    const call = (priority: number) => send.with({ priority, maxRetries: 2, requestId: "r1" });
    const ids = await queue.enqueueTasks([
      [call(-3), "last"],
      [call(5), "middle"],
      [call(900), "first"],
    ]);
    const sent = sentBy(carrier, 3);
    await carrier.start();
    await sent;
    const [first, , last] = await consumed(mail, 3);
    expect([first, last].map((job) => job && textOf(job))).toEqual(["first", "last"]);
    const origin = (await queue.awaitTaskResult<{ target: string; messageId: string }>(ids[2] as number))
      .messageId;
    expect(origin).toBe(first?.id);
    expect(first).toMatchObject({
      name: "send",
      data: { args: ["first"], kwargs: {}, meta: {}, requestId: "r1" },
      opts: { attempts: 3, priority: bullmqPriority(900) },
    });
    expect(await queue.awaitTaskResult(ids[0] as number)).toEqual({
      target: `bullmq:${mail.name}`,
      messageId: last?.id,
    });
  });

  test("BullMQ drops a message that is sent twice", async () => {
    const mail = bullQueue();
    const target = bullmq(mail);
    let lost = false;
    const { queue, carrier } = await setUp({
      to: {
        ...target,
        send: async (messages, signal) => {
          const answers = await target.send(messages, signal);
          if (lost) return answers;
          lost = true;
          throw new Error("the answer was lost");
        },
      },
    });
    await queue.enqueueTasks([1, 2, 3].map((n) => [send, n] as const));
    const sent = sentBy(carrier, 3);
    await carrier.start();
    await sent;
    expect(await mail.getJobCountByTypes("prioritized", "waiting")).toBe(3);
  });

  test("a job that BullMQ refuses fails alone, and the others of its batch arrive", async () => {
    const mail = bullQueue();
    const { queue, carrier } = await setUp({
      to: bullmq(mail),
      options: ({ args: [n] }) => ({ attempts: 1, priority: 5, sizeLimit: n === 77 || n === 3 ? 1 : 10_000 }),
    });
    const ids = await queue.enqueueTasks(Array.from({ length: 100 }, (_, n) => [send, n] as const));
    const sent = sentBy(carrier, 98);
    await carrier.start();
    await sent;
    for (const bad of [3, 77]) {
      const { status, error } = await queue.awaitTaskCompletion(ids[bad] as number);
      expect([status, error?.message]).toEqual(["failed", "The size of job send exceeds the limit 1 bytes"]);
    }
    expect(await mail.getJobCountByTypes("prioritized")).toBe(98);
    expect((await queue.countTasks()).completed).toBe(98);
  });

  test("a result comes back from BullMQ's processor", async () => {
    const mail = bullQueue();
    const { queue, carrier } = await setUp({ to: bullmq(mail), results: true });
    await carrier.start();
    const id = await queue.enqueueTask(send, "ada@example.org");
    const result = queue.awaitTaskResult(id, { timeout: "20s" });
    await consumed(mail, 1, (job) =>
      queue.settleDrained(job.id as string, { result: { accepted: textOf(job) } }),
    );
    expect(await result).toEqual({ accepted: "ada@example.org" });
  });

  test("priorities are turned round, within BullMQ's range", () => {
    expect([5, 0, -5].map(bullmqPriority)).toEqual([1_048_571, 1_048_576, 1_048_581]);
    expect([2_147_483_647, -2_147_483_648, 0.4].map(bullmqPriority)).toEqual([0, 2_097_152, 1_048_576]);
  });

  test("a stream gets an entry for each task, with data and options as JSON", async () => {
    const client = connect();
    const key = `dbq-${process.pid}-stream`;
    const { queue, carrier } = await setUp({ to: redisStream(client, key) });
    onTestFinished(async () => {
      await client.del(key);
    });
    const id = await queue.enqueueTask(send, "Zoë \u0000 🙂");
    const sent = sentBy(carrier, 1);
    await carrier.start();
    const [messageId] = await sent;
    const [[, fields] = []] = (await client.xrange(key, "-", "+")) as [string, string[]][];
    expect(fields).toEqual([
      ...["id", messageId, "name", "send"],
      ...["data", '{"args":["Zoë \\u0000 🙂"],"kwargs":{},"meta":{},"requestId":null}'],
      ...["options", '{"priority":5,"attempts":4}'],
    ]);
    expect(await queue.awaitTaskResult(id)).toEqual({ target: `redis:${key}`, messageId });
  });

  test("each task of a large batch gets its entry in the stream, in the order of the tasks", async () => {
    const client = connect();
    const key = `dbq-${process.pid}-large`;
    const { queue, carrier } = await setUp({ to: redisStream(client, key), batch: 2_000 });
    onTestFinished(async () => {
      await client.del(key);
    });
    await queue.enqueueTasks(Array.from({ length: 5_000 }, (_, n) => [send, n] as const));
    const sent = sentBy(carrier, 5_000);
    await carrier.start();
    const messageIds = await sent;
    const entries = (await client.xrange(key, "-", "+")) as [string, string[]][];
    expect(entries.map(([, [, messageId]]) => messageId)).toEqual(messageIds);
    const numbers = entries.map(
      ([, fields]) => (JSON.parse(fields[5] as string) as { args: number[] }).args[0],
    );
    expect(numbers).toEqual(Array.from({ length: 5_000 }, (_, n) => n));
  });

  test("a stream whose key is of another type pauses the drain: no task fails for it", async () => {
    const client = connect();
    const key = `dbq-${process.pid}-no-stream`;
    onTestFinished(async () => {
      await client.del(key);
    });
    await client.set(key, "text");
    const { queue, carrier } = await setUp({ to: redisStream(client, key) });
    const id = await queue.enqueueTask(send, 1);
    const paused = next<[Error]>(carrier, "paused");
    await carrier.start();
    expect(String((await paused)[0])).toMatch(/WRONGTYPE/);
    const sent = sentBy(carrier, 1);
    await client.del(key);
    await sent;
    expect(await queue.awaitTaskCompletion(id)).toMatchObject({ status: "completed", retryCount: 0 });
  });
});

describe.skipIf(isMissing(restartableRedis()))("a drain into a Redis that fails", () => {
  async function withRedis(...settings: string[]) {
    const redis = await newRedis(...settings);
    onTestFinished(() => redis.kill());
    const mail = bullQueue({}, redis.url);
    await mail.waitUntilReady();
    return { redis, mail, ...(await setUp({ to: bullmq(mail), batch: 20 })) };
  }

  const idsIn = async (mail: BullQueue) =>
    (await mail.getJobs(["prioritized"], 0, -1)).map(({ id }) => id as string);

  const enqueue = async (queue: Queue, count: number) =>
    await queue.enqueueTasks(Array.from({ length: count }, (_, n) => [send, n] as const));

  test("a restart of Redis loses nothing that it had acknowledged, and charges no retries", async () => {
    const folder = temporaryFolder();
    const files = ["--appendonly", "yes", "--appendfsync", "always", "--dir", folder];
    const { redis, mail, queue, carrier } = await withRedis(...files);
    let acknowledged = 0;
    let restarts = 0;
    const restarting: Promise<void>[] = [];
    carrier.on("sent", (ids) => {
      acknowledged += ids.length;
      if (acknowledged < 200 * (restarts + 1) || restarts === 2) return;
      restarts += 1;
      restarting.push(redis.kill().then(() => redis.start()));
    });
    const ids = await enqueue(queue, 600);
    const sent = sentBy(carrier, 600);
    await carrier.start();
    const messages = await sent;
    await Promise.all(restarting);
    expect(restarts).toBe(2);
    expect(new Set(await idsIn(mail))).toEqual(new Set(messages));
    const tasks = await queue.listTasks({ limit: 1_000 });
    expect(tasks.length).toBe(ids.length);
    expect(tasks.every(({ status, retryCount }) => status === "completed" && retryCount === 0)).toBe(true);
  });

  test("while Redis is full, the drain waits; then everything arrives", async () => {
    const { redis, mail, queue, carrier } = await withRedis("--maxmemory-policy", "noeviction");
    const admin = connect(redis.url);
    await admin.config("SET", "maxmemory", "1mb");
    const paused = next<[Error]>(carrier, "paused");
    await enqueue(queue, 50);
    const sent = sentBy(carrier, 50);
    await carrier.start();
    expect(String((await paused)[0])).toMatch(/OOM/);
    expect((await queue.countTasks()).failed).toBe(0);
    await admin.config("SET", "maxmemory", "0");
    await sent;
    expect(await idsIn(mail)).toHaveLength(50);
  });

  test("a drain that starts while Redis is away pauses, keeps nothing from the table, and stops at once", async () => {
    const { redis, queue, carrier, errors } = await withRedis();
    await redis.kill();
    const [id] = await enqueue(queue, 1);
    const paused = next<[Error]>(carrier, "paused");
    await carrier.start();
    await paused;
    await carrier.stop();
    expect(await queue.getTask(id as number)).toMatchObject({ status: "pending", retryCount: 0 });
    expect(errors).toHaveLength(1);
  });
});
