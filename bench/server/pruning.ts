/** What it takes to delete finished tasks on Postgres: row by row, or as tables by day (`partitionFinished`). */
import { openQueue, type QueueOptions, task, Worker } from "dbq-ts";
import type { Benchmark, Figures, Settings } from "../benchmark.ts";
import { empty } from "../processes/backlog-tables.ts";
import { sharedNow, sleep } from "../processes/clock.ts";
import { makeTable } from "./backlog-tables.ts";
import { type Connection, withConnection } from "./connection.ts";
import { noServer, withDatabase } from "./databases.ts";

/** Of no task: the worker has nothing to do but its maintenance. */
const nothing = task("nothing", async () => undefined);

const payload = `'["https://example.com/images/a.png", 320]'`;

/** Tasks that completed two days ago, one after the other, each with a small result. */
const addFinished = (tasks: number) => `
  insert into dbq_tasks (func, args, result, status, generation_id, worker_id, started_at, finished_at)
  select 'resize', ${payload}, '{"bytes": 123456}', 'completed', 3, 'host:1', at, at
  from (select now() - interval '2 days' + n * interval '200 microseconds' as at from generate_series(1, ${tasks}) as n) as times`;

/** Runs a worker until a query finds no row. Returns the seconds that it took. */
async function maintain(
  url: string,
  { rows }: Connection,
  options: QueueOptions,
  left: string,
): Promise<number> {
  const queue = await openQueue(url, options);
  const worker = new Worker(queue, { tasks: [nothing] });
  const begun = sharedNow();
  await worker.start();
  while ((await rows(left)).length > 0) await sleep(20);
  const took = sharedNow() - begun;
  await worker.stop();
  await queue.close();
  return took / 1_000;
}

const finished = "select 1 from only dbq_tasks where status = 'completed' limit 1";
const anywhere = "select 1 from dbq_tasks where status = 'completed' limit 1";

async function measure(settings: Settings, partitionFinished: boolean): Promise<Figures> {
  const tasks = settings.tasks ?? (settings.quick ? 5_000 : 300_000);
  return await withDatabase("postgres", async (url) => {
    await makeTable(url, empty);
    return await withConnection(url, async (connection) => {
      const { rows } = connection;
      await rows(addFinished(tasks));
      await rows("vacuum analyze dbq_tasks");
      const wal = async () => Number((await rows("select pg_current_wal_lsn() - '0/0'"))[0]?.[0]);
      const start = await wal();
      const moved = partitionFinished
        ? await maintain(url, connection, { partitionFinished, retention: { completed: "30d" } }, finished)
        : 0;
      const begun = sharedNow();
      await maintain(url, connection, { retention: { completed: "1d" } }, anywhere);
      return {
        "moved in": moved,
        "deleted in": (sharedNow() - begun) / 1_000,
        "WAL a task": ((await wal()) - start) / tasks,
      };
    });
  });
}

export const postgresPruning: Benchmark = {
  name: "pg-pruning",
  title: "Postgres: deleting finished tasks, row by row or as tables by day",
  about:
    "A worker deletes 300,000 tasks that finished two days ago (--tasks), row by row; or it first moves them to the tables of their days " +
    "(partitionFinished), and these are dropped. Until all are gone.",
  on: "postgres",
  once: true,
  rounds: 1,
  figures: [
    { name: "moved in", unit: "s", better: "lower" },
    { name: "deleted in", unit: "s", better: "lower" },
    { name: "WAL a task", unit: "bytes", better: "lower" },
  ],
  contenders: [
    { name: "row by row", missing: noServer("postgres"), measure: (settings) => measure(settings, false) },
    { name: "partitions", missing: noServer("postgres"), measure: (settings) => measure(settings, true) },
  ],
};
