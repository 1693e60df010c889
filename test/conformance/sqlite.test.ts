import { describe, it } from "vitest";
import { leftOutOf, reasonToLeaveOut, runCase } from "./case.ts";
import { sqliteStores } from "./stores.ts";
import { suite } from "./suite.ts";

// Milliseconds: several processes on a machine that is busy.
const timeout = 120_000;

describe.each(sqliteStores)("$name", (kind) => {
  for (const line of leftOutOf(kind, suite)) console.log(line);
  for (const { name, cases } of suite) {
    const applicable = cases.filter((one) => reasonToLeaveOut(one, kind) === undefined);
    if (applicable.length === 0) continue;
    describe(name, () => {
      for (const one of applicable) it(one.name, { timeout }, () => runCase(kind, one));
    });
  }
});
