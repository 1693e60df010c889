/** Graphile Worker: one pool of workers in the process. It stores no results and deletes a job that has run. */
import { batches, type Entry } from "../batches.ts";
import { checkCompleted, type DrainVariant, Handlers } from "../drain/variants.ts";
import { countJobs, noneLeft, startRunner, withUtils } from "../peers/graphile.ts";
import type { Timed } from "../warm-up.ts";
import { settle, withConnection } from "./connection.ts";
import { onServer, type ServerRun } from "./databases.ts";

function drainGraphile({ wait, concurrency }: DrainVariant, batched: boolean): Timed<DrainVariant> {
  const handlers = new Handlers(wait);
  const work = async (payload: unknown) => {
    const { n, payload: given } = payload as Entry;
    await handlers.handler(n, given);
  };
  return onServer("postgres", async (run) => {
    await fill(run);
    await settle(run.url);
    return await withConnection(run.url, async (connection) => {
      const allRun = handlers.times(run.tasks);
      const start = performance.now();
      const runner = await startRunner(run.url, { concurrency, batched }, { work });
      await allRun;
      await noneLeft(connection);
      const milliseconds = performance.now() - start;
      await runner.stop();
      return milliseconds;
    });
  });
}

async function fill({ url, variant, tasks }: ServerRun<DrainVariant>): Promise<void> {
  await withUtils(url, async (utils) => {
    for (const batch of batches(variant.payload, tasks)) {
      await utils.addJobs(batch.map((payload) => ({ identifier: "work", payload })));
    }
  });
  checkCompleted(await countJobs(url), tasks);
}

export function drainGraphileUsual(variant: DrainVariant): Timed<DrainVariant> {
  return drainGraphile(variant, false);
}

export function drainGraphileBatched(variant: DrainVariant): Timed<DrainVariant> {
  return drainGraphile(variant, true);
}
