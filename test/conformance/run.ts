/** The suite, given to the test runner. */
import { afterAll, describe, it } from "vitest";
import { proofOf } from "../support/amount.ts";
import { isMissing, type Server } from "../support/server.ts";
import { type Group, type Kind, leftOutOf, reasonToLeaveOut, runCase } from "./case.ts";
import { suite } from "./suite.ts";

// Milliseconds: several processes on a machine that is busy.
const timeout = 120_000;

/** The groups of the suite that this kind runs. */
function groupsFor({ name, concerns }: Kind): readonly Group[] {
  if (concerns === undefined) return suite;
  const sample = proofOf(suite, (group) => `${name}: ${group.name}`);
  // A small sample may hold none.
  const groups = sample.length > 0 ? sample : suite.filter((group) => concerns.includes(group.name));
  console.log(`${name}: ${groups.length} of ${suite.length} groups; npm run proof runs all`);
  return groups;
}

/** The cases on each of these kinds; a line for what is left out. */
export function runSuite(kinds: readonly Kind[]): void {
  describe.each(kinds)("$name", (kind) => {
    const groups = groupsFor(kind);
    for (const line of leftOutOf(kind, groups)) console.log(line);
    afterAll(() => kind.end?.());
    for (const { name, cases } of groups) {
      const applicable = cases.filter((one) => reasonToLeaveOut(one, kind) === undefined);
      if (applicable.length === 0) continue;
      describe(name, () => {
        for (const one of applicable) it(one.name, { timeout }, () => runCase(kind, one));
      });
    }
  });
}

/** The same where there is a server. Here, the time is not that of any server's: nothing may depend on it. */
export function runSuiteOn(server: Server, kinds: readonly Kind[]): void {
  process.env.TZ = "America/St_Johns";
  if (!isMissing(server)) runSuite(kinds);
  else for (const { name } of kinds) it.skip(`${name}: ${server.reason}`);
}
