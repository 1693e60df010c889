/** Registers the suite with the test runner. */
import { afterAll, describe, it } from "vitest";
import { proofOf } from "../support/amount.ts";
import { isMissing, type Server } from "../support/server.ts";
import { type Group, type Kind, leftOutOf, reasonToLeaveOut, runCase } from "./case.ts";
import { suite } from "./suite.ts";

// Milliseconds, for several processes on a busy machine.
const timeout = 120_000;

/** The groups of the suite that run on this kind; `among` is for kinds that all groups concern. */
function groupsFor({ name, concerns }: Kind, among: readonly Group[]): readonly Group[] {
  if (concerns === undefined) return among;
  const all = proofOf(suite);
  const groups = all.length > 0 ? all : suite.filter((group) => concerns.includes(group.name));
  console.log(`${name}: ${groups.length} of ${suite.length} groups; npm run proof runs all`);
  return groups;
}

/** Runs the cases on each of these kinds; prints a line for each reason why cases are left out. */
export function runSuite(kinds: readonly Kind[], among = suite): void {
  describe.each(kinds)("$name", (kind) => {
    const groups = groupsFor(kind, among);
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

/** Runs the cases on the kinds of a server. The time zone differs from any server's: no result may depend on it. */
export function runSuiteOn(server: Server, kinds: readonly Kind[], among = suite): void {
  process.env.TZ = "America/St_Johns";
  if (!isMissing(server)) runSuite(kinds, among);
  else for (const { name } of kinds) it.skip(`${name}: ${server.reason}`);
}
