/** Tells a scenario as a test: as much of it as `npm test` has time for. */
import { test } from "vitest";
import { seedOf } from "../support/random.ts";
import { onLinux } from "./linux.ts";
import { format, type Scenario, tell } from "./scenario.ts";

export function proves(scenario: Scenario): void {
  const unable = scenario.unable?.();
  const skips = unable !== undefined && process.env.DBQ_REQUIRE_ALL !== "1";
  if (skips) console.log(`${scenario.name} is skipped: ${unable}`);
  onLinux(scenario.name, () => {
    test.skipIf(skips)(scenario.about, { timeout: 120_000 }, async () => {
      if (unable !== undefined) throw new Error(`it cannot run here: ${unable}`);
      const { figures } = await tell(scenario, seedOf(scenario.name), scenario.amounts.test);
      console.log(`${scenario.name}: ${figures.map(format).join(", ")}`);
    });
  });
}
