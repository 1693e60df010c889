import { onTestFinished } from "vitest";
import { openQueue } from "../../../src/index.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { managerCases } from "./cases.ts";
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

if (!isMissing(await postgresServer())) managerCases("on Postgres", onServer(newSchema));
if (!isMissing(await mysqlServer())) managerCases("on MySQL and MariaDB", onServer(newDatabase));
