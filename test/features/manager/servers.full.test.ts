import { onTestFinished } from "vitest";
import { openQueue } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { attackCases } from "./attacks.ts";
import { managerCases } from "./cases.ts";
import { limitCases } from "./limit-cases.ts";
import type { Open } from "./setup.ts";

const onServer = (make: () => Promise<{ url: string; drop(): Promise<void> }>) => async (): Promise<Open> => {
  const { url, drop } = await make();
  onTestFinished(drop);
  return async () => {
    const queue = await openQueue(url);
    onTestFinished(() => queue.close());
    return queue;
  };
};

const places = [
  ["on Postgres", await postgresServer(), onServer(newSchema)],
  ["on MySQL and MariaDB", await mysqlServer(), onServer(newDatabase)],
] as const;
for (const [name, server, place] of places) {
  if (isMissing(server)) continue;
  managerCases(name, place);
  limitCases(name, place);
  attackCases(name, place);
}
