/** Compares a store with the model of workflows; the same test for each database. */
import { newWorker } from "../conformance/arrange.ts";
import { type Compared, drawnCommands } from "./drawn-commands.ts";
import { realWithClock } from "./real-with-clock.ts";
import { FlowModel } from "./workflow-model.ts";
import { workflowSteps } from "./workflow-steps.ts";

export function workflowAgreement(compared: Compared): void {
  const emptied = realWithClock(compared.open);

  drawnCommands<FlowModel>(
    "each end, event and time wakes the tasks that wait for it, once, and no other one",
    compared,
    {
      steps: workflowSteps(compared.faults),
      most: 100,
      setup: async () => {
        const real = await emptied();
        await real.store.register(newWorker("w1", { concurrency: 1_000 }));
        return { model: new FlowModel(), real };
      },
    },
  );
}
