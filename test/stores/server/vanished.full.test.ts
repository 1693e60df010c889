/** The server ends the transaction of a machine that vanished from the network: its locks would keep its tasks from others. */
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { TaskRecord } from "../../../src/task.ts";
import { claim, insertOne, newWorker, outcomes, recordOf, settle } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { wireTo } from "./cut-wire.ts";
import { openedMysql, openedPostgres } from "./stores.ts";

const kinds = [
  { name: "MySQL", server: await mysqlServer(), create: newDatabase, open: openedMysql },
  { name: "Postgres", server: await postgresServer(), create: newSchema, open: openedPostgres },
];

describe.each(kinds)("$name", ({ server, create, open }) => {
  it.skipIf(isMissing(server))(
    "a task is freed whose worker vanished inside of a transaction",
    { timeout: 60_000 },
    async () => {
      const { url, drop } = await create();
      onTestFinished(drop);
      const [here, wire] = [await open(url), await wireTo(url)];
      const there = await open(wire.url);
      const id = await insertOne(here);
      await there.register(newWorker());
      const [task] = (await claim(there)) as [TaskRecord];
      wire.cutBefore("commit");
      settle(there, outcomes.failed(task)).catch(() => undefined);
      await wire.wasCut;
      const isFree = async () => {
        await here.rescue("w1", (await here.workers())[0]?.beat ?? -1);
        await here.rescueOrphans(0);
        return (await recordOf(here, id)).status === "pending";
      };
      await vi.waitUntil(isFree, { timeout: 15_000, interval: 500 });
      expect(await recordOf(here, id)).toMatchObject({ retryCount: 1 });
    },
  );
});
