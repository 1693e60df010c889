/**
 * A move may be broken off at any moment, as by `kill -9`: the next one goes on, and then all is there as it is in the old
 * database, nothing twice, and no moment had two databases that take tasks.
 */
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { describe, expect, test } from "vitest";
import { inSample } from "../../../scripts/sample.mjs";
import { moveQueue, openQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { internalsOf } from "../../../src/queue/internals.ts";
import type { TransferStore } from "../../../src/store.ts";
import { amount, isProof, proofOf } from "../../support/amount.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { lastIdOf, makeQueue, sameTasks } from "./moved-rows.ts";

const task = remoteTask<() => Promise<void>>("f");
const tasks = 40;
/** Pending, with a key; completed, with the key that the pending one after it holds. */
const holders = { first: 1, earlier: 13, later: 31 };

/** A database, and what removes it. */
type Home = { url: string; drop(): Promise<void> };

const file = async (): Promise<Home> => ({
  url: join(temporaryFolder(), "dbq.db"),
  drop: async () => undefined,
});

async function edit(queue: Queue, text: string): Promise<void> {
  const { store } = internalsOf(queue);
  await store.transaction((tx) => {
    const db = tx as Record<"run" | "execute", (query: unknown) => Promise<void>>;
    return store.synchronous ? void db.run(sql.raw(text)) : db.execute(sql.raw(text));
  });
}

async function withQueues<T>(
  urls: readonly [string, string],
  use: (old: Queue, next: Queue) => Promise<T>,
): Promise<T> {
  const [old, next] = [await openQueue(urls[0]), await openQueue(urls[1])];
  try {
    return await use(old, next);
  } finally {
    await old.close();
    await next.close();
  }
}

/** Makes the queue that is to be moved. */
async function fill(url: string): Promise<void> {
  const path = join(temporaryFolder(), "filled.db");
  await makeQueue(path, tasks);
  await withQueues([path, url], async (made, old) => {
    await moveQueue(made, old);
    await edit(old, `update dbq_tasks set unique_key = 'key 30' where id = ${holders.earlier}`);
  });
}

class Died extends Error {}

/** A process that dies at one of its calls to either database, before or after that has done what it was asked. */
class Fate {
  readonly #dieAt: number;
  readonly #afterwards: boolean;
  #calls = 0;

  constructor(dieAt: number, afterwards: boolean) {
    this.#dieAt = dieAt;
    this.#afterwards = afterwards;
  }

  get died(): boolean {
    return this.#calls >= this.#dieAt;
  }

  /** The dead do nothing: nor what they would do after an error. */
  async #call(act: () => Promise<unknown>): Promise<unknown> {
    this.#calls += 1;
    if (this.#calls === this.#dieAt && this.#afterwards) await act();
    if (this.died) throw new Died();
    return await act();
  }

  rules(queue: Queue): void {
    const { store } = internalsOf(queue);
    const moving = Object.entries(store.transfer).map(([name, method]) => [
      name,
      (...args: unknown[]) =>
        this.#call(() => (method as (...given: unknown[]) => Promise<unknown>)(...args)),
    ]);
    Object.assign(store, { transfer: Object.fromEntries(moving) as TransferStore });
  }
}

/** What may happen to the old database until somebody goes on. @returns whether it took it */
async function changed(queue: Queue): Promise<boolean> {
  try {
    // Keys go from one task to another, to a later one and to an earlier one.
    await queue.cancelTask(holders.first);
    await queue.enqueueTask(task.with({ uniqueKey: "key 0" }));
    await queue.cancelTask(holders.later);
    await queue.retryTask(holders.earlier);
    await queue.purgeTasks({ func: "func-3 é" });
    // By hand, and against the rules.
    await edit(queue, "update dbq_tasks set priority = 77 where id % 4 = 0");
    return true;
  } catch (error) {
    expect((error as Error).message).toContain("this queue moves to");
    return false;
  }
}

/** Whether the database takes a task; it is taken back. */
async function takesTasks(queue: Queue): Promise<boolean> {
  await queue.purgeTasks({ func: "probe" });
  const taken = await queue.enqueueTask(remoteTask("probe")).then(
    () => true,
    () => false,
  );
  await queue.purgeTasks({ func: "probe" });
  return taken;
}

/** @returns false when it came to its end before that call */
async function goesOn(urls: readonly [string, string], call: number, afterwards: boolean): Promise<boolean> {
  const fate = new Fate(call, afterwards);
  await withQueues(urls, async (old, next) => {
    for (const queue of [old, next]) fate.rules(queue);
    // That the old database could not be opened again is said of an error which the dead meet there.
    await moveQueue(old, next).catch((error: Error) =>
      expect(
        [error, error.cause].some((each) => each instanceof Died),
        String(error),
      ).toBe(true),
    );
  });
  if (!fate.died) return false;
  const place = `died ${afterwards ? "after" : "before"} call ${call}`;
  await withQueues(urls, async (old, next) => {
    const open = [await takesTasks(old), await takesTasks(next)];
    if (open[0] && open[1]) expect(await internalsOf(next).store.transfer.size("dbq_tasks"), place).toBe(0);
    expect(await changed(old), place).toBe(open[0]);
  });
  await withQueues(urls, async (old, next) => {
    const moved = await moveQueue(old, next);
    expect(await sameTasks(old, next), place).toBe(moved.tasks);
    expect(moved.tasks, place).toBeGreaterThan(tasks / 2);
    expect([await takesTasks(old), await takesTasks(next)], place).toEqual([false, true]);
    expect(await next.enqueueTask(task), place).toBeGreaterThan(lastIdOf(tasks));
  });
  return true;
}

/** On servers each run takes seconds: only `npm run proof` has them. */
const missing = isProof && [await postgresServer(), await mysqlServer()].map(isMissing).includes(true);
const onFiles = { name: "from SQLite to SQLite", homes: [file, file], left: false } as const;
const onServers = [
  { name: "from Postgres to MySQL", homes: [newSchema, newDatabase], left: missing },
  { name: "from MySQL to Postgres", homes: [newDatabase, newSchema], left: missing },
] as const;
const ways = [onFiles, ...proofOf(onServers, ({ name }) => name)];

/** From one call that is tried to the next: the proof tries each, or CI's sample of them. */
const step = isProof ? 1 : amount(16, 8, 8);

describe.each(ways)("$name", ({ name, homes, left }) => {
  test.skipIf(left).each([false, true])(
    "whichever call is its last (that one done: %s)",
    { timeout: 900_000 },
    async (done) => {
      let call = done ? 1 : Math.ceil(step / 2);
      for (let died = true; died; call += step) {
        if (isProof && !inSample(`${name}, ${done}, ${call}`)) continue;
        const [old, next] = [await homes[0](), await homes[1]()];
        await fill(old.url);
        died = await goesOn([old.url, next.url], call, done);
        for (const { drop } of [old, next]) await drop();
      }
      expect(call).toBeGreaterThan(30);
    },
  );
});
