/** What a database may hold when somebody opens the dashboard: rows written as dbq would have written them. */
import Database from "better-sqlite3";
import { bucketOf } from "../../../src/base/values/histogram.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { type Queue, remoteTask } from "../../../src/index.ts";

type Row = Record<string, string | number | null>;

const minute = 60_000;
const hour = 3_600_000;

/** The rows of a scene, over a connection of its own to the file of the queue. */
export class Rows {
  readonly #database: Database.Database;
  readonly now = Date.now();

  constructor(file: string) {
    this.#database = new Database(file, { timeout: 5_000 });
  }

  add(table: string, row: Row): number {
    const names = Object.keys(row);
    const text = `insert into ${table} (${names.join()}) values (${names.map(() => "?").join()})`;
    return Number(this.#database.prepare(text).run(...Object.values(row)).lastInsertRowid);
  }

  run(text: string, ...values: (string | number)[]): void {
    this.#database.prepare(text).run(...values);
  }

  all(write: () => void): void {
    this.#database.transaction(write)();
    this.#database.close();
  }
}

export const thrown = (name: string, message: string, file = "src/tasks/charge.ts") => ({
  name,
  message,
  stack: `${name}: ${message}\n    at charge (/app/${file}:42:11)\n    at async run (/app/src/tasks/index.ts:17:5)`,
});

/** A task that ended or runs: how many seconds ago it was enqueued, waited and ran. */
interface Told extends Row {
  func: string;
  ago: number;
  waited: number;
  ran: number | null;
}

function addTask(rows: Rows, { ago, waited, ran, ...row }: Told): number {
  const createdAt = rows.now - ago * 1_000;
  const startedAt =
    row.status === "pending" || row.status === "scheduled" ? null : createdAt + waited * 1_000;
  const finishedAt = startedAt === null || ran === null ? null : Math.round(startedAt + ran * 1_000);
  return rows.add("dbq_tasks", {
    created_at: createdAt,
    updated_at: finishedAt ?? startedAt ?? createdAt,
    started_at: startedAt,
    finished_at: finishedAt,
    ...row,
  });
}

function addAttempt(rows: Rows, taskId: number, outcome: string, secondsAgo: number, worker: string): void {
  const error = thrown(
    outcome === "timeout" ? "TimeoutError" : "PaymentError",
    "the card issuer did not answer",
  );
  rows.add("dbq_attempts", {
    task_id: taskId,
    generation_id: 2,
    worker_id: worker,
    started_at: rows.now - secondsAgo * 1_000 - 1_240,
    ended_at: rows.now - secondsAgo * 1_000,
    outcome,
    error_name: error.name,
    error_message: error.message,
    error_stack: error.stack,
    error_cause: null,
  });
}

function addStats(
  rows: Rows,
  { at, ...row }: { at: number; func: string; queue: string; count: number; failed: number },
  wait: number,
  run: number,
): void {
  const buckets = (ms: number, count: number) => {
    const slow = Math.floor(count / 12);
    const pairs = [[bucketOf(ms), count - slow], ...(slow === 0 ? [] : [[bucketOf(ms * 4), slow]])];
    return JSON.stringify(pairs.flat());
  };
  for (const [outcome, count] of [
    ["completed", row.count - row.failed],
    ["failed", row.failed],
  ] as const)
    if (count > 0)
      rows.add("dbq_stats", {
        minute: at,
        span: 1,
        worker_id: "web-1:4121:ab12cd34",
        queue_name: row.queue,
        func: row.func,
        outcome,
        count,
        wait_buckets: buckets(wait, count),
        run_buckets: buckets(run, count),
      });
}

const functions = [
  { func: "send-receipt", queue: "mail", often: 42, run: 180, fails: 0.01 },
  { func: "charge-card", queue: "payments", often: 18, run: 640, fails: 0.06 },
  { func: "resize-image", queue: "default", often: 26, run: 1_900, fails: 0.004 },
  { func: "render-report", queue: "reports", often: 1.3, run: 21_000, fails: 0.03 },
  { func: "sync-inventory", queue: "default", often: 6, run: 2_600, fails: 0 },
] as const;

/** From 0.25 to 1, busiest by day; the same moment gives the same number. */
function busy(at: number): number {
  const chance = Math.abs(Math.sin(at / 7_919) * 10_000) % 1;
  return 0.5 + 0.2 * Math.sin((at / hour / 24) * 2 * Math.PI) + 0.3 * (chance - 0.2);
}

function addDays(rows: Rows): void {
  const lastMinute = Math.floor(rows.now / minute) * minute;
  const lastHour = Math.floor(rows.now / hour) * hour;
  const add = (at: number, minutes: number) => {
    for (const { func, queue, often, run, fails } of functions) {
      const count = Math.max(0, Math.round(often * minutes * busy(at + run)));
      const failed = Math.min(count, Math.round(count * fails * (busy(at * 3) > 0.6 ? 5 : 1)));
      if (count > 0)
        addStats(
          rows,
          { at, func, queue, count, failed },
          (9 + run * 0.02) * (0.5 + busy(at + 5)),
          run * (0.5 + busy(at + 9)),
        );
    }
  };
  for (let i = 0; i < 110; i += 1) add(lastMinute - i * minute, 1);
  for (let i = 2; i < 30 * 24; i += 1) add(lastHour - i * hour, 60);
}

function addWorkers(rows: Rows): void {
  const lease = 15_000;
  const worker = { lease, boot_id: null, pid_namespace: null, process_start: null, session: null, beat: 41 };
  const of = (id: string, host: string, pid: number, queues: string[], slots: number, row: Row = {}) =>
    rows.add("dbq_workers", {
      ...worker,
      ...{ id, host, pid, queue_names: JSON.stringify(queues), concurrency: slots },
      ...{ started_at: rows.now - 26 * hour, heartbeat_at: rows.now - 1_100, lease: 600_000 },
      ...row,
    });
  of("web-1:4121:ab12cd34", "web-1", 4121, ["default", "mail"], 10);
  of("web-2:3977:ef56ab78", "web-2", 3977, ["default", "mail"], 10, { started_at: rows.now - 3 * hour });
  of("pay-1:811:cd90ef12", "pay-1", 811, ["payments"], 4);
  of("web-3:5230:aa77bb99", "web-3", 5230, ["reports"], 2, { lease, heartbeat_at: rows.now - 9 * minute });
}

/** An ordinary shop at work: some things fail, one queue is paused, one worker is silent. */
export async function ordinary(
  queue: Queue,
  file: string,
): Promise<{ failed: number; running: number; scheduled: number }> {
  await limitsAndSchedules(queue);
  const rows = new Rows(file);
  const ids = { failed: 0, running: 0, scheduled: 0 };
  rows.all(() => {
    addDays(rows);
    addWorkers(rows);
    for (let i = 60; i > 0; i -= 1) {
      const { func, queue: name, run } = functions[i % functions.length] ?? functions[0];
      const args = JSON.stringify([`order-${8_200 - i}`, { total: `${(i * 7.35).toFixed(2)} EUR` }]);
      const row = { func, queue_name: name, args, request_id: `req-${5_000 - i}` };
      const common = {
        ago: i * 37,
        waited: 0.04,
        ran: (run * (1 + (i % 7) / 9)) / 1_000,
        result: '{"ok":true}',
      };
      addTask(rows, {
        ...row,
        ...common,
        status: "completed",
        generation_id: 3,
        worker_id: "web-1:4121:ab12cd34",
      });
    }
    const failing = {
      func: "charge-card",
      queue_name: "payments",
      max_retries: 3,
      retry_count: 3,
      generation_id: 9,
    };
    for (const [i, message] of [
      "the card issuer did not answer",
      "card 4111… was declined: insufficient funds",
      "the card issuer did not answer",
    ].entries()) {
      ids.failed = addTask(rows, {
        ...failing,
        ...{
          args: `["order-${8_100 + i}",{"total":"49.90 EUR"}]`,
          ago: 900 - i * 200,
          waited: 0.02,
          ran: 41,
        },
        ...{
          status: "failed",
          error: JSON.stringify({
            ...thrown("PaymentError", message),
            cause: thrown("Error", "read ECONNRESET"),
          }),
        },
        ...{
          request_id: `req-${4_100 + i}`,
          unique_key: `charge-${8_100 + i}`,
          worker_id: "pay-1:811:cd90ef12",
        },
      });
      for (const [n, outcome] of ["failed", "failed", "timeout", "failed"].entries())
        addAttempt(rows, ids.failed, outcome, 900 - i * 200 - n * 10, "pay-1:811:cd90ef12");
    }
    addTask(rows, {
      func: "send-receipt",
      queue_name: "mail",
      args: '["order-8150"]',
      status: "cancelled",
      ago: 700,
      waited: 1,
      ran: 2,
    });
    for (let i = 0; i < 4; i += 1)
      addTask(rows, {
        func: "charge-card",
        queue_name: "payments",
        args: `["order-${8_220 + i}"]`,
        status: "pending",
        ago: 30 - i,
        waited: 0,
        ran: null,
      });
    for (let i = 0; i < 12; i += 1)
      addTask(rows, {
        func: "import-catalog",
        queue_name: "imports",
        args: `["supplier-${i}.csv"]`,
        status: "pending",
        ago: 260 - i,
        waited: 0,
        ran: null,
      });
    ids.scheduled = addTask(rows, {
      ...{
        func: "render-report",
        queue_name: "reports",
        args: '["2026-10",{"format":"pdf","pages":[1,2,3]}]',
        status: "scheduled",
      },
      ...{
        ago: 120,
        waited: 0,
        ran: null,
        wait_until: rows.now + 3 * hour,
        priority: 7,
        meta: '{"tenant":"acme"}',
      },
    });
    addTask(rows, {
      func: "send-receipt",
      queue_name: "mail",
      args: '["order-8199"]',
      status: "scheduled",
      ago: 60,
      waited: 0,
      ran: null,
      wait_until: rows.now + 9 * minute,
      retry_count: 1,
    });
    for (const [i, name] of ["resize-image", "resize-image", "sync-inventory"].entries())
      ids.running = addTask(rows, {
        ...{
          func: name,
          args: `["photo-${i}.jpg",320]`,
          status: "running",
          ago: 14 + i,
          waited: 2,
          ran: null,
          generation_id: 2,
        },
        ...{
          worker_id: i === 1 ? "web-2:3977:ef56ab78" : "web-1:4121:ab12cd34",
          progress: 0.2 + 0.3 * i,
          progress_note: `${i + 2} of 10 sizes`,
        },
      });
    for (const [i, message] of [
      "read 4,120 rows",
      "warehouse north: 212 changes",
      "warehouse south: 98 changes",
    ].entries())
      rows.add("dbq_task_logs", {
        task_id: ids.running,
        generation_id: 2,
        at: rows.now - (3 - i) * 2_000,
        message,
      });
    rows.add("dbq_audit", {
      at: rows.now - 4 * minute,
      actor: "eva",
      action: "retry",
      target: `task ${ids.failed}`,
      count: 1,
    });
  });
  // As workers do, who make hours and days of minutes.
  while (await internalsOf(queue).store.stats.fold());
  return ids;
}

async function limitsAndSchedules(queue: Queue): Promise<void> {
  const charge = remoteTask("charge-card");
  await queue.setLimit({ queueName: "payments" }, { concurrency: 4 });
  await queue.setLimit({ func: "send-receipt" }, { rate: { limit: 600, per: "1m", burst: 20 } });
  await queue.setLimit("stripe-api", { concurrency: 8, rate: { limit: 25, per: "1s" } });
  await queue.pause({ queueName: "reports" });
  await queue.schedule(
    "nightly-report",
    { cron: "0 3 * * *", timeZone: "Europe/Berlin" },
    remoteTask("render-report"),
    "daily",
  );
  await queue.schedule("sync-stock", { every: "5m" }, remoteTask("sync-inventory"));
  await queue.schedule("dunning", { cron: "30 9 * * 1-5" }, charge, "overdue");
  await queue.pauseSchedule("dunning");
}

/** Names and texts that break pages: markup, quotes, right-to-left, no spaces, 10,000 characters. */
export const evil = `"><script>window.hacked=1</script><img src=x onerror="window.hacked=2">'\`\${x}\u202egnihtemos\u2066 مرحبا`;
export const endless = "x".repeat(10_000);

/** Everything that a stranger may name or say is hostile. */
export async function hostile(queue: Queue, file: string): Promise<number> {
  const name = `${evil}${"-long".repeat(30)}`.slice(0, 190);
  const evilTask = remoteTask(name);
  await queue.pause({ queueName: name });
  await queue.setLimit({ func: name, group: name.slice(0, 100) }, { concurrency: 1 });
  await queue.setLimit(name, { rate: { limit: 1_000_000, per: "1h" } });
  await queue.schedule(name, { every: "1h" }, evilTask.with({ queueName: name }), evil);
  const rows = new Rows(file);
  let id = 0;
  rows.all(() => {
    const text = { func: name, queue_name: name, request_id: name, group_key: name };
    const json = {
      args: JSON.stringify([evil, endless, { [evil]: [evil] }]),
      kwargs: JSON.stringify({ [evil]: endless }),
      meta: JSON.stringify({ [evil]: evil }),
    };
    const told = { ago: 300, waited: 1, ran: 1, worker_id: name, progress_note: evil, progress: 0.5 };
    const error = {
      name: evil,
      message: `${evil} ${endless}`,
      stack: `${evil}\n${endless}`,
      cause: { name: evil, message: endless, stack: evil },
    };
    for (const status of ["pending", "scheduled", "running", "completed", "cancelled"])
      addTask(rows, {
        ...text,
        ...json,
        ...told,
        status,
        ...(status === "scheduled" ? { wait_until: rows.now + hour } : {}),
        ...(status === "completed" ? { result: json.args } : {}),
      });
    id = addTask(rows, {
      ...text,
      ...json,
      ...told,
      status: "failed",
      error: JSON.stringify(error),
      unique_key: name,
    });
    rows.add("dbq_attempts", {
      ...{
        task_id: id,
        generation_id: 2,
        worker_id: name,
        started_at: rows.now - 9_000,
        ended_at: rows.now - 8_000,
        outcome: "failed",
      },
      ...{ error_name: evil, error_message: endless, error_stack: evil, error_cause: null },
    });
    for (const message of [evil, endless, `${"many\n".repeat(40)}`])
      rows.add("dbq_task_logs", { task_id: id, generation_id: 2, at: rows.now, message });
    rows.add("dbq_audit", { at: rows.now, actor: evil, action: "retry", target: `task ${id}`, count: 1 });
    rows.add("dbq_workers", {
      ...{
        id: name,
        host: name,
        pid: 1,
        queue_names: JSON.stringify([name, endless.slice(0, 200)]),
        concurrency: 3,
        lease: 600_000,
      },
      ...{ started_at: rows.now, heartbeat_at: rows.now },
    });
    addStats(
      rows,
      {
        at: Math.floor(rows.now / minute) * minute,
        func: name,
        queue: name,
        count: 123_456_789,
        failed: 98_765_432,
      },
      9e8,
      7e9,
    );
  });
  return id;
}

/** More of everything than fits. */
export async function tooMuch(queue: Queue, file: string): Promise<void> {
  const shard = (n: number) => `tenant-${String(n).padStart(3, "0")}-background-processing`;
  for (let n = 0; n < 40; n += 1) {
    await queue.setLimit({ queueName: shard(n) }, { concurrency: n + 1 });
    await queue.schedule(
      `refresh-${shard(n)}`,
      { cron: `${n} */2 * * *` },
      remoteTask(`refresh.search-index.${n}`),
      n,
    );
    if (n % 9 === 0) await queue.pause({ queueName: shard(n) });
  }
  const rows = new Rows(file);
  rows.all(() => {
    for (let n = 0; n < 60; n += 1) {
      const of = { func: `refresh.search-index.${n}`, queue: shard(n) };
      for (let i = 0; i < 60; i += 1)
        addStats(
          rows,
          {
            ...of,
            at: Math.floor(rows.now / minute) * minute - i * minute,
            count: 900 + ((n * i) % 700),
            failed: (n + i) % 5,
          },
          40 + n,
          90 * (n + 1),
        );
      rows.add("dbq_workers", {
        ...{
          id: `node-${n}:${1_000 + n}:00ff${1_000 + n}`,
          host: `ip-10-0-${n}-17.eu-central-1.compute.internal`,
          pid: 1_000 + n,
        },
        ...{
          queue_names: JSON.stringify([shard(n), shard(n + 1), shard(n + 2)]),
          concurrency: 200,
          lease: n % 8 === 0 ? 15_000 : 600_000,
        },
        ...{
          started_at: rows.now - n * hour,
          heartbeat_at: rows.now - (n % 8 === 0 ? 40 * minute : n * 100),
        },
      });
    }
    for (let i = 0; i < 3_000; i += 1) {
      const n = i % 60;
      const status = ["pending", "completed", "failed", "running", "scheduled"][i % 5] ?? "pending";
      addTask(rows, {
        ...{
          func: `refresh.search-index.${n}`,
          queue_name: shard(n),
          args: JSON.stringify([{ tenant: n, ids: Array.from({ length: 30 }, (_, k) => i + k) }]),
        },
        ...{
          status,
          ago: 9_000 - i,
          waited: 30,
          ran: status === "running" ? null : 12.4,
          worker_id: `node-${n}:${1_000 + n}:00ff${1_000 + n}`,
        },
        ...(status === "scheduled" ? { wait_until: rows.now + hour } : {}),
        ...(status === "failed"
          ? {
              error: JSON.stringify(
                thrown(
                  "SearchIndexUnavailableError",
                  `shard ${n} of the index is red: 3 of 5 replicas are missing, last seen on ip-10-0-${n}-17`,
                ),
              ),
            }
          : {}),
      });
    }
  });
}
