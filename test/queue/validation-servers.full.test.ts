/** Inside of a transaction on a server, a schema may be asynchronous. */
import { describe, expect, onTestFinished, test } from "vitest";
import { InvalidArgumentsError, task } from "../../src/index.ts";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { temporaryQueue, uniqueName } from "../support/queue.ts";
import { badAmount, type Charge, lateCharge } from "../support/schemas.ts";
import { isMissing } from "../support/server.ts";

const noServer = [await postgresServer(), await mysqlServer()].map(isMissing);

async function place(made: Promise<{ url: string; drop(): Promise<unknown> }>): Promise<string> {
  const { url, drop } = await made;
  onTestFinished(async () => void (await drop()));
  return url;
}

const databases = [
  { name: "Postgres", url: () => place(newSchema()), missing: noServer[0] ?? true },
  { name: "MySQL", url: () => place(newDatabase()), missing: noServer[1] ?? true },
];

describe.each(databases)("on $name", ({ url, missing }) => {
  test.skipIf(missing)("a transaction waits for an asynchronous schema, and writes all or none", async () => {
    const queue = await temporaryQueue({}, await url());
    const fn = task(uniqueName(), (given: Charge) => given.amount, { input: lateCharge, delay: "1h" });
    const refused = queue.transaction(async (_tx: unknown, q) => {
      await q.enqueueTask(fn, { amount: 1 });
      await q.enqueueTasks([
        [fn, { amount: 2 }],
        [fn, badAmount],
      ]);
    });
    await expect(refused).rejects.toBeInstanceOf(InvalidArgumentsError);
    expect(await queue.listTasks()).toEqual([]);
    await queue.transaction(async (_tx: unknown, q) => {
      await expect(q.schedule("nightly", { every: "1d" }, fn, badAmount)).rejects.toThrow(
        InvalidArgumentsError,
      );
      await q.schedule("nightly", { every: "1d" }, fn, { amount: 3 });
      await q.enqueueTask(fn, { amount: 1 });
    });
    expect((await queue.listTasks()).map(({ args }) => args)).toEqual([[{ amount: 1 }]]);
    const id = (await queue.listTasks())[0]?.id as number;
    await expect(queue.updateTask(id, { args: [badAmount] })).rejects.toBeInstanceOf(InvalidArgumentsError);
    expect((await queue.updateTask(id, { args: [{ amount: 4 }] })).args).toEqual([{ amount: 4 }]);
  });
});
