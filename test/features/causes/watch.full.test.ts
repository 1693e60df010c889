/** Watchers of causes on servers, and in processes that are killed. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { start } from "../../fixtures/processes.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryFolder, temporaryQueue, urlForTest } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { until } from "../../worker/setup.ts";
import { watchCases } from "./watch-cases.ts";

const nobody = remoteTask<() => Promise<void>>("nobody");
const isMysqlThere = !isMissing(await mysqlServer());

describe.skipIf(isMissing(await postgresServer()))("on a server", () => {
  watchCases("Postgres", () => urlForTest(newSchema));
});

describe.skipIf(!isMysqlThere)("on a server", () => {
  watchCases("MySQL or MariaDB", () => urlForTest(newDatabase));
});

const places = [
  ["SQLite", true, async () => join(temporaryFolder(), "dbq.db")],
  ["Postgres", !isMissing(await postgresServer()), () => urlForTest(newSchema)],
  ["MySQL or MariaDB", isMysqlThere, () => urlForTest(newDatabase)],
] as const;

for (const [name, isThere, place] of places)
  test.skipIf(!isThere)(
    `a watcher that is killed while it reports is followed by another, which reports the same and then the rest, on ${name}`,
    async () => {
      const database = await place();
      const queue = await temporaryQueue({}, database);
      await queue.setCauseThresholds({ pilingTasks: 1 });
      const begin = async (schedule: string) => {
        await queue.schedule(schedule, { every: "1h", overlap: "allow" }, nobody);
        await queue.triggerSchedule(schedule);
      };
      await begin("a");
      const said = ({ output }: { output(): string }) =>
        output()
          .split("\n")
          .filter((line) => line.includes("piling"));
      const killed = start("cause-watcher.ts", database, "hangs");
      await until(() => said(killed).length === 1);
      const others = [start("cause-watcher.ts", database), start("cause-watcher.ts", database)];
      const all = () => others.flatMap(said);
      for (const { output } of others) await until(() => output().includes("watching"));
      await begin("b");
      expect(all()).toEqual([]);
      await killed.kill();
      await until(() => all().length === 2);
      await begin("c");
      await until(() => all().length === 3);
      expect(said(killed)).toEqual(["began piling:a"]);
      expect(all()).toEqual(["began piling:a", "began piling:b", "began piling:c"]);
    },
    60_000,
  );
