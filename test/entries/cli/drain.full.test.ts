/** `dbq drain`, with a real Redis: into BullMQ and into a stream; which drain takes over, and what wrong targets say. */
import { renameSync } from "node:fs";
import { join } from "node:path";
import { Queue as BullQueue } from "bullmq";
import { Redis } from "ioredis";
import { describe, expect, onTestFinished, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { newRedis, restartableRedis } from "../../support/redis.ts";
import { isMissing } from "../../support/server.ts";
import { folderWithQueue, isEvent, startDbq } from "./dbq.ts";
import { dbq } from "./in-process.ts";

const send = remoteTask("send", { queueName: "mail" });

test.each([["redis://127.0.0.1/mail"], ["bullmq:redis://127.0.0.1:6379/"], ["stream:http://127.0.0.1/mail"]])(
  "%s is refused with the form of a target",
  async (to) => {
    const { folder } = await folderWithQueue();
    const { code, err } = await dbq(folder, ["drain", "--queue", "mail", "--to", to]);
    expect(code).toBe(2);
    expect(err).toContain(
      `expected bullmq:redis://host:port/queue or stream:redis://host:port/key, got "${to}"`,
    );
  },
);

test.each([
  ["stream:redis://127.0.0.1/mail?prefix=app", "stream: there is no parameter ?prefix=; there is ?db="],
  ["bullmq:redis://127.0.0.1/mail?bd=1", "bullmq: there is no parameter ?bd=; there is ?db= and ?prefix="],
  [
    "bullmq:redis://127.0.0.1/mail?db=one",
    'bullmq: ?db=: expected the number of a database of Redis, got "one"',
  ],
  ["bullmq:redis://127.0.0.1/a:b", 'bullmq: the queue "a:b" cannot be opened: Queue name cannot contain :'],
])("%s is refused with one line", async (to, message) => {
  const { folder } = await folderWithQueue();
  const { code, err } = await dbq(folder, ["drain", "--queue", "mail", "--to", to]);
  expect([code, err]).toEqual([2, `error: ${message}\n`]);
});

test("a list of queues is refused: one drain carries one queue", async () => {
  const { folder } = await folderWithQueue();
  const args = ["drain", "--queue", "mail,sms", "--to", "stream:redis://127.0.0.1/mail"];
  const { code, err } = await dbq(folder, args);
  expect(code).toBe(2);
  expect(err).toContain("'mail,sms' is invalid. Expected one name without a comma");
});

describe.skipIf(isMissing(restartableRedis()))("dbq drain", () => {
  async function setUp() {
    const redis = await newRedis();
    onTestFinished(() => redis.kill());
    const connection = new Redis(redis.url, { maxRetriesPerRequest: null });
    connection.on("error", () => undefined);
    onTestFinished(() => connection.disconnect());
    return { redis, connection, ...(await folderWithQueue()) };
  }

  test("it carries a queue into BullMQ; after a SIGKILL another one takes over within a second", async () => {
    const { redis, connection, folder, queue } = await setUp();
    const to = `bullmq:${redis.url}/letters?prefix=app`;
    const args = ["drain", "--queue", "mail", "--to", to, "--json"];
    const first = startDbq(folder, args);
    await first.out(isEvent("active"));
    const second = startDbq(folder, args);
    await second.out(isEvent("standby"));
    await queue.awaitTaskCompletion(await queue.enqueueTask(send, 1), { timeout: "20s" });
    const killed = Date.now();
    first.child.kill("SIGKILL");
    const taken = JSON.parse(await second.out(isEvent("active"))) as { time: string };
    expect(Date.parse(taken.time) - killed).toBeLessThan(1_000);
    await queue.awaitTaskCompletion(await queue.enqueueTask(send, 2), { timeout: "20s" });
    second.child.kill("SIGTERM");
    expect((await second.ended).code).toBe(0);
    const letters = new BullQueue("letters", { connection, prefix: "app" });
    onTestFinished(() => letters.close());
    expect(await letters.getJobCountByTypes("prioritized")).toBe(2);
    expect(await queue.listWorkers()).toEqual([]);
  });

  test("a drain whose database file is moved ends, and says why", async () => {
    const { redis, folder } = await setUp();
    const carrier = startDbq(folder, [
      "drain",
      "--queue",
      "mail",
      "--to",
      `stream:${redis.url}/letters`,
      "--json",
    ]);
    await carrier.out(isEvent("active"));
    renameSync(join(folder, "dbq.db"), join(folder, "moved.db"));
    const { code, err } = await carrier.ended;
    expect(code).toBe(1);
    expect(err).toContain("deleted, renamed or replaced");
  });

  test("it carries a queue into a stream of another database of Redis, and prints lines for people", async () => {
    const { redis, connection, folder, queue } = await setUp();
    const to = `stream:${redis.url.replace("//", "//:secret@")}/letters?db=3`;
    await connection.config("SET", "requirepass", "secret");
    const carrier = startDbq(folder, ["drain", "--queue", "mail", "--to", to, "--keep", "0"]);
    const id = await queue.enqueueTask(send, 1);
    await carrier.out((line) => / sent +messages 1, queue mail$/.test(line));
    carrier.child.kill("SIGINT");
    const { code, out, err } = await carrier.ended;
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(/ ready +database .*dbq\.db, queue mail, target redis:letters\n/);
    expect(out).not.toContain("secret");
    expect(await queue.getTask(id)).toBeUndefined();
    await connection.select(3);
    expect(await connection.xlen("letters")).toBe(1);
  });

  test.each(["bullmq", "stream"])(
    "%s: it sends nothing to a database that Redis does not have",
    async (kind) => {
      const { redis, connection, folder, queue } = await setUp();
      await queue.enqueueTask(send, 1);
      const to = `${kind}:${redis.url}/letters?db=999`;
      const carrier = startDbq(folder, ["drain", "--queue", "mail", "--to", to]);
      await carrier.err((line) => line.includes("Redis does not have the database that ?db= names"));
      await carrier.out((line) => line.includes(" paused "));
      carrier.child.kill("SIGTERM");
      expect((await carrier.ended).code).toBe(0);
      expect(await connection.xlen("letters")).toBe(0);
      expect(await connection.zcard("bull:letters:prioritized")).toBe(0);
      expect((await queue.countTasks()).pending).toBe(1);
    },
  );

  test("a wrong password is reported before there is anything to send", async () => {
    const { redis, folder } = await setUp();
    const to = `stream:${redis.url.replace("//", "//ada:wrong@")}/letters`;
    const carrier = startDbq(folder, ["drain", "--queue", "mail", "--to", to]);
    await carrier.err((line) => /connecting to Redis at 127\.0\.0\.1:\d+: .*WRONGPASS/.test(line));
    carrier.child.kill("SIGTERM");
    const { out, err } = await carrier.ended;
    expect(`${out}${err}`).not.toContain("wrong@");
  });

  test.each([
    ["is unreachable", (url: string) => url],
    ["refuses the password", (url: string) => url.replace("//", "//:wrong@")],
    ["does not have the database", (url: string) => `${url}?db=999`],
  ])("it waits, and is not ready, while Redis %s", async (why, urlOf) => {
    const { redis, connection, folder } = await setUp();
    await connection.config("SET", "requirepass", "secret");
    if (why === "is unreachable") await redis.kill();
    const [server, query = ""] = urlOf(redis.url).split("?");
    const url = why === "does not have the database" ? server?.replace("//", "//:secret@") : server;
    const to = `stream:${url}/letters?${query}`;
    const carrier = startDbq(folder, ["drain", "--queue", "mail", "--to", to, "--json"]);
    expect(JSON.parse(await carrier.out(isEvent("waiting")))).toMatchObject({
      queue: "mail",
      target: "redis:letters",
    });
    if (why === "is unreachable") {
      await redis.start();
      await carrier.out(isEvent("ready"));
    }
    if (why === "refuses the password") {
      await connection.config("SET", "requirepass", "wrong");
      await carrier.out(isEvent("ready"));
    }
    carrier.child.kill("SIGTERM");
    const { code, out } = await carrier.ended;
    expect(code).toBe(0);
    const events = out.split("\n").flatMap((line) => (line === "" ? [] : (JSON.parse(line).event as string)));
    const shown = events.filter((event) => event !== "paused" && event !== "resumed");
    const ready = why === "does not have the database" ? [] : ["active", "ready"];
    expect(shown).toEqual(["waiting", ...ready, "stopped"]);
  });

  test("it says that Redis is away, once for each outage, and stops at once", async () => {
    const { redis, folder, queue } = await setUp();
    await redis.kill();
    await queue.enqueueTask(send, 1);
    const to = `bullmq:${redis.url}/letters`;
    const carrier = startDbq(folder, ["drain", "--queue", "mail", "--to", to]);
    await carrier.err((line) => /connecting to Redis at 127\.0\.0\.1:\d+: Error: .*ECONNREFUSED/.test(line));
    await carrier.err((line) => /sending to bullmq:letters: BrokerUnavailableError.*ECONNREFUSED/.test(line));
    await carrier.out((line) => / paused +queue mail, delay \d+ ms$/.test(line));
    carrier.child.kill("SIGTERM");
    expect((await carrier.ended).code).toBe(0);
    expect((await queue.countTasks()).pending).toBe(1);
  });
});
