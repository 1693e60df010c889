/** Text that an app's session would change on MySQL or MariaDB: it arrives as it is, or the enqueue is refused. */
import { drizzle } from "drizzle-orm/mysql2";
import { createPool } from "mysql2/promise";
import { describe, expect, onTestFinished, test } from "vitest";
import { openQueue, type QueueWithin, remoteTask } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const send = remoteTask<(text: string) => void>("send");

describe.skipIf(isMissing(await mysqlServer()))("text in a session of MySQL", () => {
  /** A queue by URL, and an app's pool with these settings. */
  async function setUp(settings: object, statement?: string) {
    const { url, client, name, drop } = await newDatabase();
    onTestFinished(drop);
    // The default of an old database: the tables of dbq have a character set of their own.
    await client.query(`alter database ${name} character set latin1`);
    const queue = await temporaryQueue({}, url);
    const pool = createPool({ uri: url, ...settings });
    onTestFinished(() => pool.end());
    if (statement !== undefined)
      (
        pool.pool as unknown as {
          on(event: string, listener: (made: { query(text: string): void }) => void): void;
        }
      ).on("connection", (made) => made.query(statement));
    return { queue, db: drizzle(pool) };
  }

  test.each([
    ["utf8", "Hi 🌊", /character set utf8mb?3?, which would change some of "🌊"/],
    ["utf8", "é漢", undefined],
    ["latin1", "é", undefined],
    ["latin1", "漢", /character set latin1.*"漢"/],
    ["utf8mb4", "Hi 🌊", undefined],
  ])("with the charset %s, %s arrives as it is or is refused", async (charset, text, message) => {
    const { queue, db } = await setUp({ charset });
    const call = send.with({ uniqueKey: text });
    const enqueued = db.transaction((tx) => queue.within(tx).enqueueTask(call, text));
    if (message) {
      await expect(enqueued).rejects.toThrow(message);
      const second = await openQueue(db);
      onTestFinished(() => second.close());
      await expect(second.transaction((_, q) => q.enqueueTask(call, text))).rejects.toThrow(message);
      await expect(queue.within(db).enqueueTask(call, text)).rejects.toThrow(message);
      // The queue has a connection of its own, which has every character.
      await second.enqueueTask(call, text);
    } else expect(await enqueued).toBe(await queue.enqueueTask(call, text));
    expect((await queue.listTasks()).map(({ args, uniqueKey }) => [args[0], uniqueKey])).toEqual([
      [text, text],
    ]);
  });

  test("a session with another character set finds what it names", async () => {
    const { queue, db } = await setUp({ charset: "latin1" });
    const call = send.with({ uniqueKey: "Renée" });
    type Inside = QueueWithin<Parameters<Parameters<typeof db.transaction>[0]>[0]>;
    const inside = <T>(fn: (q: Inside) => T) => db.transaction(async (tx) => await fn(queue.within(tx)));
    const id = await queue.enqueueTask(call, "a");
    expect(await inside((q) => q.enqueueTask(call, "b"))).toBe(id);
    const [own] = await inside((q) => q.enqueueTasks([[send.with({ uniqueKey: "Zoë" }), "c"]]));
    expect(await queue.enqueueTask(send.with({ uniqueKey: "Zoë" }), "d")).toBe(own);
    await inside((q) => q.schedule("täglich", { cron: "@daily" }, send, "e"));
    expect(await inside((q) => q.getSchedule("täglich"))).toMatchObject({ name: "täglich", args: ["e"] });
    expect(await inside((q) => q.pauseSchedule("täglich"))).toMatchObject({ name: "täglich" });
    expect(await inside((q) => q.listSchedules({ prefix: "tä" }))).toHaveLength(1);
    expect(await inside((q) => q.emitEvent("bezahlt für 7", "é"))).toBe(true);
    expect(await queue.emitEvent("bezahlt für 7", "later")).toBe(false);
  });

  test("a character that a session lacks since its SET NAMES is refused", async () => {
    const { queue, db } = await setUp({}, "set names latin1");
    await expect(db.transaction((tx) => queue.within(tx).enqueueTask(send, "漢"))).rejects.toThrow(/latin1/);
    await db.transaction((tx) => queue.within(tx).enqueueTask(send, "plain"));
    expect((await queue.listTasks()).map(({ args }) => args[0])).toEqual(["plain"]);
  });

  test("a session in which mysql2 changes quotes is refused", async () => {
    const { queue, db } = await setUp({}, "set session sql_mode = 'NO_BACKSLASH_ESCAPES'");
    const enqueued = db.transaction((tx) => queue.within(tx).enqueueTask(send, 'a "quote"'));
    await expect(enqueued).rejects.toThrow(/NO_BACKSLASH_ESCAPES/);
    expect(await queue.listTasks()).toEqual([]);
  });
});
