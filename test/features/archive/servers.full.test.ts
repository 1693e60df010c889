/** Archives between databases of each kind. */
import { describe, expect, test } from "vitest";
import { importTasks, openQueue, remoteTask } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryQueue, urlForTest } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { asImported, copied, importTakenSlot, linesOf, queueWithTasks } from "./archived.ts";

const noServer = [await postgresServer(), await mysqlServer()].map(isMissing);

describe.skipIf(noServer.includes(true))("from SQLite to Postgres, to MySQL, to SQLite", () => {
  test("every line is the same in each database, and later tasks get higher ids", {
    timeout: 300_000,
  }, async () => {
    const lines = await linesOf(await queueWithTasks(2_000));
    const expected = lines.map(asImported);
    const last = JSON.parse(lines.at(-1) as string).id;
    let before = lines;
    for (const place of [await urlForTest(newSchema), await urlForTest(newDatabase), undefined]) {
      const next = await temporaryQueue({}, place);
      before = await copied(before, next);
      expect(before).toEqual(expected);
      expect(await copied(before, next)).toEqual(expected);
      expect(await next.enqueueTask(remoteTask("later"))).toBeGreaterThan(last);
    }
  });

  test("an export chooses tasks by the same filter in each database", { timeout: 120_000 }, async () => {
    const queue = await queueWithTasks(200);
    const lines = await linesOf(queue);
    const { func, queueName } = JSON.parse(lines[0] as string);
    const filter = { status: ["failed", "completed"], func, queueName } as const;
    const expected = (await linesOf(queue, filter)).map(asImported);
    expect(expected.length).toBeGreaterThan(0);
    for (const make of [newSchema, newDatabase]) {
      const next = await temporaryQueue({}, await urlForTest(make));
      await copied(lines, next);
      expect(await linesOf(next, filter)).toEqual(expected);
    }
  });

  test("an imported task holds its unique key for the rest of its time in each database", {
    timeout: 120_000,
  }, async () => {
    const queue = await temporaryQueue();
    const call = remoteTask("once a day").with({ uniqueKey: "today", uniqueFor: "1d" });
    const id = await queue.enqueueTask(call);
    await queue.cancelTask(id);
    const lines = await linesOf(queue);
    for (const make of [newSchema, newDatabase]) {
      const [next, other] = [
        await temporaryQueue({}, await urlForTest(make)),
        await temporaryQueue({}, await urlForTest(make)),
      ];
      expect(await copied(lines, next)).toEqual(lines);
      expect(await next.enqueueTask(call)).toBe(id);
      await other.enqueueTask(remoteTask("padding"));
      const rival = await other.enqueueTask(call);
      await other.deleteTasks({ func: "padding" });
      await importTasks(other, lines);
      expect(await other.enqueueTask(call)).toBe(rival);
    }
  });

  test("a task whose slot another one has is imported without it in each database", {
    timeout: 120_000,
  }, async () => {
    for (const make of [newSchema, newDatabase])
      await importTakenSlot(await temporaryQueue({}, await urlForTest(make)));
  });

  test("Postgres keeps imported tasks in the tables of finished tasks", { timeout: 120_000 }, async () => {
    const lines = await linesOf(await queueWithTasks(200));
    const url = await urlForTest(newSchema);
    await (await openQueue(url)).close();
    const next = await temporaryQueue({ partitionFinished: true }, url);
    expect(await copied(lines, next)).toEqual(lines.map(asImported));
  });
});
