/**
 * A move may die at any moment, as by `kill -9`. The next one continues it: then the new database has every row of the old
 * one, once, and at no moment did both databases take tasks.
 */
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import type { TransferStore } from "../../../src/features/transfer/contract.ts";
import { moveQueue, openQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { amount, isProof, proofOf } from "../../support/amount.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { lastIdOf, makeQueue, sameTasks } from "./moved-rows.ts";

const task = remoteTask<() => Promise<void>>("f");
const tasks = 40;
/** Ids of tasks: pending, with a key; completed, with the key of the next one; pending, with a key. */
const holders = { first: 1, earlier: 13, later: 31 };

/** A database, and how to remove it. */
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

/** Fills the database that the test moves. */
async function fill(url: string): Promise<void> {
  const path = join(temporaryFolder(), "filled.db");
  await makeQueue(path, tasks);
  await withQueues([path, url], async (made, old) => {
    await moveQueue(made, old);
    await edit(old, `update dbq_tasks set unique_key = 'key 30' where id = ${holders.earlier}`);
  });
}

class Died extends Error {}

/** A process that dies at one of its calls to the two databases, before or after the call has taken effect. */
class DyingProcess {
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

  /** After its death the process calls nothing, not even what its error handlers would. */
  async #call(act: () => Promise<unknown>): Promise<unknown> {
    this.#calls += 1;
    if (this.#calls === this.#dieAt && this.#afterwards) await act();
    if (this.died) throw new Died();
    return await act();
  }

  control(queue: Queue): void {
    const { store } = internalsOf(queue);
    const moving = Object.entries(store.transfer).map(([name, method]) => [
      name,
      (...args: unknown[]) =>
        this.#call(() => (method as (...given: unknown[]) => Promise<unknown>)(...args)),
    ]);
    Object.assign(store, { transfer: Object.fromEntries(moving) as TransferStore });
  }
}

/** Changes the old database as apps may before the next move. @returns whether it took the changes */
async function changeTasks(queue: Queue): Promise<boolean> {
  try {
    // Keys move to a later task and to an earlier one.
    await queue.cancelTask(holders.first);
    await queue.enqueueTask(task.with({ uniqueKey: "key 0" }));
    await queue.cancelTask(holders.later);
    await queue.retryTask(holders.earlier);
    await queue.purgeTasks({ func: "func-3 é" });
    // By plain SQL, without a new generation.
    await edit(queue, "update dbq_tasks set priority = 77 where id % 4 = 0");
    return true;
  } catch (error) {
    expect((error as Error).message).toContain("this queue moves to");
    return false;
  }
}

/** Whether the database takes a task. Deletes it again. */
async function takesTasks(queue: Queue): Promise<boolean> {
  await queue.purgeTasks({ func: "probe" });
  const taken = await queue.enqueueTask(remoteTask("probe")).then(
    () => true,
    () => false,
  );
  await queue.purgeTasks({ func: "probe" });
  return taken;
}

/** Kills a move at a call, then checks that the next move completes it. @returns false when the move has fewer calls */
async function dieAndContinue(
  urls: readonly [string, string],
  call: number,
  afterwards: boolean,
): Promise<boolean> {
  const dying = new DyingProcess(call, afterwards);
  await withQueues(urls, async (old, next) => {
    for (const queue of [old, next]) dying.control(queue);
    // The move may report that it could not unfreeze the old database: the cause is then the death.
    await moveQueue(old, next).catch((error: Error) =>
      expect(
        [error, error.cause].some((each) => each instanceof Died),
        String(error),
      ).toBe(true),
    );
  });
  if (!dying.died) return false;
  const place = `died ${afterwards ? "after" : "before"} call ${call}`;
  await withQueues(urls, async (old, next) => {
    const open = [await takesTasks(old), await takesTasks(next)];
    if (open[0] && open[1]) expect(await internalsOf(next).store.transfer.size("dbq_tasks"), place).toBe(0);
    expect(await changeTasks(old), place).toBe(open[0]);
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

/** On servers each run takes seconds: only `npm run proof` tries them. */
const missing = isProof && [await postgresServer(), await mysqlServer()].map(isMissing).includes(true);
const onFiles = { name: "from SQLite to SQLite", homes: [file, file], left: false } as const;
const onServers = [
  { name: "from Postgres to MySQL", homes: [newSchema, newDatabase], left: missing },
  { name: "from MySQL to Postgres", homes: [newDatabase, newSchema], left: missing },
] as const;
const ways = [onFiles, ...proofOf(onServers)];

/** Every so many calls are tried. The proof tries each. */
const step = isProof ? 1 : amount(16, 8, 8);

describe.each(ways)("$name", ({ homes, left }) => {
  test.skipIf(left).each([false, true])(
    "a move that dies at any of its calls is continued by the next one (call done: %s)",
    { timeout: 900_000 },
    async (done) => {
      let call = done ? 1 : Math.ceil(step / 2);
      for (let died = true; died; call += step) {
        const [old, next] = [await homes[0](), await homes[1]()];
        await fill(old.url);
        died = await dieAndContinue([old.url, next.url], call, done);
        for (const { drop } of [old, next]) await drop();
      }
      expect(call).toBeGreaterThan(30);
    },
  );
});
