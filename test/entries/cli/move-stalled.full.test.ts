/**
 * A move that stood still, whose place another one has taken: what it does afterwards neither opens what that one has
 * closed, nor closes what that one has opened.
 */
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type MoveProgress, moveQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { internalsOf } from "../../../src/queue/internals.ts";
import type { TransferState, TransferStore } from "../../../src/store.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { deferred, temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const task = remoteTask<() => Promise<void>>("f");
const noPostgres = isMissing(await postgresServer());
const noMysql = isMissing(await mysqlServer());

const movingOf = (queue: Queue): TransferStore => internalsOf(queue).store.transfer;
const messageOf = (error: Error): string => error.message;

/** Its calls of this method stand still until they are told to go on. */
function stalled(queue: Queue, method: "freeze" | "unfreeze") {
  const moving = movingOf(queue);
  const [reached, goOn] = [deferred(), deferred()];
  const act = moving[method];
  moving[method] = async (run) => {
    reached.resolve();
    await goOn.promise;
    return await act(run);
  };
  return { reached: reached.promise, goOn: goOn.resolve };
}

/** Gives up when the old database is sealed, and all is carried over. */
function stopsAtTheEnd(reason: string) {
  const aborter = new AbortController();
  const onProgress = ({ state }: MoveProgress) => {
    if (state === "closing") aborter.abort(new Error(reason));
  };
  return { signal: aborter.signal, onProgress };
}

const kinds = [
  { name: "SQLite", missing: false, place: async () => join(temporaryFolder(), "dbq.db") },
  { name: "Postgres", missing: noPostgres, place: () => serverPlace(newSchema) },
  { name: "MySQL", missing: noMysql, place: () => serverPlace(newDatabase) },
];

async function serverPlace(make: () => Promise<{ url: string; drop(): Promise<void> }>): Promise<string> {
  const { url, drop } = await make();
  onTestFinished(drop);
  return url;
}

describe.each(kinds)("a move on $name", ({ missing, place }) => {
  /** Two queues on one database, as of two processes that run the same command, and one of an app. */
  async function three(): Promise<[Queue, Queue, Queue]> {
    const url = await place();
    return [await temporaryQueue({}, url), await temporaryQueue({}, url), await temporaryQueue({}, url)];
  }

  test.skipIf(missing)("who was stopped opens no database that has been moved meanwhile", async () => {
    const [old, oldAgain, app] = await three();
    const path = join(temporaryFolder(), "new.db");
    const [next, nextAgain] = [await temporaryQueue({}, path), await temporaryQueue({}, path)];
    await app.enqueueTask(task);
    const { reached, goOn } = stalled(old, "unfreeze");
    const stopped = moveQueue(old, next, stopsAtTheEnd("enough")).catch(messageOf);
    await reached;
    expect(await moveQueue(oldAgain, nextAgain)).toMatchObject({ tasks: 1 });
    goOn();
    expect(await stopped).toBe("enough");
    await expect(app.enqueueTask(task)).rejects.toThrow("this queue moves to");
  });

  test.skipIf(missing)("who was refused opens no database that another one fills", async () => {
    const [first, second] = [await temporaryQueue(), await temporaryQueue()];
    const [next, nextAgain, app] = await three();
    await second.enqueueTask(task);
    const { reached, goOn } = stalled(next, "unfreeze");
    const { freeze } = movingOf(next);
    movingOf(next).freeze = async (run) => {
      await freeze(run);
      throw new Error("no permission");
    };
    const failed = moveQueue(first, next).catch(messageOf);
    await reached;
    let early: Promise<unknown> | undefined;
    const { removeKeyedTasks } = movingOf(nextAgain);
    movingOf(nextAgain).removeKeyedTasks = async (run) => {
      goOn();
      await failed;
      early = app.enqueueTask(task).catch(messageOf);
      await early;
      return await removeKeyedTasks(run);
    };
    expect(await moveQueue(second, nextAgain)).toMatchObject({ tasks: 1 });
    expect(await failed).toBe("no permission");
    expect(await early).toContain('run "dbq move" to its end');
  });

  test.skipIf(missing)(
    "who comes too late to seal a new database does not close it to its apps",
    async () => {
      const [first, second] = [await temporaryQueue(), await temporaryQueue()];
      const [next, nextAgain, app] = await three();
      await second.enqueueTask(task);
      const { reached, goOn } = stalled(next, "freeze");
      const late = moveQueue(first, next).catch(messageOf);
      await reached;
      expect(await moveQueue(second, nextAgain)).toMatchObject({ tasks: 1 });
      goOn();
      expect(await late).toContain("another process");
      expect(await app.enqueueTask(task)).toBeGreaterThan(0);
    },
  );
});

describe.skipIf(noMysql)(
  "a move on MySQL, where DDL ends the transaction in which the mark was looked at",
  () => {
    const mark = (changes: Partial<TransferState>): TransferState => ({
      ...{ moveId: "m", run: "r1", phase: "closing", other: "elsewhere", refusal: "this queue moves" },
      ...changes,
    });

    /** Two runs, and a transaction that holds up whoever makes or drops triggers. */
    async function arranged() {
      const { url, client, drop } = await newDatabase();
      onTestFinished(drop);
      const [queue, another] = [await temporaryQueue({}, url), await temporaryQueue({}, url)];
      const [one, two] = [movingOf(queue), movingOf(another)];
      await one.setState(mark({}), undefined);
      const text =
        "select count(*) as n from information_schema.processlist where db = database() and state like 'Waiting for table metadata lock%'";
      const waiting = async () => ((await client.query(text))[0] as { n: number }[])[0]?.n;
      const waitFor = (much: number) =>
        vi.waitUntil(async () => (await waiting()) === much, { timeout: 4_000, interval: 20 });
      return {
        ...{ queue, one, two, client, waitFor },
        /** While so many statements wait. */
        hold: async (begin: () => Promise<unknown>[]) => {
          await client.query("begin; select count(*) from dbq_tasks");
          const begun = begin();
          await waitFor(begun.length);
          return { begun, goOn: async () => void (await client.query("commit")) };
        },
      };
    }

    test("a seal that comes when the next move has ended refuses nobody", async () => {
      const { queue, one, two, hold } = await arranged();
      const { begun, goOn } = await hold(() => [one.freeze("r1")]);
      await two.setState(mark({ run: "r2", phase: "filled" }), mark({}));
      await goOn();
      await Promise.all(begun);
      await queue.enqueueTask(task);
    });

    test("what takes a seal off leaves that of the next run", async () => {
      const { queue, one, two, hold, waitFor } = await arranged();
      await one.freeze("r1");
      const { begun, goOn } = await hold(() => [one.unfreeze("r1")]);
      await two.setState(mark({ run: "r2" }), mark({}));
      const sealing = two.freeze("r2");
      // It makes triggers of its own, and waits for that, not content with those that are there.
      await Promise.race([sealing, waitFor(2)]);
      await goOn();
      await Promise.all([...begun, sealing]);
      await expect(queue.enqueueTask(task)).rejects.toThrow("this queue moves");
    });

    test("a transaction that began before is refused like any other", async () => {
      const { one, client } = await arranged();
      await one.setState(mark({ phase: "copying" }), mark({}));
      await client.query("set session transaction isolation level repeatable read");
      await client.query("start transaction with consistent snapshot");
      await one.advance("r1", "copying", "closing");
      await one.freeze("r1");
      await expect(client.query("insert into dbq_tasks (func) values ('f')")).rejects.toThrow(
        "this queue moves",
      );
      await client.query("rollback");
    });
  },
);
