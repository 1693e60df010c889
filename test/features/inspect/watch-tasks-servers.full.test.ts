/** `queue.watchTasks` on servers, where transactions commit in any order. */
import { expect, onTestFinished, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { deferred, temporaryQueue, urlForTest } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { until } from "../../worker/setup.ts";

const nobody = remoteTask<() => Promise<void>>("nobody");

const places = [
  ["Postgres", !isMissing(await postgresServer()), () => urlForTest(newSchema)],
  ["MySQL or MariaDB", !isMissing(await mysqlServer()), () => urlForTest(newDatabase)],
] as const;

for (const [name, isThere, place] of places)
  test.skipIf(!isThere)(
    `a task that becomes visible after one with a higher id is told, on ${name}`,
    async () => {
      const url = await place();
      const [queue, watching] = [await temporaryQueue({}, url), await temporaryQueue({}, url)];
      const events: string[] = [];
      const iterator = watching.watchTasks();
      const run = async () => {
        for await (const { type, task } of iterator) events.push(`${task.id} ${type}`);
      };
      void run();
      onTestFinished(async () => void (await iterator.return()));
      const begin = await queue.enqueueTask(nobody);
      await until(async () => {
        if (events.length === 0) await queue.updateTask(begin, { priority: Math.floor(Math.random() * 9) });
        return events.length > 0;
      });
      const [inserted, commit] = [deferred<number>(), deferred()];
      const committed = queue.transaction(async (_, q) => {
        inserted.resolve(await q.enqueueTask(nobody));
        await commit.promise;
      });
      const low = await inserted.promise;
      const high = await queue.enqueueTask(nobody);
      await until(() => events.includes(`${high} pending`));
      commit.resolve();
      await committed;
      await until(() => events.includes(`${low} pending`));
      await queue.cancelTask(low);
      await queue.deleteTasks({ status: "cancelled" });
      await until(() => events.includes(`${low} deleted`));
      expect(low).toBeLessThan(high);
      expect(events.filter((one) => one.startsWith(`${low} `))[0]).toBe(`${low} pending`);
    },
  );
