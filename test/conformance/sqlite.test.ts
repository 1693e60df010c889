import { describe, it } from "vitest";
import { reasonToSkip, runCase, skippedOn } from "./case.ts";
import { sqliteStores } from "./stores.ts";
import { suite } from "./suite.ts";

// Milliseconds: several processes on a machine that is busy.
const timeout = 120_000;

describe.each(sqliteStores)("$name", (kind) => {
  for (const line of skippedOn(kind, suite)) console.log(line);
  describe.each(suite)("$name", ({ cases }) => {
    for (const one of cases)
      it.skipIf(reasonToSkip(one, kind) !== undefined)(one.name, { timeout }, () => runCase(kind, one));
  });
});
