/** OpenWorkflow: its worker as it is, and one whose rounds of claims are called without its pauses. */
import { join } from "node:path";
import { OpenWorkflow } from "openworkflow";
import type { Figures, Settings } from "../benchmark.ts";
import { type Backend, completedSteps, openPostgres, openSqlite } from "../peers/openworkflow.ts";
import { sleep } from "../processes/clock.ts";
import { withDatabase } from "../server/databases.ts";
import {
  Countdown,
  measureSteps,
  type StepRunner,
  type StepVariant,
  stepThrough,
  timed,
} from "./variants.ts";

type Place = "sqlite" | "postgres";

export function measureOpenWorkflow(on: Place, ticked: boolean) {
  return (settings: Settings<StepVariant>): Promise<Figures> => {
    const measure = (open: () => Promise<Backend>) =>
      measureSteps(settings, async () => runnerOn(await open(), ticked));
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

function runnerOn(backend: Backend, ticked: boolean): StepRunner {
  const client = new OpenWorkflow({ backend });
  const returned = new Countdown();
  const work = client.defineWorkflow<{ steps: number }, number>(
    { name: "work" },
    async ({ input: { steps }, step }) => {
      const sum = await stepThrough(steps, (name, fn) => step.run({ name }, fn));
      returned.hit();
      return sum;
    },
  );
  const ids: string[] = [];
  /** A function returns before the row of its run says that it has completed. A handle's `result` would look once a second. */
  const allRecorded = async () => {
    while ((await backend.countWorkflowRuns()).completed < ids.length) await sleep(1);
  };
  return {
    async run({ tasks, steps, concurrency }) {
      const handles = await Promise.all(Array.from({ length: tasks }, () => work.run({ steps })));
      ids.push(...handles.map(({ workflowRun }) => workflowRun.id));
      const worker = client.newWorker({ concurrency });
      const spent = await timed(async () => {
        const all = returned.times(tasks);
        await (ticked ? claimAll(worker, tasks) : worker.start());
        await all;
        await allRecorded();
      });
      await worker.stop();
      return { spent, results: await Promise.all(handles.map((handle) => handle.result())) };
    },
    async stored() {
      let steps = 0;
      for (const id of ids) steps += await completedSteps(backend, id);
      return steps;
    },
    [Symbol.asyncDispose]: () => backend.stop(),
  };
}
