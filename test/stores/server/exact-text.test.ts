/** Text that an app's session would change: it arrives as it is, or the enqueue is refused. */
import { drizzle as drizzlePostgres } from "drizzle-orm/node-postgres";
import { Pool } from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const send = remoteTask<(text: string) => void>("send");

/** The values that the database has, as the queue reads them over a connection of its own. */
async function stored(queue: Awaited<ReturnType<typeof temporaryQueue>>) {
  return (await queue.listTasks({ limit: 10 })).map(({ args, uniqueKey }) => [args[0], uniqueKey]).reverse();
}

describe.skipIf(isMissing(await postgresServer()))("text in a session of Postgres", () => {
  test.each([
    ["LATIN1", "é", /character set LATIN1.*"é"/],
    ["EUC_JP", "漢", /character set EUC_JP/],
    ["SQL_ASCII", "Hi 🌊", undefined],
    ["UTF8", "Hi 🌊", undefined],
  ])("with client_encoding %s, %s arrives as it is or is refused", async (encoding, text, message) => {
    const { url, drop } = await newSchema();
    onTestFinished(drop);
    const queue = await temporaryQueue({}, url);
    const pool = new Pool({ connectionString: url });
    onTestFinished(() => pool.end());
    pool.on("connect", (client) => void client.query(`set client_encoding to '${encoding}'`));
    const db = drizzlePostgres(pool);
    const call = (value: string) => send.with({ uniqueKey: value });
    const enqueue = (value: string) =>
      db.transaction((tx) => queue.within(tx).enqueueTask(call(value), value));
    await enqueue("plain");
    const enqueued = enqueue(text);
    if (message) {
      await expect(enqueued).rejects.toThrow(message);
      await expect(enqueued).rejects.toMatchObject({ code: "DBQ_DATABASE" });
      await expect(queue.within(db).enqueueTask(send, text)).rejects.toThrow(message);
      const schedule = db.transaction((tx) => queue.within(tx).schedule("s", { every: "1h" }, send, text));
      await expect(schedule).rejects.toThrow(message);
    } else expect(await enqueued).toBe(await queue.enqueueTask(call(text), text));
    const exact = message ? [] : [[text, text]];
    expect(await stored(queue)).toEqual([["plain", "plain"], ...exact]);
  });
});
