/** Names that differ by case, an accent or a space at the end are different names, also where MySQL compares them as equal. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { remoteTask, task } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { startedWorker, temporaryFolder, temporaryQueue, urlForTest } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const plain = ["send", "Send", "sénd"];
const names = [...plain, "send ", "send  "];

const places = [
  ["SQLite", true, async () => join(temporaryFolder(), "dbq.db")],
  ["Postgres", !isMissing(await postgresServer()), () => urlForTest(newSchema)],
  ["MySQL or MariaDB", !isMissing(await mysqlServer()), () => urlForTest(newDatabase)],
] as const;

const other = remoteTask<() => Promise<void>>("other");

/** So many entries: 1 of the first name, 2 of the second one, and so on. */
const each = <T>(some: readonly string[], make: (name: string) => T): T[] =>
  some.flatMap((name, n) => Array.from({ length: n + 1 }, () => make(name)));

const countsOf = (some: readonly string[]) => new Map(some.map((name, n) => [name, n + 1]));

for (const [database, isThere, place] of places) {
  test.skipIf(!isThere)(
    `pending tasks of such functions and queues are counted apart, on ${database}`,
    async () => {
      const queue = await temporaryQueue({}, await place());
      const { store } = internalsOf(queue);
      // MySQL steps from name to name by an index that skips those that differ by spaces at the end alone.
      const found = database.startsWith("MySQL") ? plain : names;
      const counted = countsOf(found);
      await queue.setCauseThresholds({ unservedAfter: 1, pausedAfter: 1 });
      await queue.enqueueTasks(each(found, (name) => [remoteTask(name)] as const));
      await queue.enqueueTasks(each(found, (name) => [other.with({ queueName: name })] as const));
      const backlog = await store.health.backlog(1_000, 1_000);
      const byFunc = backlog.filter(({ queueName }) => queueName === "default");
      expect(new Map(byFunc.map(({ func, pending }) => [func, pending]))).toEqual(counted);
      const byQueue = backlog.filter(({ func }) => func === "other");
      expect(new Map(byQueue.map(({ queueName, pending }) => [queueName, pending]))).toEqual(counted);
      const depths = (await store.health.depths(1_000)).filter(({ queueName }) => queueName !== "default");
      expect(new Map(depths.map(({ queueName, pending }) => [queueName, pending]))).toEqual(counted);

      for (const name of found) await queue.pause({ func: name });
      for (const name of found) await queue.pause({ queueName: name });
      await expect
        .poll(async () => (await queue.listCauses()).filter(({ kind }) => kind === "paused").length)
        .toBe(found.length * 2);
      const paused = (await queue.listCauses()).filter(({ kind }) => kind === "paused");
      const ofFunctions = paused.filter(({ func }) => func !== undefined);
      expect(new Map(ofFunctions.map(({ func, tasks }) => [func, tasks]))).toEqual(counted);
      const ofQueues = paused.filter(({ queueName }) => queueName !== undefined);
      expect(new Map(ofQueues.map(({ queueName, tasks }) => [queueName, tasks]))).toEqual(counted);
    },
  );

  test.skipIf(!isThere)(
    `attempts, failures and schedules of such names are counted apart, on ${database}`,
    async () => {
      const queue = await temporaryQueue({}, await place());
      await queue.setCauseThresholds({ failingAttempts: 1, pilingTasks: 1 });
      const failing = new Map(
        names.map((name) => [name, task(name, () => Promise.reject(new Error("no")), { maxRetries: 0 })]),
      );
      const worker = await startedWorker(queue, { tasks: [...failing.values()] });
      const ids = await queue.enqueueTasks(each(names, (name) => [failing.get(name) ?? other] as const));
      for (const id of ids as number[]) await queue.awaitTaskCompletion(id, { timeout: "20s" });
      await worker.stop();
      const stats = await queue.functionStats();
      expect(new Map(stats.map(({ func, failed }) => [func, failed]))).toEqual(countsOf(names));
      const failures = await queue.listFailures();
      expect(new Map(failures.map(({ func, open }) => [func, open]))).toEqual(countsOf(names));
      expect(new Map(failures.map(({ func, count }) => [func, count]))).toEqual(countsOf(names));
      expect((await queue.listFailures({ func: "send " })).map(({ func, open }) => [func, open])).toEqual([
        ["send ", 4],
      ]);
      for (const name of plain) await queue.schedule(name, { every: "1h", overlap: "allow" }, other);
      for (const [n, name] of plain.entries())
        for (let i = 0; i <= n; i += 1) await queue.triggerSchedule(name);
      const causes = await queue.listCauses();
      const ofKind = (wanted: string) => causes.filter(({ kind }) => kind === wanted);
      expect(new Set(ofKind("failing").map(({ func }) => func))).toEqual(new Set(names));
      expect(ofKind("piling").map(({ schedule, tasks }) => [schedule, tasks])).toEqual([
        ["sénd", 3],
        ["Send", 2],
        ["send", 1],
      ]);
      expect((await queue.health()).queues.find(({ name }) => name === "default")?.failed).toBe(15);
    },
  );
}
