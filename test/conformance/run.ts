/** The suite, given to the test runner. */
import { afterAll, describe, it } from "vitest";
import { isMissing, type Server } from "../support/server.ts";
import { type Kind, leftOutOf, reasonToLeaveOut, runCase } from "./case.ts";
import { suite } from "./suite.ts";

// Milliseconds: several processes on a machine that is busy.
const timeout = 120_000;

/** Every case on each of these kinds; a line for what is left out. */
export function runSuite(kinds: readonly Kind[]): void {
  describe.each(kinds)("$name", (kind) => {
    for (const line of leftOutOf(kind, suite)) console.log(line);
    afterAll(() => kind.end?.());
    for (const { name, cases } of suite) {
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
