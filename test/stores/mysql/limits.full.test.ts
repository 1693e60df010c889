/**
 * The limits of MySQL's packets and datetimes: an enqueue that reaches one must not fail others that are written with
 * it.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import {
  claim,
  claimBy,
  insert,
  insertOne,
  outcomes,
  recordOf,
  running,
  settle,
} from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql } from "../server/stores.ts";

const server = await mysqlServer();
let database: OwnDatabase;
const task = remoteTask<(text?: string) => void>("f");

beforeAll(async () => {
  if (!isMissing(server)) database = await newDatabase();
});
afterAll(() => database?.drop());

describe.skipIf(isMissing(server))("limits of MySQL", () => {
  it("concurrent enqueues succeed although their payloads together exceed a packet", async () => {
    const queue = await temporaryQueue({}, database.url);
    const [[row]] = (await database.client.query("select @@max_allowed_packet as most")) as unknown as [
      { most: number }[],
    ];
    const text = "x".repeat(1_000_000);
    // On a server that takes more than 16 MiB, 40 tasks are not too many, and this test shows nothing.
    const many = Math.min(40, Math.ceil(Number(row?.most) / text.length) + 2);
    const ended = await Promise.allSettled(Array.from({ length: many }, () => queue.enqueueTask(task, text)));
    const refused = ended.flatMap((each) => (each.status === "rejected" ? [String(each.reason)] : []));
    expect(refused).toEqual([]);
  });

  it.each([
    ["letters", 20, "x".repeat(1_000_000)],
    ["quotes, which are escaped twice", 8, '"'.repeat(450_000)],
    ["characters of three bytes", 8, "日".repeat(1_000_000)],
  ])("results are settled together although they exceed a packet: %s", async (_, many, text) => {
    const store = await openedMysql(database.url);
    await insert(store, ...Array.from({ length: many }, () => ({})));
    const tasks = await claim(store, claimBy("w1", { limit: many }));
    // No two are the same: the statement would have one of them only.
    const ended = tasks.map((each, n) => ({
      ...outcomes.completed(each),
      result: JSON.stringify(`${text}${n}`),
    }));
    expect(await settle(store, ...ended)).toEqual(tasks.map(() => true));
  });

  it("results are settled together although they exceed a packet, beside a task that has moved on", async () => {
    const store = await openedMysql(database.url);
    await insert(store, ...Array.from({ length: 20 }, () => ({})));
    const tasks = await claim(store, claimBy("w1", { limit: 20 }));
    const text = "x".repeat(1_000_000);
    const ended = tasks.map((each, n) => ({
      ...outcomes.completed(each),
      result: JSON.stringify(`${text}${n}`),
    }));
    const [first] = ended;
    if (first) first.generationId += 7;
    expect(await settle(store, ...ended)).toEqual(tasks.map((_, n) => n > 0));
  });

  it("changes that take several packets each report whether they found their task", async () => {
    const store = await openedMysql(database.url);
    await insert(store, {}, {}, {}, {}, {});
    const tasks = await claim(store, claimBy("w1", { limit: 5 }));
    const text = "x".repeat(900_000);
    const ended = tasks.map((each, i) => {
      const generationId = each.generationId + (i === 2 ? 7 : 0);
      const result = JSON.stringify(`${text}${i}`);
      return { ...outcomes.completed(each), generationId, result };
    });
    expect(await settle(store, ...ended)).toEqual([true, true, false, true, true]);
  });

  it.each([4e15, Number.MAX_SAFE_INTEGER])(
    "a delay of %d ms is cut to the last datetime of MySQL",
    async (delay) => {
      const store = await openedMysql(database.url);
      const task = await running(store, { func: `f${delay}` });
      const other = await insertOne(store, { delay });
      expect(await settle(store, { ...outcomes.snoozed(task), delay })).toEqual([true]);
      for (const id of [task.id, other]) {
        const { status, waitUntil } = await recordOf(store, id);
        expect([status, new Date(waitUntil ?? 0).getUTCFullYear()]).toEqual(["scheduled", 9999]);
      }
    },
  );

  it("a time beyond MySQL's range becomes its last or first datetime", async () => {
    const queue = await temporaryQueue({}, database.url);
    const at = (waitUntil: Date) => queue.enqueueTask(task.with({ waitUntil }));
    const ids = await Promise.all([queue.enqueueTask(task), at(new Date(8.64e15)), at(new Date(-8.64e15))]);
    const tasks = await Promise.all(ids.map((id) => queue.getTask(id)));
    expect(tasks.map((each) => [each?.status, each?.waitUntil?.getUTCFullYear()])).toEqual([
      ["pending", undefined],
      ["scheduled", 9999],
      ["pending", 1000],
    ]);
  });
});
