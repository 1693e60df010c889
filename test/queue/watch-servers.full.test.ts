/** Watches and log lines between two queues on a server, which share nothing but the database. */
import { drizzle } from "drizzle-orm/node-postgres";
import { Pool } from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { currentTask, task } from "../../src/index.ts";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { deferred, startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
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
  test.skipIf(missing)("a watch in another process sees each line, the progress and the end", async () => {
    const target = await url();
    const [here, there] = [await temporaryQueue({}, target), await temporaryQueue({}, target)];
    const seen = deferred();
    const slow = task(uniqueName(), async () => {
      const { log, progress } = currentTask();
      for (let n = 0; n < 300; n += 1) log(`line ${n} é 🎉`);
      progress(0.5, "half");
      await seen.promise;
      log("last");
      return "done";
    });
    await startedWorker(there);
    const id = await here.enqueueTask(slow);
    const all: string[] = [];
    for await (const event of here.watchTask(id)) {
      if (event.type === "log") all.push(event.line.message);
      else if (event.type === "progress") all.push(`${event.progress} ${event.note}`);
      else all.push(event.type);
      if (all.includes("line 299 é 🎉") && all.includes("0.5 half")) seen.resolve();
    }
    const lines = [...Array.from({ length: 300 }, (_, n) => `line ${n} é 🎉`), "last"];
    expect(all.filter((each) => /^line|^last/.test(each))).toEqual(lines);
    expect(all.filter((each) => !lines.includes(each)).slice(-3)).toEqual([
      "running",
      "0.5 half",
      "completed",
    ]);
    expect(all.at(-1)).toBe("completed");
  });
});

test.skipIf(noServer[0])(
  "the lines before a completion in the function's own transaction are there when it is committed",
  async () => {
    const target = await place(newSchema());
    const [here, there] = [await temporaryQueue({}, target), await temporaryQueue({}, target)];
    const pool = new Pool({ connectionString: target });
    onTestFinished(() => pool.end());
    const db = drizzle({ client: pool });
    const release = deferred();
    const within = task(uniqueName(), async () => {
      const current = currentTask();
      current.log("before");
      await db.transaction(async (tx) => await current.within(tx).complete("done"));
      await release.promise;
      current.log("after");
    });
    await startedWorker(there);
    const id = await here.enqueueTask(within);
    expect(await here.awaitTaskResult(id, { timeout: "20s" })).toBe("done");
    expect((await here.listLogs(id)).map(({ message }) => message)).toEqual(["before"]);
    release.resolve();
  },
);
