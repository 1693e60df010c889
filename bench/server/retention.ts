/** Whether a queue on Postgres stays as fast and as large as it is, while tasks come, finish and are pruned for a long time. */
import { appendFileSync } from "node:fs";
import { openQueue } from "dbq-ts";
import { type Benchmark, type Figures, programBeside, type Settings } from "../benchmark.ts";
import type { BacklogCommands, BacklogConfig } from "../processes/backlog-process.ts";
import { empty } from "../processes/backlog-tables.ts";
import { withChildren } from "../processes/children.ts";
import { sharedNow, sleep } from "../processes/clock.ts";
import { median } from "../processes/percentile.ts";
import { addUrgent, makeTable } from "./backlog-tables.ts";
import { type Connection, withConnection } from "./connection.ts";
import { noServer, withDatabase, withServerConnection } from "./databases.ts";
import type { RetentionCommands, RetentionConfig, WorkerSample } from "./retention-process.ts";
import { addUrgentAt } from "./urgent.ts";

const minute = 60_000;

/** The part of the drain's rate at which tasks are added. */
const share = 0.7;

/** Milliseconds between two samples. */
const every = 10_000;

/** Milliseconds that finished tasks are kept: several times the 30 s between two prunings of a worker that has caught up. */
const keep = { quick: 5_000, full: 2 * minute };

/** A file for the samples, one line of JSON for each. */
const samplesFile = process.env.DBQ_BENCH_SAMPLES;

interface Sample extends WorkerSample {
  /** Seconds since the start. */
  at: number;
  /** MiB of the table, its indexes and its TOAST. */
  size: number;
  dead: number;
  finished: number;
  pending: number;
}

async function measureRetention({ tasks, quick, minutes }: Settings): Promise<Figures> {
  const drained = await drainRate(quick ? 2_000 : 20_000);
  const rate = tasks ?? Math.floor(drained * share);
  const duration = (minutes ?? (quick ? 0.5 : 10)) * minute;
  const samples = await withDatabase("postgres", async (url) => {
    await makeTable(url, empty);
    return await live(url, rate, duration, quick ? keep.quick : keep.full);
  });
  return { "drain's rate": drained, rate, ...compare(samples, rate) };
}

/** Tasks per second of a worker that has nothing beside it. */
async function drainRate(urgent: number): Promise<number> {
  return await withDatabase("postgres", async (url) => {
    await makeTable(url, empty);
    await addUrgent(url, urgent);
    return await withChildren(async (start) => {
      const config: BacklogConfig = { location: url, urgent, later: [], clocked: false };
      const program = programBeside(import.meta.url, "../processes/backlog-process");
      const { took } = await (await start<BacklogCommands>(program, config)).ask("drain");
      return (1_000 * urgent) / took;
    });
  });
}

/** Adds tasks at this rate, which another process runs and prunes. Each sample is also added to the file, if one is named. */
async function live(url: string, rate: number, duration: number, kept: number): Promise<Sample[]> {
  return await withChildren(async (start) => {
    const program = programBeside(import.meta.url, "retention-process");
    const worker = await start<RetentionCommands>(program, { url, keep: kept } satisfies RetentionConfig);
    await worker.ask("start");
    const samples: Sample[] = [];
    await withConnection(url, async (connection) => {
      const begun = sharedNow();
      const adding = add(url, rate, duration);
      for (let at = every; at <= duration; at += every) {
        await sleep(Math.max(0, begun + at - sharedNow()));
        const sample = { at: at / 1_000, ...(await worker.ask("sample")), ...(await sizeOf(connection)) };
        samples.push(sample);
        if (samplesFile !== undefined) appendFileSync(samplesFile, `${JSON.stringify(sample)}\n`);
      }
      await adding;
    });
    await worker.ask("stop");
    return samples;
  });
}

async function add(url: string, rate: number, duration: number): Promise<void> {
  const queue = await openQueue(url);
  await addUrgentAt(rate, queue, duration);
  await queue.close();
}

async function sizeOf({ rows }: Connection): Promise<Pick<Sample, "size" | "dead" | "finished" | "pending">> {
  const [row] = await rows(`
    select pg_total_relation_size('dbq_tasks') / 1048576.0,
      (select n_dead_tup from pg_stat_user_tables where relname = 'dbq_tasks'),
      (select count(*) from dbq_tasks where finished_at is not null),
      (select count(*) from dbq_tasks where status = 'pending')`);
  const [size = 0, dead = 0, finished = 0, pending = 0] = (row ?? []).map(Number);
  return { size, dead, finished, pending };
}

/**
 * The last third of the time beside the second one: in the first third the table grows, until retention deletes as much
 * as is added.
 */
function compare(samples: readonly Sample[], rate: number): Figures {
  const third = Math.floor(samples.length / 3);
  const [second, last] = [samples.slice(third, 2 * third), samples.slice(-third)];
  const of = (some: readonly Sample[], figure: keyof Sample) => median(some.map((sample) => sample[figure]));
  const growth = (figure: keyof Sample) => of(last, figure) / of(second, figure);
  const ran = samples.reduce((sum, sample) => sum + sample.ran, 0);
  return {
    "run in time": ran / ((rate * samples.length * every) / 1_000),
    "claim p50": of(last, "p50"),
    "claim p99": of(last, "p99"),
    "claim p99, growth": growth("p99"),
    "size of the table": of(last, "size"),
    "size, growth": growth("size"),
    "finished rows": of(last, "finished"),
    "finished rows, growth": growth("finished"),
    "dead rows": of(last, "dead"),
    "pending rows at the end": samples.at(-1)?.pending ?? Number.NaN,
  };
}

/** Without autovacuum, dead rows pile up whatever dbq does, and the figures would be the server's. */
async function noVacuum(): Promise<string | undefined> {
  const absent = await noServer("postgres")();
  if (absent !== undefined) return absent;
  const [[setting] = []] = await withServerConnection("postgres", ({ rows }) => rows("show autovacuum"));
  return setting === "on" ? undefined : `autovacuum is ${setting} on this server`;
}

export const postgresRetention: Benchmark = {
  name: "pg-retention",
  title: "Postgres: a long time at 70 % of the drain's rate, with retention",
  about:
    "A worker first drains 20,000 no-op tasks. Then one process adds tasks at 70 % of that rate (or --tasks a second) for 10 minutes " +
    "(--minutes), and another runs them and prunes those that finished more than two minutes ago. Every 10 seconds the size of dbq_tasks with its " +
    "indexes, its rows and the times of the worker's claims are taken. The figures are medians of the last third of the time; growth is their " +
    "ratio to the second third, so 1 is no slope. Run in time is the share of the tasks that were to be added by then and have run.",
  on: "postgres",
  once: true,
  rounds: 1,
  limit: 90 * minute,
  figures: [
    { name: "drain's rate", unit: "/s", better: "higher" },
    { name: "rate", unit: "/s", better: "higher" },
    { name: "run in time", unit: "of all tasks", better: "higher" },
    { name: "claim p50", unit: "ms", better: "lower" },
    { name: "claim p99", unit: "ms", better: "lower" },
    { name: "claim p99, growth", unit: "", better: "lower" },
    { name: "size of the table", unit: "MiB", better: "lower" },
    { name: "size, growth", unit: "", better: "lower" },
    { name: "finished rows", unit: "", better: "lower" },
    { name: "finished rows, growth", unit: "", better: "lower" },
    { name: "dead rows", unit: "", better: "lower" },
    { name: "pending rows at the end", unit: "", better: "lower" },
  ],
  contenders: [{ name: "dbq", missing: noVacuum, measure: measureRetention }],
};
