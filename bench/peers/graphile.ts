/** Graphile Worker: with its defaults, and with the batching of its own published figures. */
import { Logger, makeWorkerUtils, type Runner, run, type TaskList, type WorkerUtils } from "graphile-worker";
import { type Connection, withConnection } from "../server/connection.ts";

/** Its default logger writes each job to the console. */
const logger = new Logger(() => () => undefined);

export const jobsLeft = "select count(*) from graphile_worker.jobs";

export interface GraphileHow {
  readonly concurrency: number;
  readonly batched: boolean;
}

/** The options of the figures at the top of https://worker.graphile.org/docs/performance. */
function batchingOf(concurrency: number) {
  // It warns about a local queue that is smaller than the concurrency.
  const localQueue = { size: Math.max(500, concurrency) };
  return { localQueue, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
}

/** `maxPoolSize` is its default. */
function presetOf(url: string, { concurrency, batched }: GraphileHow) {
  return {
    worker: {
      connectionString: url,
      concurrentJobs: concurrency,
      maxPoolSize: 10,
      logger,
      ...(batched && batchingOf(concurrency)),
    },
  };
}

/** Calls `use` with the enqueueing API, in a database with its tables. */
export async function withUtils<T>(url: string, use: (utils: WorkerUtils) => Promise<T>): Promise<T> {
  const utils = await openUtils(url);
  try {
    return await use(utils);
  } finally {
    await utils.release();
  }
}

export async function openUtils(url: string): Promise<WorkerUtils> {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  return utils;
}

export async function startRunner(url: string, how: GraphileHow, taskList: TaskList): Promise<Runner> {
  return await run({ preset: presetOf(url, how), taskList, parsedCronItems: [], noHandleSignals: true });
}

export async function countJobs(url: string): Promise<number> {
  return await withConnection(url, ({ number }) => number(jobsLeft));
}

/** Resolves when the last job is deleted, which happens after its run. */
export async function noneLeft({ number }: Connection): Promise<void> {
  while ((await number(jobsLeft)) > 0) await new Promise((resolve) => setTimeout(resolve, 1));
}
