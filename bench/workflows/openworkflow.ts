/** OpenWorkflow: its worker as it is, and one whose rounds of claims are called without its pauses. */
import { join } from "node:path";
import { OpenWorkflow } from "openworkflow";
import type { Figures, Settings } from "../benchmark.ts";
import { type Backend, completedSteps, openPostgres, openSqlite } from "../peers/openworkflow.ts";
import { sleep } from "../processes/clock.ts";
import { withDatabase } from "../server/databases.ts";
import { measureSteps, type StepRunner, type StepVariant, Stopwatch } from "./variants.ts";

type Place = "sqlite" | "postgres";

export function measureOpenWorkflow(on: Place, ticked: boolean) {
  return (settings: Settings<StepVariant>): Promise<Figures> => {
    const measure = (open: () => Promise<Backend>) =>
      measureSteps(settings, async () => runnerOn(await open(), settings.variant, ticked));
    if (on === "postgres") return withDatabase(on, (url) => measure(() => openPostgres(url)));
    const path = join(settings.directory, "openworkflow.db");
    return measure(async () => openSqlite(path, settings.synchronous));
  };
}

type Worker = ReturnType<OpenWorkflow["newWorker"]>;

/** Claims all runs, with a millisecond between two rounds. Its own loop pauses for 50 ms to 1 s when no slot is free. */
async function claimAll(worker: Worker, runs: number): Promise<void> {
  for (let claimed = 0; claimed < runs; ) {
    claimed += await worker.tick();
    await sleep(1);
  }
}

async function runnerOn(
  backend: Backend,
  { concurrency }: StepVariant,
  ticked: boolean,
): Promise<StepRunner> {
  const client = new OpenWorkflow({ backend });
  const stopwatch = new Stopwatch();
  const work = client.defineWorkflow<{ steps: number }, number>(
    { name: "work" },
    ({ input: { steps }, step }) => stopwatch.measured(steps, (name, fn) => step.run({ name }, fn)),
  );
  const worker = client.newWorker({ concurrency });
  if (!ticked) await worker.start();
  const ids: string[] = [];
  /** A function returns before the row of its run says that it has completed. A handle's `result` would look once a second. */
  const allRecorded = async () => {
    while ((await backend.countWorkflowRuns()).completed < ids.length) await sleep(1);
  };
  return {
    async run({ tasks, steps }) {
      const all = stopwatch.times(tasks);
      const handles = await Promise.all(Array.from({ length: tasks }, () => work.run({ steps })));
      ids.push(...handles.map(({ workflowRun }) => workflowRun.id));
      if (ticked) await claimAll(worker, tasks);
      await all;
      await allRecorded();
      const spent = stopwatch.spent();
      return { spent, results: await Promise.all(handles.map((handle) => handle.result())) };
    },
    async stored() {
      let steps = 0;
      for (const id of ids) steps += await completedSteps(backend, id);
      return steps;
    },
    async [Symbol.asyncDispose]() {
      await worker.stop();
      await backend.stop();
    },
  };
}
