/** What a forgotten transaction does to a queue on Postgres: vacuum may not remove rows that it could still see. */
import pg from "pg";
import { type Benchmark, type Figures, programBeside, type Settings } from "../benchmark.ts";
import { empty } from "../processes/backlog-tables.ts";
import { withChildren } from "../processes/children.ts";
import { compare, floorFigures } from "./backlog.ts";
import { makeTable } from "./backlog-tables.ts";
import { withConnection } from "./connection.ts";
import { noServer, withDatabase } from "./databases.ts";
import type { SteadyCommands, SteadyConfig } from "./steady-process.ts";

/** Tasks per second, in each of the two databases. */
const rate = 1_000;

const minute = 60_000;

async function measureSnapshot({ tasks, quick, minutes }: Settings): Promise<Figures> {
  const urgent = tasks ?? (quick ? 2_000 : 20_000);
  const duration = (minutes ?? (quick ? 0.2 : 10)) * minute;
  return await withDatabase("postgres", (freeUrl) =>
    withDatabase("postgres", async (pinnedUrl) => {
      for (const url of [freeUrl, pinnedUrl]) await makeTable(url, empty);
      return await underSnapshot(pinnedUrl, async () => {
        const [, share] = await live([freeUrl, pinnedUrl], duration);
        for (const url of [freeUrl, pinnedUrl]) await forgetRest(url);
        const dead = await deadRows(pinnedUrl);
        const [pinned, free] = [
          { url: pinnedUrl, urgent },
          { url: freeUrl, urgent },
        ];
        const figures = await compare(pinned, free, { ratio: "vs without it", other: "without it, " });
        return { ...figures, "run in time": share ?? 0, "dead rows": dead };
      });
    }),
  );
}

/** While `use` runs, a transaction that has read once stays open. It holds back vacuum in its own database only. */
async function underSnapshot<T>(url: string, use: () => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("begin isolation level repeatable read");
    await client.query("select 1 from dbq_tasks limit 1");
    const result = await use();
    await client.query("commit");
    return result;
  } finally {
    await client.end();
  }
}

/**
 * Runs both at once, so that changes of the machine over time affect both. Returns the part of its tasks that each has
 * run by the end.
 */
async function live(urls: readonly string[], milliseconds: number): Promise<number[]> {
  return await withChildren(async (start) => {
    const program = programBeside(import.meta.url, "steady-process");
    const children = await Promise.all(
      urls.map((url) => start<SteadyCommands>(program, { url, rate } satisfies SteadyConfig)),
    );
    const lives = await Promise.all(children.map((child) => child.ask("live", milliseconds)));
    return lives.map(({ ran, enqueued }) => ran / enqueued);
  });
}

/** Deletes the tasks that the worker has not run: they do not belong to the drains. */
async function forgetRest(url: string): Promise<void> {
  await withConnection(url, ({ rows }) => rows("delete from dbq_tasks where status <> 'completed'"));
}

/** Row versions that only the snapshot can see. */
async function deadRows(url: string): Promise<number> {
  return await withConnection(url, async ({ rows, number }) => {
    await rows("analyze dbq_tasks");
    return await number("select n_dead_tup from pg_stat_user_tables where relname = 'dbq_tasks'");
  });
}

export const postgresSnapshot: Benchmark = {
  name: "pg-snapshot",
  title: "Postgres: draining under an old snapshot",
  about:
    "In two databases at once an app enqueues 1,000 tasks a second and runs them, for 10 minutes (--minutes). In one of them, a " +
    "repeatable read transaction reads once and then stays open to the end. Run in time is the share of the tasks that " +
    "the worker there has run by the end of these minutes. Then the remaining tasks are deleted, and 20,000 tasks of the same function are drained, ten at a time, " +
    "in both alternately, medians of three drains each, each in a new process. Claims are timed as in pg-backlog.",
  on: "postgres",
  once: true,
  rounds: 1,
  limit: 90 * minute,
  figures: [
    { name: "tasks/s", unit: "/s", better: "higher" },
    { name: "vs without it", unit: "", better: "higher", goals: [{ must: 0.6, aim: 0.8 }] },
    { name: "claim p50", unit: "ms", better: "lower" },
    { name: "claim p99", unit: "ms", better: "lower", goals: [{ must: 5, aim: 2 }] },
    { name: "free slots' claim p50", unit: "ms", better: "lower" },
    { name: "free slots' claim p99", unit: "ms", better: "lower", goals: [{ must: 5, aim: 2 }] },
    { name: "without it, claim p50", unit: "ms", better: "lower" },
    { name: "without it, claim p99", unit: "ms", better: "lower" },
    { name: "without it, free slots' claim p50", unit: "ms", better: "lower" },
    { name: "without it, free slots' claim p99", unit: "ms", better: "lower" },
    ...floorFigures,
    { name: "run in time", unit: "of all tasks", better: "higher" },
    { name: "dead rows", unit: "", better: "lower" },
  ],
  contenders: [{ name: "dbq", missing: noServer("postgres"), measure: measureSnapshot }],
};
