/** The worker processes of a drain: how they are started, and what they tell when they stop. */
import { type Figures, programBeside } from "../benchmark.ts";
import type { Child, Start } from "../processes/children.ts";
import type { Connection } from "./connection.ts";
import type { StrategyCommands, StrategyConfig } from "./strategy-process.ts";

type Workers = readonly Child<StrategyCommands>[];

/** Processes that have opened their queues: none of their workers runs yet. */
export async function opened(start: Start, count: number, config: StrategyConfig): Promise<Workers> {
  const program = programBeside(import.meta.url, "strategy-process");
  return await Promise.all(Array.from({ length: count }, () => start<StrategyCommands>(program, config)));
}

/** Stops the workers after they have run `count` tasks in so many milliseconds. @throws Error when a task has not completed */
export async function stopped(
  workers: Workers,
  connection: Connection,
  { count, milliseconds }: { count: number; milliseconds: number },
): Promise<Figures> {
  const reports = await Promise.all(workers.map((worker) => worker.ask("stop")));
  const errors = reports.flatMap((report) => report.errors);
  for (const error of new Set(errors)) process.stderr.write(`a worker reported: ${error}\n`);
  const completed = await connection.number("select count(*) from dbq_tasks where status = 'completed'");
  if (completed !== count) throw new Error(`${completed} of ${count} tasks are completed after the drain`);
  const ran = reports.map((report) => report.ran.length);
  return {
    "tasks/s": (1_000 * count) / milliseconds,
    "run twice": ran.reduce((sum, one) => sum + one, 0) - new Set(reports.flatMap((one) => one.ran)).size,
    errors: errors.length,
    "smallest share": (Math.min(...ran) * workers.length) / count,
  };
}
