/** Runs scenarios as tests, with the amount that fits into the test suite. */
import { test } from "vitest";
import { seedOf } from "../support/random.ts";
import { isMissing, type Server } from "../support/server.ts";
import { backendOf, type Kind } from "./backends/backend.ts";
import { onLinux } from "./linux.ts";
import { format, runScenario, type Scenario } from "./scenario.ts";

/** Milliseconds, for a scenario that hangs. */
const longest = 240_000;

/** On a file, or on a server of this kind that the scenario starts. */
export function proves(scenario: Scenario, kind: Kind = "sqlite"): void {
  const server = kind === "sqlite" ? undefined : `${kind}://`;
  const name = server === undefined ? scenario.name : `${scenario.name} on ${backendOf(server).name}`;
  const unable = scenario.unable?.(kind);
  const skips = unable !== undefined && process.env.DBQ_REQUIRE_ALL !== "1";
  if (skips) console.log(`${name} is skipped: ${unable}`);
  onLinux(name, () => {
    test.skipIf(skips)(scenario.about, { timeout: longest }, async () => {
      if (unable !== undefined) throw new Error(`cannot run here: ${unable}`);
      await runAsTest(scenario, scenario.amounts.test, server);
    });
  });
}

/** On a new database of a server. */
export function provesOn(server: Server, scenario: Scenario, amount: number): void {
  const name = server.url === undefined ? scenario.name : `${scenario.name} on ${backendOf(server.url).name}`;
  onLinux(name, () => {
    test.skipIf(isMissing(server))(scenario.about, { timeout: longest }, () =>
      runAsTest(scenario, amount, server.url),
    );
  });
}

async function runAsTest(scenario: Scenario, amount: number, server?: string): Promise<void> {
  const { figures } = await runScenario(scenario, { seed: seedOf(scenario.name), amount, server });
  console.log(`${scenario.name}: ${figures.map(format).join(", ")}`);
}
