/** How many functions that mostly wait one worker process on a Postgres runs, and how many several do. */
import { openQueue } from "dbq-ts";
import type { Benchmark, Figures, Settings, Variant } from "../benchmark.ts";
import { withChildren } from "../processes/children.ts";
import { allEnded, settle, withConnection } from "./connection.ts";
import { noServer, withDatabase } from "./databases.ts";
import type { StrategyConfig } from "./strategy-process.ts";
import { opened, stopped } from "./strategy-workers.ts";

interface ProcessesVariant extends Variant {
  readonly processes: number;
  /** How many functions each of them runs at a time. */
  readonly concurrency: number;
}

/** Milliseconds that each function waits, as for an answer over the network. */
const waits = 20;

/** Milliseconds that the tasks would take if the queue cost nothing. */
const idealMs = 12_000;

/** So that no variant takes longer than half a minute. */
const mostTasks = 30_000;

const variantOf = (processes: number, concurrency: number): ProcessesVariant => ({
  name: `${processes} process${processes === 1 ? "" : "es"}, ${concurrency} at a time`,
  processes,
  concurrency,
  quick: processes === 4,
});

async function measure({ tasks, quick, variant }: Settings<ProcessesVariant>): Promise<Figures> {
  const { processes, concurrency } = variant;
  const ideal = (processes * concurrency * (quick ? idealMs / 10 : idealMs)) / waits;
  const count = tasks ?? Math.min(mostTasks, ideal);
  return await withDatabase("postgres", async (url) => {
    await (await openQueue(url)).close();
    return await withChildren(async (start) => {
      const config: StrategyConfig = { url, strategy: "skip-locked", poolSize: 2, waits, concurrency };
      const children = await opened(start, processes, config);
      await Promise.all(children.map((child) => child.ask("start")));
      return await withConnection(url, async (connection) => {
        const { rows } = connection;
        await settle(url);
        await rows(
          `insert into dbq_tasks (func, args) select 'step', json_build_array(n) from generate_series(1, ${count}) n`,
        );
        await rows("notify dbq");
        const began = performance.now();
        await allEnded(rows);
        const milliseconds = performance.now() - began;
        return await stopped(children, connection, { count, milliseconds });
      });
    });
  });
}

export const postgresProcesses: Benchmark<ProcessesVariant> = {
  name: "pg-processes",
  title: "Postgres: functions that wait, in one worker process and in several",
  about:
    `Each function waits ${waits} ms, as for an answer over the network: ten at a time are at best 500 a second. The processes ` +
    "run before the tasks are there, all at once: as many as take twelve seconds if the queue costs nothing, and at most 30,000. " +
    "The processes share the machine's cores with the server.",
  on: "postgres",
  once: true,
  variants: [variantOf(1, 10), variantOf(4, 10), variantOf(16, 10), variantOf(1, 160)],
  figures: [
    { name: "tasks/s", unit: "tasks/s", better: "higher" },
    { name: "run twice", unit: "", better: "lower", goals: [{ must: 0, aim: 0 }] },
    { name: "errors", unit: "", better: "lower", goals: [{ must: 0, aim: 0 }] },
    { name: "smallest share", unit: "of the mean", better: "higher" },
  ],
  contenders: [{ name: "dbq", missing: noServer("postgres"), measure }],
};
