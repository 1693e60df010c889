/**
 * SQLite's plans for the statements that run all the time, on a database without statistics: each finds its rows by the
 * index made for it, in the order that it needs, beside any number of finished tasks.
 */
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import type { FullStore } from "../../src/features/store.ts";
import { openSqliteDatabase } from "../../src/stores/sqlite/store.ts";
import {
  claim,
  claimBy,
  insert,
  newTask,
  newWorker,
  outcomes,
  recordOf,
  running,
  settle,
} from "./arrange.ts";

/** A connection that records the text of each statement. */
class Recording extends Database {
  readonly texts: string[] = [];

  override prepare: Database.Database["prepare"] = ((text: string) => {
    const statement = super.prepare(text);
    for (const name of ["run", "get", "all"] as const) {
      const method = statement[name];
      statement[name] = (...params: unknown[]) => {
        this.texts.push(text);
        return method.apply(statement, params) as never;
      };
    }
    return statement;
  }) as Database.Database["prepare"];
}

/** A statement, and SQLite's plan for it: one line for each table that it reads. */
interface Plan {
  text: string;
  steps: string[];
}

async function opened(): Promise<{ client: Recording; store: FullStore }> {
  const client = new Recording(":memory:");
  onTestFinished(() => void client.close());
  const store = await openSqliteDatabase(drizzle({ client }), { migrate: true, synchronous: "full" });
  return { client, store };
}

function planOf(client: Database.Database, text: string): Plan {
  // The parameters stay unbound, as in a prepared statement: the plan must not depend on their values.
  const nothing = [...text.matchAll(/\?/g)].map(() => null);
  const rows = client.prepare<unknown[], { detail: string }>(`explain query plan ${text}`).all(...nothing);
  return { text, steps: rows.map(({ detail }) => detail) };
}

/** The plans of all statements that `use` runs, on tables that `fill` has filled. */
async function plansOf(use: (store: FullStore) => Promise<unknown>, analyse = false): Promise<Plan[]> {
  const { client, store } = await opened();
  await fill(store);
  if (analyse) client.exec("analyze");
  const again = await openSqliteDatabase(drizzle({ client }), { migrate: false, synchronous: "full" });
  client.texts.length = 0;
  await use(again);
  const texts = [...new Set(client.texts)].filter((text) =>
    /dbq_(tasks|attempts|task_logs|workers)/.test(text),
  );
  return texts.map((text) => planOf(client, text));
}

/** Mostly finished tasks, as in a queue that has been in use, and some in each other status. */
async function fill(store: FullStore): Promise<void> {
  await insert(store, ...Array.from({ length: 300 }, () => ({})));
  const claimed = await claim(store, claimBy("w1", { limit: 300 }));
  await settle(store, ...claimed.slice(20).map(outcomes.completed));
  await insert(store, ...Array.from({ length: 20 }, (_, i) => ({ delay: 60_000, uniqueKey: `k${i}` })));
  await insert(store, ...Array.from({ length: 20 }, (_, i) => ({ priority: i % 3 })));
}

const searches = (index: string) => new RegExp(`^SEARCH dbq_tasks USING (COVERING )?INDEX ${index}\\b`);
const byId = /^SEARCH dbq_tasks USING INTEGER PRIMARY KEY \(rowid=\?\)( LEFT-JOIN)?$/;

/** The statements that run for each task, or while a worker is idle. */
const hot: readonly [
  name: string,
  which: RegExp,
  how: RegExp,
  use: (store: FullStore) => Promise<unknown>,
][] = [
  ["claimable", /order by priority desc, id limit/, searches("dbq_tasks_claim"), (s) => claim(s)],
  [
    "claim of several functions",
    /order by priority desc, id limit/,
    searches("dbq_tasks_claim"),
    (s) => claim(s, claimBy("w1", { funcs: ["resize", "other", "third"] })),
  ],
  ["claim", /^\s*update +dbq_tasks .* status = 'running'/, byId, (s) => claim(s)],
  [
    "complete",
    /^\s*update +dbq_tasks .* status = 'completed'/,
    byId,
    async (s) => await settle(s, outcomes.completed(await firstRunning(s))),
  ],
  [
    "finish",
    /^\s*update +dbq_tasks .* status = \?, .* finished_at/s,
    byId,
    async (s) => await settle(s, outcomes.failed(await firstRunning(s))),
  ],
  [
    "release",
    /^\s*update +dbq_tasks .* status = \?, .* retry_count/s,
    byId,
    async (s) => await settle(s, outcomes.retry(await firstRunning(s))),
  ],
  ["standings", /select id, generation_id, status/, byId, (s) => s.taskStates([1, 2, 3])],
  ["ended", /left join dbq_tasks/, byId, (s) => s.findEnded([1, 2, 3])],
  ["get", /select id, func.* from dbq_tasks where id in/, byId, (s) => s.get([1, 2, 3])],
  [
    "holder",
    /where unique_key = \?/,
    searches("dbq_tasks_unique"),
    (s) => s.insert([newTask({ uniqueKey: "k1" })], "report"),
  ],
  [
    "nextDue",
    /is not null order by wait_until/,
    // The ends of the primary key: ids that JavaScript has no number for.
    /^SEARCH dbq_tasks USING ((COVERING )?INDEX dbq_tasks_(due|expiry)\b|INTEGER PRIMARY KEY \(rowid[<>]\?\))/,
    (s) => s.promote(10),
  ],
  ["overdue", /expires_at <= .* order by expires_at/s, searches("dbq_tasks_expiry"), expireDue],
  ["due", /wait_until <= .* order by wait_until limit/s, searches("dbq_tasks_due"), promoteDue],
  ["promote", /^\s*update +dbq_tasks .* status = 'pending', updated_at/, byId, promoteDue],
  [
    "heldBy",
    /status = 'running' and worker_id = \?/,
    searches("dbq_tasks_running"),
    (s) => s.unregister("w1"),
  ],
  [
    "expired",
    /finished_at < /,
    searches("dbq_tasks_finished"),
    (s) => s.prune({ completed: 0, failed: 0, cancelled: 0 }, 10),
  ],
  [
    "orphans",
    /not exists/,
    /^(SCAN|SEARCH) dbq_tasks USING INDEX dbq_tasks_running\b/,
    (s) => s.rescueOrphans(1_000),
  ],
  ["noteProgress", /set progress = \?/, byId, async (s) => s.progress([await noted(s)])],
];

async function firstRunning(store: FullStore) {
  const [task] = await store.list({ status: ["running"] }, 1, undefined);
  if (!task) throw new Error("there is no running task");
  return task;
}

async function noted(store: FullStore) {
  return { ...(await firstRunning(store)), progress: 1, note: null };
}

async function promoteDue(store: FullStore) {
  const [id] = await insert(store, { delay: 1 });
  // Due by the database's clock, so the test waits for that.
  while ((await recordOf(store, id as number)).status === "scheduled") await store.promote(10);
}

async function expireDue(store: FullStore) {
  const [id] = await insert(store, { expiresIn: 1 });
  while ((await recordOf(store, id as number)).status === "pending") await store.promote(10);
}

describe.each([false, true])("SQLite with statistics: %s", (analyse) => {
  it.each(hot)("%s finds its rows by the index that was made for it", async (_, which, how, use) => {
    const plans = (await plansOf(use, analyse)).filter(({ text }) => which.test(text));
    expect(plans).toHaveLength(1);
    const [{ text, steps }] = plans as [Plan];
    // SQLite plans a statement again each time a bare `limit ?` is bound: 25 µs instead of 4.
    expect(text).not.toMatch(/limit \?(?! \+)/);
    const ofTasks = steps.filter((step) => step.includes("dbq_tasks"));
    expect(ofTasks.length).toBeGreaterThan(0);
    for (const step of ofTasks) expect(step).toMatch(how);
    expect(steps.join("\n")).not.toMatch(/TEMP B-TREE/);
  });

  it("idle reads two indexes of unfinished tasks", async () => {
    const plans = await plansOf((store) => store.idle(["default"]), analyse);
    const steps = plans.flatMap(({ steps }) => steps).filter((step) => step.includes("dbq_tasks"));
    expect(steps).toHaveLength(2);
    for (const step of steps) expect(step).toMatch(/INDEX dbq_tasks_(claim|running)\b/);
  });

  it("list reads a page from the end of the table, or by the index of its filter", async () => {
    const [page] = await plansOf((store) => store.list({}, 50, 100), analyse);
    expect(page?.steps).toEqual([
      expect.stringMatching(/^SEARCH dbq_tasks USING INTEGER PRIMARY KEY \(rowid</),
    ]);
    const [request] = await plansOf((store) => store.list({ requestId: "r" }, 50, undefined), analyse);
    expect(request?.steps).toEqual([expect.stringMatching(searches("dbq_tasks_request"))]);
    const [runs] = await plansOf((store) => store.list({ status: ["running"] }, 50, undefined), analyse);
    expect(runs?.steps[0]).toMatch(/^(SCAN|SEARCH) dbq_tasks USING INDEX dbq_tasks_running\b/);
  });

  it("the failed tasks of a kind are read by their index alone, page by page", async () => {
    const filter = { failure: "0123456789ab" };
    const ofKind = async (use: (store: FullStore) => Promise<unknown>) =>
      (await plansOf(use, analyse))
        .flatMap(({ steps }) => steps)
        .filter((step) => step.includes("dbq_tasks"));
    const byKind = /^SEARCH dbq_tasks USING (COVERING )?INDEX dbq_tasks_failure \(failure=\? AND rowid<\?\)$/;
    for (const steps of [
      await ofKind((store) => store.list(filter, 50, 100)),
      await ofKind((store) => store.list({ ...filter, status: ["failed"] }, 50, 100)),
      await ofKind((store) => store.look.list(filter, 100, 100, 0)),
    ])
      expect(steps).toEqual([expect.stringMatching(byKind)]);
    for (const steps of [
      await ofKind((store) => store.count(filter)),
      await ofKind((store) => store.look.areFew(filter, 10)),
      await ofKind((store) => store.failures.openOf(["0123456789ab"], 10)),
    ])
      expect(steps).toEqual([
        expect.stringMatching(/^SEARCH dbq_tasks USING .*INDEX dbq_tasks_failure \(failure=\?\)$/),
      ]);
    const byKinds = /^SEARCH dbq_tasks USING COVERING INDEX dbq_tasks_failure \(failure>\?\)$/;
    for (const inAll of [10, -1]) {
      const steps = await ofKind((store) => store.failures.open(undefined, 10, inAll));
      expect(steps.length).toBeGreaterThan(1);
      for (const step of steps) expect(step).toMatch(byKinds);
    }
  });

  it("unfinished tasks of schedules are counted by their index", async () => {
    const [counted] = await plansOf((store) => store.causes.piles(3, 100), analyse);
    expect(counted?.steps.filter((step) => step.includes("dbq_tasks"))).toEqual([
      expect.stringMatching(/^(SCAN|SEARCH) dbq_tasks USING (COVERING )?INDEX dbq_tasks_of_schedule\b/),
    ]);
  });

  it("what a kind of failures is, and the sums of statistics, are found by their indexes", async () => {
    const { client, store } = await opened();
    if (analyse) client.exec("analyze");
    client.texts.length = 0;
    await store.failures.known(["0123456789ab"]);
    await store.stats.sums({ from: 0, to: 1 }, "time");
    const steps = client.texts.flatMap((text) => planOf(client, text).steps);
    const read = steps.filter((step) => /dbq_(failures|stats)|oldest_row/.test(step));
    expect(read).toHaveLength(7);
    for (const step of read)
      expect(step).toMatch(
        /^SEARCH \w+ USING .*INDEX (sqlite_autoindex_dbq_failures_1 \(id=\?|dbq_stats_minute \(span=\?)/,
      );
    // No list of histograms is sorted.
    expect(steps.filter((step) => step.includes("TEMP B-TREE FOR GROUP BY")).length).toBeLessThan(2);
  });

  it("no statement that a worker or a watch runs scans the whole table of tasks, attempts or log lines", async () => {
    const plans = await plansOf(async (store) => {
      await store.register(newWorker("w9"));
      await running(store, { func: "one", queueName: "other" }, "w9");
      await settle(store, outcomes.failed(await firstRunning(store)));
      await store.attempts(1);
      await store.log([{ ...(await firstRunning(store)), at: 0, message: "a line" }], 0);
      await store.logs([{ id: 1, after: 0 }], 10);
      await store.taskProgress([1, 2]);
      await store.cancel(2, "{}");
      await store.retry(2);
      await store.promote(10);
      await store.prune({ completed: 0, failed: 0, cancelled: 0 }, 10);
      await store.rescueOrphans(0);
      await store.rescue("w9", 1);
      await store.unregister("w1");
    }, analyse);
    expect(plans.length).toBeGreaterThan(16);
    const scans = plans.filter(
      ({ text, steps }) =>
        steps.some((step) =>
          /^SCAN dbq_(tasks|attempts|task_logs)(?! USING INDEX dbq_tasks_running\b)/.test(step),
        ) && !/order by id desc/.test(text),
    );
    expect(scans).toEqual([]);
  });
});
