/** Workers that die: made by processes that are really killed, on each database. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { task } from "../../../src/index.ts";
import { startScript } from "../../fixtures/harness.ts";
import { poison } from "../../fixtures/tasks.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import {
  startedWorker,
  temporaryFolder,
  temporaryQueue,
  uniqueName,
  urlForTest,
} from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const other = task(uniqueName(), () => undefined);

const places = [
  ["SQLite", true, async () => join(temporaryFolder(), "dbq.db")],
  ["Postgres", !isMissing(await postgresServer()), () => urlForTest(newSchema)],
  ["MySQL or MariaDB", !isMissing(await mysqlServer()), () => urlForTest(newDatabase)],
] as const;

for (const [name, isThere, place] of places)
  test.skipIf(!isThere)(
    `a function that has killed three workers is crashing, on ${name}`,
    async () => {
      const database = await place();
      const queue = await temporaryQueue({}, database);
      const id = await queue.enqueueTask(poison.with({ maxRetries: 9 }));
      const crashing = async () => (await queue.listCauses()).filter(({ kind }) => kind === "crashing");
      const eventLog = join(temporaryFolder(), "events.jsonl");
      for (let died = 1; died <= 3; died += 1) {
        expect(await startScript("worker.ts", [database, eventLog]).ended).toBe("SIGKILL");
        // It does not have the function, and rescues its task.
        const rescuer = await startedWorker(queue, { tasks: [other] });
        await expect.poll(async () => (await queue.listAttempts(id)).length, { timeout: 20_000 }).toBe(died);
        await rescuer.stop();
        expect(await crashing()).toHaveLength(died === 3 ? 1 : 0);
      }
      const [cause] = await crashing();
      expect(cause).toMatchObject({
        key: "crashing:func:poison",
        severity: "critical",
        func: "poison",
        why: "3 workers died within 10 min while they ran poison",
        fix: { command: "dbq pause --func poison", action: { on: "functions", action: "pause" } },
      });
      expect(Date.now() - (cause?.since.getTime() ?? 0)).toBeLessThan(120_000);
      await queue.setCauseThresholds({ crashingWorkers: 4 });
      expect(await crashing()).toEqual([]);
    },
    120_000,
  );
