/**
 * A run of a move stalls, and another run takes the move over. When the first run continues, it neither unfreezes what the
 * other run has frozen, nor freezes what the other run has unfrozen.
 */
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import type { TransferState, TransferStore } from "../../../src/features/transfer/contract.ts";
import { type MoveProgress, moveQueue, type Queue, remoteTask } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { deferred, temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const task = remoteTask<() => Promise<void>>("f");
const noPostgres = isMissing(await postgresServer());
const noMysql = isMissing(await mysqlServer());

const transferOf = (queue: Queue): TransferStore => internalsOf(queue).store.transfer;
const messageOf = (error: Error): string => error.message;

/** Makes the calls of one method wait for `goOn`. */
function stalled(queue: Queue, method: "freeze" | "unfreeze") {
  const transfer = transferOf(queue);
  const [reached, goOn] = [deferred(), deferred()];
  const act = transfer[method];
  transfer[method] = async (run) => {
    reached.resolve();
    await goOn.promise;
    return await act(run);
  };
  return { reached: reached.promise, goOn: goOn.resolve };
}

/** Options of a move that is aborted when the old database is frozen and everything is copied. */
function abortedAtTheEnd(reason: string) {
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
  /** Three queues on one database: those of two processes that run the same command, and that of an app. */
  async function three(): Promise<[Queue, Queue, Queue]> {
    const url = await place();
    return [await temporaryQueue({}, url), await temporaryQueue({}, url), await temporaryQueue({}, url)];
  }

  test.skipIf(missing)("an aborted run does not unfreeze a database that another run has moved", async () => {
    const [old, oldAgain, app] = await three();
    const path = join(temporaryFolder(), "new.db");
    const [next, nextAgain] = [await temporaryQueue({}, path), await temporaryQueue({}, path)];
    await app.enqueueTask(task);
    const { reached, goOn } = stalled(old, "unfreeze");
    const stopped = moveQueue(old, next, abortedAtTheEnd("enough")).catch(messageOf);
    await reached;
    expect(await moveQueue(oldAgain, nextAgain)).toMatchObject({ tasks: 1 });
    goOn();
    expect(await stopped).toBe("enough");
    await expect(app.enqueueTask(task)).rejects.toThrow("this queue moves to");
  });

  test.skipIf(missing)("a failed run does not unfreeze a database that another run fills", async () => {
    const [first, second] = [await temporaryQueue(), await temporaryQueue()];
    const [next, nextAgain, app] = await three();
    await second.enqueueTask(task);
    const { reached, goOn } = stalled(next, "unfreeze");
    const { freeze } = transferOf(next);
    transferOf(next).freeze = async (run) => {
      await freeze(run);
      throw new Error("no permission");
    };
    const failed = moveQueue(first, next).catch(messageOf);
    await reached;
    let early: Promise<unknown> | undefined;
    const { removeKeyedTasks } = transferOf(nextAgain);
    transferOf(nextAgain).removeKeyedTasks = async (run) => {
      goOn();
      await failed;
      early = app.enqueueTask(task).catch(messageOf);
      await early;
      return await removeKeyedTasks(run);
    };
    expect(await moveQueue(second, nextAgain)).toMatchObject({ tasks: 1 });
    expect(await failed).toBe("no permission");
    expect(await early).toContain('run "dbq move" until it has completed');
  });

  test.skipIf(missing)("a late run does not freeze a database that another move has completed", async () => {
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
  });
});

describe.skipIf(noMysql)("freezing on MySQL, where DDL ends the transaction that read the state", () => {
  const state = (changes: Partial<TransferState>): TransferState => ({
    ...{ moveId: "m", run: "r1", phase: "closing", other: "elsewhere", refusal: "this queue moves" },
    ...changes,
  });

  /** Two runs, and a transaction that delays the statements which create or drop triggers. */
  async function arranged() {
    const { url, client, drop } = await newDatabase();
    onTestFinished(drop);
    const [queue, another] = [await temporaryQueue({}, url), await temporaryQueue({}, url)];
    const [one, two] = [transferOf(queue), transferOf(another)];
    await one.setState(state({}), undefined);
    const text =
      "select count(*) as n from information_schema.processlist where db = database() and state like 'Waiting for table metadata lock%'";
    const waiting = async () => ((await client.query(text))[0] as { n: number }[])[0]?.n;
    const waitFor = (much: number) =>
      vi.waitUntil(async () => (await waiting()) === much, { timeout: 4_000, interval: 20 });
    return {
      ...{ queue, one, two, client, waitFor },
      /** Resolves when as many statements wait as `begin` has started. */
      hold: async (begin: () => Promise<unknown>[]) => {
        await client.query("begin; select count(*) from dbq_tasks");
        const begun = begin();
        await waitFor(begun.length);
        return { begun, goOn: async () => void (await client.query("commit")) };
      },
    };
  }

  test("a freeze that takes effect after the next move has completed refuses no write", async () => {
    const { queue, one, two, hold } = await arranged();
    const { begun, goOn } = await hold(() => [one.freeze("r1")]);
    await two.setState(state({ run: "r2", phase: "filled" }), state({}));
    await goOn();
    await Promise.all(begun);
    await queue.enqueueTask(task);
  });

  test("an unfreeze leaves the triggers of the next run in place", async () => {
    const { queue, one, two, hold, waitFor } = await arranged();
    await one.freeze("r1");
    const { begun, goOn } = await hold(() => [one.unfreeze("r1")]);
    await two.setState(state({ run: "r2" }), state({}));
    const freezing = two.freeze("r2");
    // The second run creates its own triggers, and waits for that: those of the first run do not count.
    await Promise.race([freezing, waitFor(2)]);
    await goOn();
    await Promise.all([...begun, freezing]);
    await expect(queue.enqueueTask(task)).rejects.toThrow("this queue moves");
  });

  test("a transaction that began before the freeze is refused, too", async () => {
    const { one, client } = await arranged();
    await one.setState(state({ phase: "copying" }), state({}));
    await client.query("set session transaction isolation level repeatable read");
    await client.query("start transaction with consistent snapshot");
    await one.advance("r1", "copying", "closing");
    await one.freeze("r1");
    await expect(client.query("insert into dbq_tasks (func) values ('f')")).rejects.toThrow(
      "this queue moves",
    );
    await client.query("rollback");
  });
});
