/** On a server, a transaction that locks the row of one task does not block the other tasks. */
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { task } from "../../src/index.ts";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { deferred, startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";
import { allEnded, ended, next, reportsOf } from "./setup.ts";

/** Locks rows until it is released. */
type Hold = (text: string) => Promise<() => Promise<unknown>>;

const servers = [
  {
    name: "Postgres",
    missing: isMissing(await postgresServer()),
    make: newSchema,
    holder: (url: string): Hold => {
      const client = new Client({ connectionString: url });
      onTestFinished(() => client.end());
      return async (text) => {
        await client.connect();
        await client.query(`begin; ${text}`);
        return () => client.query("rollback");
      };
    },
  },
  {
    name: "MySQL",
    missing: isMissing(await mysqlServer()),
    make: newDatabase,
    holder:
      (url: string): Hold =>
      async (text) => {
        const client = await createConnection(url);
        onTestFinished(() => client.end());
        await client.query("begin");
        await client.query(text);
        return () => client.query("rollback");
      },
  },
];

describe.each(servers)("a locked row on $name", ({ missing, make, holder }) => {
  it.skipIf(missing)(
    "an outcome whose row is locked does not block other tasks",
    async () => {
      const { url, drop } = await make();
      onTestFinished(drop);
      const queue = await temporaryQueue({}, url);
      const gate = deferred();
      const waits = task(uniqueName(), () => gate.promise);
      const quick = task(uniqueName(), async (n: number) => n);
      const worker = await startedWorker(queue);
      const started = next(worker, "started");
      const reports = reportsOf(worker);
      const id = await queue.enqueueTask(waits);
      await started;
      const release = await holder(url)(`select 1 from dbq_tasks where id = ${id} for update`);
      gate.resolve();
      const ids = await queue.enqueueTasks([1, 2, 3, 4, 5].map((n) => [quick, n] as const));
      expect((await allEnded(queue, ids)).map(({ result }) => result)).toEqual([1, 2, 3, 4, 5]);
      expect((await queue.getTask(id))?.status).toBe("running");
      expect(reports.length).toBeGreaterThan(0);
      for (const { error } of reports) expect(error).toMatchObject({ code: "DBQ_DATABASE" });
      await release();
      expect(await ended(queue, id)).toMatchObject({ status: "completed", retryCount: 0 });
    },
    60_000,
  );
});
