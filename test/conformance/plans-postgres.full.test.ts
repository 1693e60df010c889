/**
 * The plans of Postgres for the statements that run all the time. Each statement must find its rows by an index and
 * read few more rows than it needs, beside any number of finished tasks and of tasks for other workers. Tested with and
 * without table statistics, with those of another time, with custom and generic plans, and with plans made while the tables
 * were empty.
 */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, test, vi } from "vitest";
import type { FullStore } from "../../src/features/store.ts";
import type { Wait } from "../../src/features/workflows/contract.ts";
import { configOf } from "../../src/stores/postgres/connection.ts";
import { openPostgres } from "../../src/stores/postgres/store.ts";
import { readServerUrl } from "../../src/stores/server/url.ts";
import { newSchema, newSchemaAlone, postgresServer, type Schema } from "../support/postgres.ts";
import { isMissing } from "../support/server.ts";
import { claim, claimBy, insertOne, newTask, outcomes, settle } from "./arrange.ts";
import { type Asked, type Plan, type PlanMode, planOf, plansMadeBefore, recorded } from "./postgres-plans.ts";

const many = 20_000;
const few = 200;
/** With fewer rows, Postgres prefers to read the whole table over a hundred index lookups. */
const attempts = 5 * many;

/**
 * Autovacuum would analyse the tables during the test. This comes first, because a change of a table's settings
 * discards all plans.
 */
const unattended =
  "alter table dbq_tasks set (autovacuum_enabled = off); alter table dbq_waits set (autovacuum_enabled = off)";

/** A task that waits for very many others by a wait for each, and one that does so by one wait for all. */
const [parentId, parentOfMany] = [999, 998];

/** The content of a queue that has been in use for a while, with a backlog for other workers. */
const filling = `
  insert into dbq_tasks (func, args, status, generation_id, finished_at, request_id)
    select 'resize', '["${"a".repeat(200)}"]', 'completed', 3, now(), 'import' from generate_series(1, ${many});
  insert into dbq_tasks (func, priority) select 'other' || g % 10, g % 3 from generate_series(1, ${many}) g;
  insert into dbq_tasks (func, priority) select 'resize', g % 3 from generate_series(1, ${few}) g;
  insert into dbq_tasks (func, unique_key, request_id, status, wait_until)
    select 'resize', 'k' || g, 'r' || g, 'scheduled', now() + g * interval '1 minute' from generate_series(1, ${many}) g;
  insert into dbq_tasks (func, parent_id) select 'other', ${parentOfMany} from generate_series(1, ${many}) g;
  insert into dbq_tasks (func, status, generation_id, worker_id, started_at)
    select 'resize', 'running', 2, 'w' || g % 2, now() from generate_series(1, ${few}) g;
  insert into dbq_waits (task_id, name, kind, target, mode)
    select case g % 4 when 0 then ${parentId} else 100000 + g / 4 end, 'child ' || g, 'child', g, 'all:1'
    from generate_series(1, ${many} * 4) g;
  insert into dbq_attempts (task_id, generation_id, outcome) select g, 2, 'failed' from generate_series(1, ${attempts}) g;
  insert into dbq_task_logs (task_id, generation_id, message) select g, 2, 'a line' from generate_series(1, ${attempts}) g`;

let schema: Schema;
let store: FullStore;

/** The plans of all statements that `use` runs on the tables of tasks and attempts. */
async function plansOf(mode: PlanMode, use: (store: FullStore) => Promise<unknown>): Promise<Plan[]> {
  const plans: Plan[] = [];
  for (const asked of await recorded(schema.client, () => use(store)))
    plans.push(await planOf(schema.client, mode, asked));
  return plans;
}

/** The ids of three finished tasks, and of one that does not exist. */
const some = [1, 2, 3, 999_999];

async function firstRunning() {
  const [task] = await store.list({ status: ["running"] }, 1, undefined);
  if (!task) throw new Error("there is no running task");
  return task;
}

async function claimBehindRefused(s: FullStore) {
  const refused = Array.from({ length: 20 }, () => newTask({ func: "sensitive", maxRetries: 0 }));
  await s.insert([...refused, newTask({ func: "sensitive" })], "report");
  const claimed = await claim(s, claimBy("w1", { funcs: ["sensitive"], limit: 2, crashSensitive: 0 }));
  expect(claimed).toHaveLength(1);
}

/** The statements that run for each task, or while a worker is idle, and the index that each should use. */
const hot: readonly [name: string, index: RegExp, use: (store: FullStore) => Promise<unknown>][] = [
  ["claim", /dbq_tasks_claim/, (s) => claim(s)],
  [
    "claim of several functions",
    /dbq_tasks_claim/,
    (s) => claim(s, claimBy("w1", { funcs: ["resize", "x", "y"] })),
  ],
  ["claim of tasks behind refused ones", /dbq_tasks_claim/, claimBehindRefused],
  ["claim of a function without tasks", /dbq_tasks_claim/, (s) => claim(s, claimBy("w1", { funcs: ["x"] }))],
  ["completed", /dbq_tasks_pkey/, async (s) => settle(s, outcomes.completed(await firstRunning()))],
  ["failed", /dbq_tasks_pkey/, async (s) => settle(s, outcomes.failed(await firstRunning()))],
  ["retry", /dbq_tasks_pkey/, async (s) => settle(s, outcomes.retry(await firstRunning()))],
  [
    "the end of one of many children",
    /dbq_waits_target/,
    async (s) => settle(s, { ...outcomes.completed(await firstRunning()), parentId }),
  ],
  ["the end of the last of many children", /dbq_tasks_parent/, endOfNamed],
  ["a task that begins to wait for many children", /dbq_tasks_pkey/, parked],
  [
    "the failure of one of many children",
    /dbq_waits_task/,
    async (s) => settle(s, { ...outcomes.failed(await firstRunning()), parentId: parentOfMany }),
  ],
  ["get", /dbq_tasks_pkey/, (s) => s.get(some)],
  ["ended", /dbq_tasks_pkey/, (s) => s.findEnded(some)],
  ["standings", /dbq_tasks_pkey/, (s) => s.taskStates(some)],
  ["holder", /dbq_tasks_unique/, (s) => s.insert([newTask({ uniqueKey: "k1" })], "report")],
  ["nextDue", /dbq_tasks_due/, (s) => s.promote(10)],
  ["due", /dbq_tasks_due/, promoteDue],
  ["expired", /dbq_tasks_finished/, (s) => s.prune({ completed: 0, failed: 0, cancelled: 0 }, 10)],
  ["nothing expired", /dbq_tasks_finished/, (s) => s.prune({ completed: 1e9, failed: 0, cancelled: 0 }, 10)],
  ["heldBy", /dbq_tasks_running/, (s) => s.heldBy("w1")],
  ["held by an unknown worker", /dbq_tasks_running/, (s) => s.heldBy("nobody")],
  ["orphans", /dbq_tasks_running/, (s) => s.rescueOrphans(1_000_000)],
  ["busy", /dbq_tasks_(claim|running)/, (s) => s.idle(["default"])],
  ["idle", /dbq_tasks_running/, (s) => s.idle(["nowhere"])],
  [
    "progress",
    /dbq_tasks_pkey/,
    async (s) => s.progress([{ ...(await firstRunning()), progress: 1, note: null }]),
  ],
  ["attempts", /dbq_attempts_task/, (s) => s.attempts(7)],
  [
    "log",
    /dbq_tasks_pkey/,
    async (s) => s.log([{ ...(await firstRunning()), at: 0, message: "a line" }], 1_000),
  ],
  [
    "logs",
    /dbq_task_logs_task/,
    (s) =>
      s.logs(
        [
          { id: 7, after: 0 },
          { id: 9, after: 3 },
        ],
        1_000,
      ),
  ],
  ["progress of watched tasks", /dbq_tasks_pkey/, (s) => s.taskProgress(some)],
  ["a page of the list", /dbq_tasks_pkey/, (s) => s.list({}, 50, 10_000)],
  ["tasks that have ended last", /dbq_tasks_finished/, endedLast],
  ["drained tasks to forget", /dbq_tasks_finished/, (s) => s.drains.forget("mail", 0, 0, 400)],
  ["a range of a request with very many tasks", /dbq_tasks_pkey/, listRange],
  ["cancel", /dbq_tasks_pkey/, async (s) => s.cancel(await insertOne(s), "{}")],
];

async function parked(s: FullStore) {
  const running = await firstRunning();
  const { rows } = await schema.client.query(
    `insert into dbq_tasks (func, parent_id) select 'other', ${running.id} from generate_series(1, 150) returning id`,
  );
  const waits = rows.map(
    ({ id }): Wait => ({
      ...{ name: `child ${id}`, kind: "child", target: String(id), until: null, mode: "all:1" },
    }),
  );
  expect(await s.workflows.wait(running, waits, true)).toMatchObject({ parked: true });
  expect(await s.workflows.waits([running.id])).toHaveLength(1);
  // The statements run once more for their plans.
  await schema.client.query(`delete from dbq_waits where task_id = ${running.id}`);
}

async function endOfNamed(s: FullStore) {
  const running = await firstRunning();
  const { id } = running;
  await schema.client.query(
    `insert into dbq_waits (task_id, name, kind, target, mode) values (${parentOfMany}, 'to ${id}', 'child', '${id}', 'all:1 of 1-${id}')`,
  );
  await settle(s, { ...outcomes.completed(running), parentId: parentOfMany });
  const [wait] = await s.workflows.waits([parentOfMany]);
  expect(Number(wait?.target)).toBeLessThan(id);
  await schema.client.query(`delete from dbq_waits where task_id = ${parentOfMany}`);
}

async function listRange(s: FullStore) {
  const range = { after: 10_500, from: 10_000 };
  expect(await s.look.listRange({ requestId: "import" }, 50, range, 100)).toHaveLength(50);
  expect(await s.look.countRange({ requestId: "import" }, range)).toBe(500);
}

/** Beside a head that fewer tasks than `enough` have overtaken. */
async function endedLast(s: FullStore) {
  const { rows } = await schema.client.query("select min(id) as id from dbq_tasks where func = 'other1'");
  const [taskId, place] = [Number(rows[0].id), { queueName: "default", func: "other1", priority: 1 }];
  const head = { ...place, taskId, group: null, age: 60_000 };
  const { now } = await s.causes.stored();
  return await s.causes.started([head], { next: 20, ended: 400, enough: 1_000 }, now);
}

async function promoteDue(s: FullStore) {
  await schema.client.query("update dbq_tasks set wait_until = now() where unique_key in ('k2', 'k3')");
  return await s.promote(10);
}

/** Of 60,000 rows: a multiple of the at most 50 rows that the statements need. */
const mostRows = 1_000;
const mostPages = 1_000;

const server = await postgresServer();

describe.skipIf(isMissing(server)).each([false, true])("Postgres with statistics: %s", (analysed) => {
  beforeAll(async () => {
    schema = await newSchema();
    store = await openPostgres(schema.url, { migrate: true });
    await schema.client.query(`${unattended}; ${filling}`);
    if (analysed)
      await schema.client.query(
        "analyze dbq_tasks; analyze dbq_attempts; analyze dbq_task_logs; analyze dbq_waits",
      );
  });
  afterAll(async () => {
    await store?.close();
    await schema?.drop();
  });

  describe.each(["force_custom_plan", "force_generic_plan"] as const)("%s", (mode) => {
    it.each(hot)("%s finds its rows by an index", async (_, index, use) => {
      const plans = await plansOf(mode, use);
      expect(plans.flatMap(({ indexes }) => indexes).join()).toMatch(index);
      // Without statistics, a statement may read a whole partial index.
      for (const plan of plans) expectFew(plan, analysed ? mostRows : many + mostRows);
    });
  });
});

describe.skipIf(isMissing(server))("Postgres with statistics of a backlog that was the whole table", () => {
  beforeAll(async () => {
    schema = await newSchema();
    store = await openPostgres(schema.url, { migrate: true });
    await schema.client.query(
      `${unattended}; insert into dbq_tasks (func) select 'resize' from generate_series(1, ${many})`,
    );
    await schema.client.query("vacuum analyze dbq_tasks");
    await schema.client.query(
      `update dbq_tasks set status = 'completed', finished_at = now() where id <= ${many - few}`,
    );
  });
  afterAll(async () => {
    await store?.close();
    await schema?.drop();
  });

  it.each(["force_custom_plan", "force_generic_plan"] as const)(
    "a claim passes over no task that has ended: %s",
    async (mode) => {
      for (const plan of await plansOf(mode, (s) => claim(s))) expectFew(plan, mostRows);
    },
  );
});

test.skipIf(isMissing(server))(
  "a backlog is counted by an index alone, once the table is vacuumed",
  async () => {
    schema = await newSchema();
    store = await openPostgres(schema.url, { migrate: true });
    onTestFinished(async () => {
      await store.close();
      await schema.drop();
    });
    await schema.client.query(
      `insert into dbq_tasks (func, args) select 'resize', '["${"a".repeat(200)}"]' from generate_series(1, ${many})`,
    );
    await vacuumed(schema.client);
    const plans = await plansOf("force_custom_plan", (s) => s.health.backlog(many, many));
    const counting = plans.filter(({ text }) => text.includes("count(*)"));
    // The rows alone are on 800 pages.
    expect(counting.map(({ pages }) => pages < 300)).toEqual([true]);
  },
  90_000,
);

/** A vacuum marks no page as visible to all while another test of this server has an older transaction open. */
async function vacuumed(client: Schema["client"]): Promise<void> {
  const isVisibleToAll = async () => {
    await client.query("vacuum analyze dbq_tasks");
    const { rows } = await client.query(
      "select relallvisible >= relpages as all from pg_class where oid = 'dbq_tasks'::regclass",
    );
    return rows[0]?.all === true;
  };
  await vi.waitUntil(isVisibleToAll, { timeout: 60_000, interval: 200 });
}

function expectFew({ text, scanned, rows, pages }: Plan, most: number): void {
  expect.soft(scanned, text).toEqual([]);
  expect.soft(rows, text).toBeLessThan(most);
  expect.soft(pages, text).toBeLessThan(mostPages);
}

/** A connection with the store's own settings, on the same schema. */
async function connected({ url }: Schema): Promise<Client> {
  const server = readServerUrl(url, { port: 5432, user: "postgres" });
  const client = new Client({ ...configOf(server, "own"), ...server.hosts[0] });
  await client.connect();
  return client;
}

describe.skipIf(isMissing(server)).each(["skip-locked", "optimistic"] as const)(
  "Postgres, %s, with plans made while the tables were empty",
  (strategy) => {
    const asked = new Map<string, Asked[]>();
    const plans = new Map<string, Plan>();

    beforeAll(async () => {
      const [filled, empty] = [await newSchema(), await newSchemaAlone()];
      [schema, store] = [filled, await openPostgres(filled.url, { migrate: true, strategy })];
      await filled.client.query(`${unattended}; ${filling}`);
      for (const [name, , use] of hot) asked.set(name, await recorded(filled.client, () => use(store)));
      const each = new Map([...asked.values()].flat().map((statement) => [statement.text, statement]));
      await (await openPostgres(empty.url, { migrate: true })).close();
      await empty.client.query(unattended);
      for (const table of ["dbq_tasks", "dbq_attempts", "dbq_task_logs"])
        await empty.client.query(`vacuum analyze ${table}`);
      const client = await connected(empty);
      const made = await plansMadeBefore(client, [...each.values()], () => empty.client.query(filling));
      for (const plan of made) plans.set(plan.text, plan);
      await client.end();
      await store.close();
      await filled.drop();
      await empty.drop();
    });

    it.each(hot)("%s finds its rows by an index after the tables were filled", (name) => {
      const own = (asked.get(name) ?? []).flatMap(({ text }) => plans.get(text) ?? []);
      expect(own.length).toBeGreaterThan(0);
      for (const plan of own) expectFew(plan, mostRows);
    });
  },
);
