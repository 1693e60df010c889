/** The rows of a database that an app has used for a month: many functions, queues, groups, statuses and keys. */
import { createHash } from "node:crypto";
import { Random } from "./random.ts";

/** A row by its columns. A `Date` is a time, and an array or an object is JSON. */
export type Row = Readonly<Record<string, unknown>>;

const hour = 3_600_000;
const day = 24 * hour;
const days = 30;
const functions = 60;
const queues = ["default", "mail", "media", "reports", "billing", "imports", "search", "slow"];
export const schedules = 40;
const workers = 20;

/** Of 1,000 tasks, in the order of their ids; the newest thousandth also runs. */
const shares = { failed: 100, cancelled: 12, scheduled: 20, waiting: 2, pending: 80 };

const nameOf = (n: number) => `app.jobs.${["send", "render", "sync", "charge", "index"][n % 5]}_${n}`;

/** Small numbers are frequent, as the functions and customers of an app are not used alike. */
const skewed = (random: Random, most: number) => Math.floor(most * random.next() ** 2.5);

function statusOf(random: Random, i: number, count: number): string {
  if (i >= count - Math.ceil(count / 2_000)) return "running";
  let n = random.below(1_000);
  for (const [status, share] of Object.entries(shares)) {
    if (n < share) return status;
    n -= share;
  }
  return "completed";
}

const stack = (func: string) =>
  Array.from({ length: 8 }, (_, n) => `    at ${func}.step${n} (/srv/app/dist/jobs/${func}.js:${n + 10}:15)`);

function errorOf(random: Random, func: string): object {
  const message = `${func}: the server answered ${random.below(2) === 0 ? 503 : 429} after ${random.below(30_000)} ms`;
  return { name: "UpstreamError", message, stack: [`UpstreamError: ${message}`, ...stack(func)].join("\n") };
}

/** The tasks, oldest first. */
export function* taskRows(count: number, now: number): Generator<Row> {
  const random = new Random(7);
  for (let i = 0; i < count; i += 1) {
    const createdAt = now - days * day + Math.floor((i * days * day) / count);
    yield taskRow(random, i, { count, createdAt, now });
  }
}

function taskRow(random: Random, i: number, of: { count: number; createdAt: number; now: number }): Row {
  const { count, createdAt, now } = of;
  const n = skewed(random, functions);
  const func = nameOf(n);
  const status = statusOf(random, i, count);
  const customer = skewed(random, 5_000);
  const hasStarted = ["completed", "failed", "cancelled", "running"].includes(status);
  const hasEnded = hasStarted && status !== "running";
  const startedAt = createdAt + random.below(20_000);
  const slotOf = random.below(50) === 0 ? random.below(schedules) : undefined;
  return {
    func,
    args: [customer, { path: `/files/${customer}/${i}.pdf`, lines: random.below(1_000), note: `order ${i}` }],
    status,
    result: status === "completed" ? { ok: true, bytes: random.below(1e6) } : null,
    error: status === "failed" ? errorOf(random, func) : null,
    failure: status === "failed" ? failureOf(func) : null,
    generation_id: hasEnded ? 3 : 1,
    created_at: new Date(createdAt),
    updated_at: new Date(hasEnded ? startedAt + 500 : createdAt),
    priority: random.below(10) === 0 ? 8 : 5,
    queue_name: queues[n % queues.length],
    retry_count: status === "failed" ? 3 : 0,
    wait_until: status === "scheduled" ? new Date(now + random.below(5 * day)) : null,
    worker_id: status === "running" ? workerName(i) : null,
    started_at: hasStarted ? new Date(startedAt) : null,
    finished_at: hasEnded ? new Date(startedAt + 500) : null,
    // One import made many tasks.
    request_id: i % 50 === 0 ? "import-1" : random.below(5) === 0 ? `req-${Math.floor(i / 20)}` : null,
    unique_key: random.below(20) === 0 ? `key-${i}` : null,
    meta: { customer, region: ["eu", "us", "asia"][customer % 3] },
    group_key: random.below(3) === 0 ? `customer-${customer}` : null,
    schedule_name: slotOf === undefined ? null : `schedule-${slotOf}`,
    slot: slotOf === undefined ? null : new Date(createdAt),
  };
}

const workerName = (i: number) => `worker-${i % workers}`;

/** Two attempts of each failed task. */
export function* attemptRows(
  tasks: Iterable<readonly [id: number, func: string]>,
  now: number,
): Generator<Row> {
  const random = new Random(8);
  for (const [id, func] of tasks)
    for (const generation_id of [2, 3])
      yield {
        task_id: id,
        generation_id,
        worker_id: workerName(id),
        started_at: new Date(now - 2_000),
        ended_at: new Date(now - 1_000),
        outcome: "failed",
        error_name: "UpstreamError",
        error_message: `${func}: the server answered ${random.below(600)}`,
        error_stack: stack(func).join("\n"),
        failure: failureOf(func),
      };
}

/** The kind of the failures of a function: as long as those that dbq makes of an error. */
const failureOf = (func: string) => createHash("sha256").update(func).digest("hex").slice(0, 12);

/** As workers leave them: a kind of each function, by the minute for two hours and by the hour for 30 days. */
export function* failureRows(now: number): Generator<Row> {
  const random = new Random(10);
  for (const [span, minutes] of spans)
    for (let back = span; back <= minutes; back += span)
      for (let n = 0; n < functions; n += 1) {
        const at = startOf(now, span, back);
        const func = nameOf(n);
        yield {
          id: failureOf(func),
          func,
          error_name: "UpstreamError",
          message: `${func.replace(/\d+$/, "<n>")}: the server answered <n> after <n> ms`,
          minute: new Date(at),
          span,
          count: 1 + random.below(50),
          first_at: new Date(at + 1_000),
          last_at: new Date(at + 50_000),
          sample: null,
        };
      }
}

export function* workerRows(now: number): Generator<Row> {
  for (let i = 0; i < workers; i += 1)
    yield {
      id: workerName(i),
      queue_names: queues,
      concurrency: 25,
      lease: 15_000,
      host: `host-${i % 4}`,
      pid: 1_000 + i,
      started_at: new Date(now - day),
      // They live as long as the measurement lasts.
      heartbeat_at: new Date(now + day),
    };
}

export function* scheduleRows(now: number): Generator<Row> {
  for (let i = 0; i < schedules; i += 1)
    yield {
      name: `schedule-${i}`,
      func: nameOf(i % functions),
      ...(i % 2 === 0 ? { cron: `${i} ${i % 24} * * *` } : { every_ms: (i + 1) * 60_000 }),
      next_at: new Date(now + day),
      last_slot: new Date(now - day),
    };
}

export function* limitRows(): Generator<Row> {
  for (const name of queues.slice(0, 4)) yield { scope: "queue", name, concurrency: 50 };
  for (let i = 0; i < 10; i += 1)
    yield { scope: "name", name: `api-${i}`, rate_limit: 100, rate_per: 60_000 };
}

export function* auditRows(now: number, tasks: number): Generator<Row> {
  for (let i = 0; i < 2_000; i += 1)
    yield {
      at: new Date(now - i * 60_000),
      actor: "eva",
      action: "retry",
      target: `task ${(i * 37) % tasks}`,
      count: 1,
    };
}

/** Rows of one minute for two hours, and of one hour for 30 days. */
const spans = [
  [1, 120],
  [60, days * 24 * 60],
] as const;

/** When a row of `span` minutes began that is so many minutes old. */
const startOf = (now: number, span: number, back: number) =>
  Math.floor(now / (span * 60_000) - back / span) * span * 60_000;

/**
 * As workers leave them: of each function by the minute for two hours, by the hour and by the day for 30 days; of all functions
 * by the hour.
 */
export function* statsRows(now: number): Generator<Row> {
  const random = new Random(9);
  const sums = new Map<string, SummedStats>();
  for (const [span, minutes] of spans)
    for (let back = span; back <= minutes; back += span)
      for (let n = 0; n < functions; n += 1)
        for (const outcome of ["completed", "retry", "failed"])
          if (outcome === "completed" || random.below(3) === 0) {
            const at = startOf(now, span, back);
            const names = { queue_name: queues[n % queues.length], func: nameOf(n), outcome };
            const row = { ...statsRow(at, span, names), ...bucketsOf(random) };
            yield row;
            addTo(
              sums,
              statsRow(Math.floor(at / hour) * hour, 60, { queue_name: "", func: "", outcome }, "*"),
              row,
            );
            addTo(sums, statsRow(Math.floor(at / day) * day, 1_440, names), row);
          }
  for (const { row, count, wait, run } of sums.values())
    yield {
      ...row,
      count,
      wait_buckets: JSON.stringify(wait.flat()),
      run_buckets: JSON.stringify(run.flat()),
    };
}

const statsRow = (at: number, span: number, names: Row, worker_id = ""): Row => ({
  ...{ minute: new Date(at), span, worker_id },
  ...names,
});

interface SummedStats {
  row: Row;
  count: number;
  wait: number[][];
  run: number[][];
}

function addTo(sums: Map<string, SummedStats>, row: Row, { count, wait_buckets, run_buckets }: Row): void {
  const key = JSON.stringify(row);
  const sum = sums.get(key) ?? { row, count: 0, wait: [], run: [] };
  sums.set(key, sum);
  sum.count += Number(count);
  for (const [into, text] of [
    [sum.wait, wait_buckets],
    [sum.run, run_buckets],
  ] as const) {
    const pairs: number[] = JSON.parse(String(text));
    // All rows have the same buckets.
    for (let i = 0; i < pairs.length; i += 2) {
      const [bucket, times] = [pairs[i] as number, pairs[i + 1] as number];
      into[i / 2] = [bucket, (into[i / 2]?.[1] ?? 0) + times];
    }
  }
}

function bucketsOf(random: Random): Row {
  const list = () => Array.from({ length: 12 }, (_, i) => [20 + 3 * i, 1 + random.below(9)]).flat();
  return { count: 60, wait_buckets: JSON.stringify(list()), run_buckets: JSON.stringify(list()) };
}
