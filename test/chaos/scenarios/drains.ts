/**
 * Invariant: whichever drain is killed at whichever moment, and however often Redis is, each committed task arrives in Redis
 * at least once under its one id, none that was rolled back does, and no retry is charged.
 */
import { deepStrictEqual, equal } from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue as BullQueue } from "bullmq";
import { Redis } from "ioredis";
import { internalsOf } from "../../../src/features/queue.ts";
import { type Queue, remoteTask } from "../../../src/index.ts";
import type { Child, Harness } from "../../fixtures/harness.ts";
import { newRedis, type OwnRedis, restartableRedis } from "../../support/redis.ts";
import { type Figure, type Scenario, spread } from "../scenario.ts";

/** Milliseconds between two kills, on average. */
const pause = 1_000;
/** Drains at a time: one carries, the others stand by. */
const drains = 3;
/** Milliseconds after which a drain that has started has seen the others. */
const standby = 500;
/** Of this many kills, one is Redis'. */
const perRestart = 20;

const send = remoteTask("send", { queueName: "mail", maxRetries: 0 });

export const drainKills: Scenario = {
  name: "drains",
  about: "Drains and their Redis are killed at random moments: what was committed arrives, and nothing else.",
  unit: "kills",
  amounts: { test: 6, sample: 20, chaos: 100 },
  unable: () => restartableRedis().reason,
  async run({ harness, random, amount, progress }) {
    const folder = join(harness.folder, "redis");
    mkdirSync(folder);
    const redis = await newRedis("--appendonly", "yes", "--appendfsync", "always", "--dir", folder);
    const load = new DrainLoad(harness, redis);
    try {
      return await load.run(amount, random, progress);
    } finally {
      await load.end();
    }
  },
};

class DrainLoad {
  readonly #harness: Harness;
  readonly #redis: OwnRedis;
  readonly #children: Child[] = [];
  readonly #committed: number[] = [];
  readonly #takeovers: number[] = [];
  #restarts = 0;
  #enqueueing = true;

  constructor(harness: Harness, redis: OwnRedis) {
    this.#harness = harness;
    this.#redis = redis;
  }

  async run(amount: number, random: () => number, progress: (done: number) => void): Promise<Figure[]> {
    for (let i = 0; i < drains; i += 1) this.#start();
    const enqueueing = this.#enqueue(this.#harness.queue);
    await this.#harness.eventLog.until("active", () => true);
    for (let done = 1; done <= amount; done += 1) {
      await sleep(2 * pause * random());
      if (done % perRestart === perRestart / 2) await this.#restartRedis();
      await this.#killOne(random);
      progress(done);
    }
    this.#enqueueing = false;
    await enqueueing;
    return await this.#judge(amount);
  }

  async end(): Promise<void> {
    this.#enqueueing = false;
    await Promise.all(this.#children.map((child) => child.kill()));
    await this.#redis.kill();
  }

  #start(): void {
    this.#children.push(this.#harness.start("drainer.ts", [this.#redis.url]));
  }

  /** Mostly the one that carries, as far as the log tells. */
  async #killOne(random: () => number): Promise<void> {
    const active = this.#harness.eventLog.entries("active").at(-1)?.pid;
    const carries = this.#children.findIndex(({ pid }) => pid === active);
    const at = random() < 0.7 && carries >= 0 ? carries : Math.floor(random() * this.#children.length);
    const [victim] = this.#children.splice(at, 1);
    const killedAt = (await victim?.kill()) ?? Date.now();
    const standsBy = this.#standsBySince(killedAt - standby);
    this.#start();
    if (victim?.pid !== active) return;
    const next = await this.#harness.eventLog.until("active", ({ at: when }) => when >= killedAt);
    if (standsBy) this.#takeovers.push(next.at - killedAt);
  }

  /** Whether one of the others was ready at that time: without one, nobody can take over. */
  #standsBySince(time: number): boolean {
    const pids = new Set(this.#children.map(({ pid }) => pid));
    return this.#harness.eventLog.entries("ready").some(({ pid, at }) => pids.has(pid) && at < time);
  }

  async #restartRedis(): Promise<void> {
    await this.#redis.kill();
    await this.#redis.start();
    this.#restarts += 1;
  }

  /** Single tasks, batches, transactions that commit, and transactions that do not. */
  async #enqueue(queue: Queue): Promise<void> {
    const grouped = (fail: boolean) =>
      queue.transaction((_tx, q) => {
        const ids = q.enqueueTasks([
          [send, "in a transaction"],
          [send, "in a transaction"],
        ]) as unknown as number[] | Promise<number[]>;
        const end = (written: number[]) => {
          if (fail) throw new RangeError("as planned");
          return written;
        };
        return ids instanceof Promise ? ids.then(end) : end(ids);
      });
    while (this.#enqueueing) {
      this.#committed.push(await queue.enqueueTask(send, "single"));
      this.#committed.push(...(await queue.enqueueTasks([1, 2, 3, 4].map((n) => [send, n] as const))));
      this.#committed.push(...((await grouped(false)) as number[]));
      await grouped(true).catch((error: unknown) => {
        if (!(error instanceof RangeError)) throw error;
      });
      await sleep(20);
    }
  }

  async #judge(kills: number): Promise<Figure[]> {
    const { queue } = this.#harness;
    const left = async () => {
      const { pending, running, scheduled } = await queue.countTasks({ queueName: "mail" });
      return pending + running + scheduled;
    };
    for (const end = Date.now() + 60_000; (await left()) > 0 && Date.now() < end; ) await sleep(100);
    const counts = await queue.countTasks({ queueName: "mail" });
    equal(counts.completed, this.#committed.length, "every committed task is completed, and no other");
    equal(counts.failed, 0, "no task failed: no retry was charged");
    const origin = await internalsOf(queue).store.drains.origin();
    const expected = this.#committed.map((id) => `dbq-${origin}-${id}`).sort();
    deepStrictEqual((await this.#arrived()).sort(), expected, "what arrived is what was committed");
    return [
      { name: "kills", value: kills },
      { name: "restarts of Redis", value: this.#restarts },
      { name: "tasks", value: expected.length },
      ...spread("from kill to the next turn", this.#takeovers, { p50: 1_000 }),
    ];
  }

  async #arrived(): Promise<string[]> {
    const connection = new Redis(this.#redis.url, { maxRetriesPerRequest: null });
    const mail = new BullQueue("mail", { connection });
    try {
      return (await mail.getJobs(["prioritized", "waiting"], 0, -1)).map(({ id }) => id as string);
    } finally {
      await mail.close();
      connection.disconnect();
    }
  }
}
