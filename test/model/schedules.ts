/** Compares a store with the model of schedules; the same test for each database. */
import { beforeAll } from "vitest";
import { loadCroner } from "../../src/features/schedules/croner.ts";
import { type Compared, drawnCommands } from "./drawn-commands.ts";
import { realWithClock } from "./real-with-clock.ts";
import { ScheduleModel } from "./schedule-model.ts";
import { scheduleSteps } from "./schedule-steps.ts";

export function scheduleAgreement(compared: Compared): void {
  const emptied = realWithClock(compared.open);
  beforeAll(loadCroner);

  drawnCommands<ScheduleModel>(
    "a slot makes one task at most, and each schedule is what its definition says",
    compared,
    {
      steps: scheduleSteps(compared.faults),
      most: 40,
      setup: async () => ({ model: new ScheduleModel(), real: await emptied() }),
    },
  );
}
