/** A server whose sessions do not commit, end with each commit, or read one row only: dbq's sessions have settings of their own. */
import type { RowDataPacket } from "mysql2/promise";
import { describe, expect, onTestFinished, test } from "vitest";
import { openQueue, task } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { startedWorker } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const double = task("double", async (n: number) => n * 2);

const odd: [variable: string, odd: string, usual: string][] = [
  ["autocommit", "0", "1"],
  ["completion_type", "'CHAIN'", "'NO_CHAIN'"],
  ["completion_type", "'RELEASE'", "'NO_CHAIN'"],
  ["sql_safe_updates", "1", "0"],
  ["sql_select_limit", "1", "18446744073709551615"],
];

describe.skipIf(isMissing(await mysqlServer()))("a server with odd defaults", () => {
  /** A database, and its URL for a user whose sessions begin with this setting, and those of other users with the usual one. */
  async function urlWith(variable: string, odd: string, usual: string) {
    const { url, client, name, drop } = await newDatabase();
    onTestFinished(drop);
    await client.query(`create user ${name}@'%', ${name}@localhost; grant all on ${name}.* to ${name}@'%';
      grant all on ${name}.* to ${name}@localhost`);
    onTestFinished(async () => {
      await client.query(`set global init_connect = ''; drop user ${name}@'%', ${name}@localhost`);
    });
    const statement = `set session ${variable} = if(user() like '${name}@%', ${odd}, ${usual})`;
    await client.query("set global init_connect = ?", [statement]);
    const own = new URL(url);
    own.username = name;
    return { url: own.href, client };
  }

  test.each(odd)(
    "with %s = %s, enqueued tasks are there for others, and all of them run",
    async (...setting) => {
      const { url, client } = await urlWith(...setting);
      const queue = await openQueue(url);
      onTestFinished(() => queue.close());
      await queue.schedule("often", { every: "1s" }, double, 1);
      const ids = await queue.enqueueTasks([
        [double, 1],
        [double, 2],
        [double, 3],
      ]);
      const { ids: members } = await queue.enqueueGroup([
        [double, 4],
        [double, 5],
      ]);
      const later = await queue.enqueueTask(double.with({ delay: "1h" }), 6);
      const [found] = await client.query<RowDataPacket[]>("select count(*) as tasks from dbq_tasks");
      expect(found[0]?.tasks).toBe(7);
      expect(await queue.countTasks()).toMatchObject({ pending: 5, scheduled: 1, waiting: 1 });
      await queue.cancelTask(later);
      await startedWorker(queue, { tasks: [double] });
      const results = await Promise.all([...ids, ...members].map((id) => queue.awaitTaskResult(id)));
      expect(results).toEqual([2, 4, 6, 8, 10]);
      await expect.poll(() => queue.listTasks({ scheduleName: "often" })).not.toEqual([]);
      await queue.setLimit({ func: "double" }, { concurrency: 1 });
      expect((await queue.purgeTasks({ func: "double" })).purged).toBeGreaterThanOrEqual(5);
    },
  );
});
