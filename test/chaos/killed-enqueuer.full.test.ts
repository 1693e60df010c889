/**
 * Invariant: a task whose enqueue was acknowledged is in the database, whatever happens to the process that enqueued
 * it. A batch is there as a whole or not at all, and so are an app's order and its task.
 */
import { expect, test } from "vitest";
import { testHarness } from "../fixtures/processes.ts";
import { audit } from "./audit.ts";
import { demand } from "./checker.ts";
import { historyOf } from "./history.ts";
import { onLinux, patient } from "./linux.ts";

onLinux("an enqueuer that is killed", () => {
  test.each([1, 60, 200])(
    "an enqueuer killed after %i acknowledged tasks loses none of them",
    patient,
    async (acknowledged) => {
      const harness = await testHarness();
      await audit(harness.database);
      const enqueuer = harness.start("enqueuer.ts", [{ count: 100_000 }]);
      await harness.eventLog.count("acknowledged", acknowledged);
      await enqueuer.kill();
      const history = await historyOf(harness);
      expect(history.tasks.length).toBeGreaterThan(0);
      demand(history, { ended: false });
    },
  );
});
