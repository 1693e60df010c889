/** DBOS Transact. Its workflows are started directly, since its executor looks at a queue once a second by default. */
import { DBOS } from "@dbos-inc/dbos-sdk";
import type { Figures, Settings } from "../benchmark.ts";
import { launchDbos, storedOutputs } from "../peers/dbos.ts";
import { withConnection } from "../server/connection.ts";
import { withDatabase } from "../server/databases.ts";
import { measureSteps, type StepRunner, type StepVariant, Stopwatch } from "./variants.ts";

const stopwatch = new Stopwatch();

const work = DBOS.registerWorkflow(
  (steps: number) => stopwatch.measured(steps, (name, fn) => DBOS.runStep(async () => fn(), { name })),
  { name: "work" },
);

async function runnerOn(url: string): Promise<StepRunner> {
  await launchDbos(url);
  return {
    async run({ tasks, steps, concurrency }) {
      const results: number[] = [];
      let left = tasks;
      const lane = async () => {
        while (left > 0) {
          left -= 1;
          results.push(await (await DBOS.startWorkflow(work)(steps)).getResult());
        }
      };
      void stopwatch.times(tasks);
      await Promise.all(Array.from({ length: concurrency }, lane));
      return { spent: stopwatch.spent(), results };
    },
    stored: () => withConnection(url, ({ number }) => number(storedOutputs)),
    [Symbol.asyncDispose]: () => DBOS.shutdown(),
  };
}

export function measureDbos(settings: Settings<StepVariant>): Promise<Figures> {
  return withDatabase("postgres", (url) => measureSteps(settings, () => runnerOn(url)));
}
