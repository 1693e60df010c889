/**
 * The plans that Postgres makes of the statements which run all the time: beside any number of finished tasks and of tasks
 * for others, each finds its rows by an index and looks at few more than it wants: with statistics of the tables and
 * without, planned for what is asked and for anything that might be.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store } from "../../src/store.ts";
import { openPostgres } from "../../src/stores/postgres.ts";
import { newSchema, postgresServer, type Schema } from "../support/postgres.ts";
import { isMissing } from "../support/server.ts";
import { claim, claimBy, insertOne, newTask, outcomes, settle } from "./arrange.ts";
import { type Plan, type PlanMode, planOf, recorded } from "./postgres-plans.ts";

const many = 20_000;
const few = 200;
/** Of fewer, Postgres rather reads them all than look for a hundred. */
const attempts = 5 * many;

/** What a queue has that has been in use for a while, and that other workers are behind with. */
const filling = `
  alter table dbq_tasks set (autovacuum_enabled = off);
  insert into dbq_tasks (func, args, status, generation_id, finished_at)
    select 'resize', '["${"a".repeat(200)}"]', 'completed', 3, now() from generate_series(1, ${many});
  insert into dbq_tasks (func, priority) select 'other' || g % 10, g % 3 from generate_series(1, ${many}) g;
  insert into dbq_tasks (func, priority) select 'resize', g % 3 from generate_series(1, ${few}) g;
  insert into dbq_tasks (func, unique_key, status, wait_until)
    select 'resize', 'k' || g, 'scheduled', now() + g * interval '1 minute' from generate_series(1, ${many}) g;
  insert into dbq_tasks (func, status, generation_id, worker_id, started_at)
    select 'resize', 'running', 2, 'w' || g % 2, now() from generate_series(1, ${few}) g;
  insert into dbq_attempts (task_id, generation_id, outcome) select g, 2, 'failed' from generate_series(1, ${attempts}) g`;

let schema: Schema;
let store: Store;

/** The plans of all that a use of the store asks of the tables of tasks and attempts. */
async function plansOf(mode: PlanMode, use: (store: Store) => Promise<unknown>): Promise<Plan[]> {
  const plans: Plan[] = [];
  for (const asked of await recorded(schema.client, () => use(store)))
    plans.push(await planOf(schema.client, mode, asked));
  return plans;
}

/** The ids of some finished tasks, and of one that does not exist. */
const some = [1, 2, 3, 999_999];

async function firstRunning() {
  const [task] = await store.list({ status: ["running"] }, 1, undefined);
  if (!task) throw new Error("there is no running task");
  return task;
}

/** What runs for each task, or all the time while there is none; the index that it is for. */
const hot: readonly [name: string, index: RegExp, use: (store: Store) => Promise<unknown>][] = [
  ["claim", /dbq_tasks_claim/, (s) => claim(s)],
  [
    "claim of several functions",
    /dbq_tasks_claim/,
    (s) => claim(s, claimBy("w1", { funcs: ["resize", "x", "y"] })),
  ],
  ["claim of what nobody has enqueued", /dbq_tasks_claim/, (s) => claim(s, claimBy("w1", { funcs: ["x"] }))],
  ["completed", /dbq_tasks_pkey/, async (s) => settle(s, outcomes.completed(await firstRunning()))],
  ["failed", /dbq_tasks_pkey/, async (s) => settle(s, outcomes.failed(await firstRunning()))],
  ["retry", /dbq_tasks_pkey/, async (s) => settle(s, outcomes.retry(await firstRunning()))],
  ["get", /dbq_tasks_pkey/, (s) => s.get(some)],
  ["ended", /dbq_tasks_pkey/, (s) => s.ended(some)],
  ["standings", /dbq_tasks_pkey/, (s) => s.standings(some)],
  ["holder", /dbq_tasks_unique/, (s) => s.insert([newTask({ uniqueKey: "k1" })], "report")],
  ["nextDue", /dbq_tasks_due/, (s) => s.promote(10)],
  ["due", /dbq_tasks_due/, promoteDue],
  ["expired", /dbq_tasks_finished/, (s) => s.prune({ completed: 0, failed: 0, cancelled: 0 }, 10)],
  ["nothing expired", /dbq_tasks_finished/, (s) => s.prune({ completed: 1e9, failed: 0, cancelled: 0 }, 10)],
  ["heldBy", /dbq_tasks_running/, (s) => s.heldBy("w1")],
  ["held by nobody", /dbq_tasks_running/, (s) => s.heldBy("nobody")],
  ["orphans", /dbq_tasks_running/, (s) => s.rescueOrphans(1_000_000)],
  ["busy", /dbq_tasks_(claim|running)/, (s) => s.idle(["default"])],
  ["idle", /dbq_tasks_running/, (s) => s.idle(["nowhere"])],
  [
    "progress",
    /dbq_tasks_(pkey|running)/,
    async (s) => s.progress([{ ...(await firstRunning()), progress: 1, note: null }]),
  ],
  ["attempts", /dbq_attempts_task/, (s) => s.attempts(7)],
  ["a page of the list", /dbq_tasks_pkey/, (s) => s.list({}, 50, 10_000)],
  ["cancel", /dbq_tasks_pkey/, async (s) => s.cancel(await insertOne(s), "{}")],
];

async function promoteDue(s: Store) {
  await schema.client.query("update dbq_tasks set wait_until = now() where unique_key in ('k2', 'k3')");
  return await s.promote(10);
}

/** Of 60,000 rows: some times what the statements want, which is no more than 50. */
const mostRows = 1_000;
const mostPages = 1_000;

const server = await postgresServer();

describe.skipIf(isMissing(server)).each([false, true])("Postgres, analysed: %s", (analysed) => {
  beforeAll(async () => {
    schema = await newSchema();
    store = await openPostgres(schema.url, { migrate: true });
    await schema.client.query(filling);
    if (analysed) await schema.client.query("analyze dbq_tasks; analyze dbq_attempts");
  });
  afterAll(async () => {
    await store?.close();
    await schema?.drop();
  });

  describe.each(["force_custom_plan", "force_generic_plan"] as const)("%s", (mode) => {
    it.each(hot)("%s finds its rows by an index", async (_, index, use) => {
      const plans = await plansOf(mode, use);
      expect(plans.flatMap(({ indexes }) => indexes).join()).toMatch(index);
      for (const { text, ...plan } of plans) {
        expect.soft(plan.scanned, text).toEqual([]);
        // Without statistics it may go through all of a partial index.
        expect.soft(plan.rows, text).toBeLessThan(analysed ? mostRows : many + mostRows);
        expect.soft(plan.pages, text).toBeLessThan(mostPages);
      }
    });
  });
});
