import { describe, onTestFinished } from "vitest";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { owedHookCases } from "./cases.ts";

describe.skipIf(isMissing(await postgresServer()))("on a server", () => {
  owedHookCases("Postgres", async () => {
    const { url, drop } = await newSchema();
    onTestFinished(drop);
    return url;
  });
});
