/** How the two claim strategies behave with more and more worker processes. */
import { openQueue } from "dbq-ts";
import type { Benchmark, Contender, Figures, Server, Settings, Variant } from "../benchmark.ts";
import { type Child, withChildren } from "../processes/children.ts";
import { allEnded, type Connection, settle, withConnection } from "./connection.ts";
import { noServer, withDatabase } from "./databases.ts";
import type { StrategyCommands, StrategyConfig } from "./strategy-process.ts";
import { opened, stopped } from "./strategy-workers.ts";

interface LoadVariant extends Variant {
  readonly workers: number;
}

type Strategy = StrategyConfig["strategy"];

/**
 * The connections that a process shares among its statements, so that 32 processes fit into a server's usual hundred.
 */
const poolSize = 1;

const workerCounts = [1, 2, 4, 8, 16, 32];

const variantOf = (workers: number): LoadVariant => ({
  name: `${workers} worker${workers === 1 ? "" : "s"}`,
  workers,
  quick: workers === 1 || workers === 8,
});

async function measureStrategy(
  server: Server,
  strategy: Strategy,
  { tasks, quick, variant }: Settings<LoadVariant>,
): Promise<Figures> {
  const count = tasks ?? (quick ? 4_000 : 40_000);
  return await withDatabase(server, async (url) => {
    await fill(url, count);
    await settle(url);
    return await withChildren(async (start) => {
      const children = await opened(start, variant.workers, { url, strategy, poolSize });
      return await withConnection(url, (connection) => drain(children, connection, count));
    });
  });
}

async function fill(url: string, count: number): Promise<void> {
  await (await openQueue(url)).close();
  await withConnection(url, async ({ rows }) => {
    for (let from = 0; from < count; from += 1_000) {
      const numbers = Array.from(
        { length: Math.min(1_000, count - from) },
        (_, i) => `('step', '[${from + i}]')`,
      );
      await rows(`insert into dbq_tasks (func, args) values ${numbers.join(", ")}`);
    }
  });
}

async function drain(
  workers: readonly Child<StrategyCommands>[],
  connection: Connection,
  count: number,
): Promise<Figures> {
  const start = performance.now();
  await Promise.all(workers.map((worker) => worker.ask("start")));
  await allEnded(connection.rows);
  const milliseconds = performance.now() - start;
  return await stopped(workers, connection, { count, milliseconds });
}

const contender = (server: Server, name: string, strategy: Strategy): Contender<LoadVariant> => ({
  name,
  missing: noServer(server),
  measure: (settings) => measureStrategy(server, strategy, settings),
});

function strategiesOn(server: Server, name: string, title: string): Benchmark<LoadVariant> {
  return {
    name,
    title: `${title}: two ways to claim, and more and more workers`,
    about:
      "This many worker processes drain 40,000 no-op tasks, ten at a time each, with one connection for their statements. dbq is " +
      "the strategy `skip-locked`; beside it `optimistic`. Run twice: how often a handler was called for a task that had already run. " +
      "Errors: those that workers reported. The smallest worker's share is compared with the mean.",
    on: server,
    once: true,
    variants: workerCounts.map(variantOf),
    figures: [
      { name: "tasks/s", unit: "tasks/s", better: "higher" },
      { name: "run twice", unit: "", better: "lower", goals: [{ must: 0, aim: 0 }] },
      { name: "errors", unit: "", better: "lower", goals: [{ must: 0, aim: 0 }] },
      { name: "smallest share", unit: "of the mean", better: "higher" },
    ],
    contenders: [contender(server, "dbq", "skip-locked"), contender(server, "optimistic", "optimistic")],
  };
}

export const strategies: readonly Benchmark<LoadVariant>[] = [
  strategiesOn("postgres", "pg-strategies", "Postgres"),
  strategiesOn("mariadb", "mariadb-strategies", "MariaDB"),
];
