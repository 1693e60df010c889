/** Makes the mess: by real tasks, workers and processes. Plain SQL only moves times into the past, and copies finished tasks. */
import { setTimeout as sleep } from "node:timers/promises";
import { internalsOf } from "../../src/features/queue.ts";
import { type Queue, type TaskFunction, Worker, type WorkerOptions } from "../../src/index.ts";
import type { MessProcesses } from "./processes.ts";
import type { Sql } from "./sql.ts";
import * as tasks from "./tasks.ts";

export interface Size {
  finished: number;
  newsletters: number;
  charges: number;
  thumbnails: number;
  products: number;
  shelves: number;
}

/** 200,000 tasks that have finished, and 5,000 that wait. */
export const fullSize: Size = {
  ...{ finished: 200_000, newsletters: 2_000, charges: 700, thumbnails: 700 },
  ...{ products: 1_500, shelves: 95 },
};

export const smallSize: Size = {
  ...{ finished: 2_000, newsletters: 40, charges: 130, thumbnails: 20 },
  ...{ products: 100, shelves: 5 },
};

export interface Mess {
  queue: Queue;
  sql: Sql;
  processes: MessProcesses;
  size: Size;
  signal: AbortSignal;
}

interface Step {
  what: string;
  /** How long it takes, compared to others. */
  weight: number;
  run(mess: Mess): Promise<void>;
}

const minute = 60_000;

/** Milliseconds between what comes in while somebody looks. */
const comingEvery = 2_000;

/** Tasks that really run; the other finished ones are copies of them. */
const originals = 600;
/** Copies that one statement makes. */
const chunk = 20_000;
/** Of the last three days, since workers delete older ones after a week. */
const historyMs = 3 * 24 * 60 * minute;

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

/** Runs all tasks that wait for one of the functions. The worker writes its statistics when it stops. */
async function work(
  { queue, signal }: Mess,
  options: WorkerOptions & { tasks: TaskFunction[] },
): Promise<void> {
  const worker = new Worker(queue, options);
  await worker.start();
  try {
    for (const { taskName: func } of options.tasks)
      await until(signal, async () => {
        const { pending, scheduled, running } = await queue.countTasks({ func });
        return pending + scheduled + running === 0;
      });
  } finally {
    await worker.stop({ grace: 0 });
  }
}

// ---- days that went well -------------------------------------------------------------------------

async function runOriginals(mess: Mess): Promise<void> {
  const { queue, size } = mess;
  const { syncOrder, sendReceipt, resizePhoto } = tasks;
  const each = upTo(Math.min(originals, size.finished) / 3);
  await queue.enqueueTasks(
    each.flatMap((n) => [
      [syncOrder, n] as const,
      [sendReceipt, n] as const,
      [resizePhoto, `${n}.jpg`] as const,
    ]),
  );
  await work(mess, { tasks: [syncOrder, sendReceipt, resizePhoto], concurrency: 100 });
}

const copied = [
  ...["func", "args", "kwargs", "result", "status", "generation_id", "priority", "queue_name", "max_retries"],
  ...["worker_id", "meta"],
];
const times = ["created_at", "updated_at", "started_at", "finished_at"];

/** @param part the first and the last of the copies of each task, from 1 */
async function copyOriginals({ sql, size }: Mess, [first, last]: readonly [number, number]): Promise<void> {
  const apart = Math.floor(historyMs / (size.finished / originals));
  const moved = times.map((time) => sql.before(time, `n * ${apart} + (id * 7919) % ${apart}`));
  const numbers = upTo(last - first + 1).map((n) => `select ${first + n}${n === 0 ? " as n" : ""}`);
  await sql.run(`
    insert into dbq_tasks (${[...copied, ...times].join(", ")})
    select ${[...copied, ...moved].join(", ")} from dbq_tasks, (${numbers.join(" union all ")}) as copies
    where status = 'completed' and id <= ${originals}`);
}

function history({ finished }: Size): Step[] {
  const copies = Math.max(0, Math.round(finished / originals) - 1);
  const each = chunk / originals;
  const parts = upTo(Math.ceil(copies / each)).map((n) => [
    Math.floor(n * each) + 1,
    Math.min(copies, Math.floor((n + 1) * each)),
  ]) as [number, number][];
  return [
    { what: "days of tasks that went well", weight: 2, run: runOriginals },
    ...parts.map((part) => ({
      what: "days of tasks that went well",
      weight: 1,
      run: (mess: Mess) => copyOriginals(mess, part),
    })),
  ];
}

// ---- this morning --------------------------------------------------------------------------------

/** 300 of 400 invoices fail. The task of low priority comes first, and others are preferred. */
async function morning(mess: Mess): Promise<void> {
  const { queue } = mess;
  const { rebuildIndex, indexProduct, sendInvoice, importFeed } = tasks;
  await queue.enqueueTask(rebuildIndex.with({ queueName: "search", priority: 1 }));
  await queue.enqueueTasks(upTo(150).map((n) => [indexProduct.with({ queueName: "search" }), n, 1] as const));
  await queue.enqueueTasks(upTo(400).map((n) => [sendInvoice, n] as const));
  await queue.enqueueTasks(upTo(40).map((n) => [importFeed, `supplier-${100 + n}`] as const));
  const queueName = ["default", "search"];
  await work(mess, { tasks: [indexProduct, sendInvoice, importFeed], queueName, concurrency: 50 });
}

async function pending({ queue, size }: Mess): Promise<void> {
  const newsletter = tasks.sendNewsletter.with({ queueName: "mail" });
  const charge = tasks.chargeCard.with({ queueName: "payments" });
  const product = tasks.indexProduct.with({ queueName: "search" });
  const shelf = tasks.syncWarehouse.with({ queueName: "warehouse" });
  await queue.pause({ queueName: "mail" });
  await queue.setLimit({ func: "chargeCard" }, { rate: { limit: 10, per: "1m" } });
  await queue.enqueueTasks(upTo(size.newsletters).map((n) => [newsletter, n] as const));
  await queue.enqueueTasks(upTo(size.charges).map((n) => [charge, n] as const));
  await queue.enqueueTasks(upTo(size.thumbnails).map((n) => [tasks.makeThumbnail, `${n}.jpg`] as const));
  await queue.enqueueTasks(upTo(size.products).map((n) => [product, n, 2_000] as const));
  await queue.enqueueTasks(upTo(size.shelves).map((n) => [shelf, n] as const));
  await queue.enqueueTask(tasks.importFeed, "supplier-7");
}

/** Slots of the last 50 minutes: as many tasks as their workers would have made. */
async function schedule({ queue }: Mess): Promise<void> {
  const report = tasks.buildReport.with({ queueName: "reports" });
  const now = Date.now();
  await queue.schedule(
    "stock report",
    { every: "10m", startAt: new Date(now - 50 * minute), overlap: "allow", missed: "skip" },
    report,
  );
  await queue.backfillSchedule("stock report", new Date(now - 50 * minute), new Date(now));
}

// ---- times in the past -----------------------------------------------------------------------------

async function age({ queue, sql, size }: Mess): Promise<void> {
  const since = (ms: number | string, where: string) =>
    sql.run(
      `update dbq_tasks set created_at = ${sql.before("created_at", ms)}, updated_at = ${sql.before("updated_at", ms)} where ${where}`,
    );
  await since(25 * minute, "status = 'pending' and func = 'sendNewsletter'");
  await since(25 * minute, "status = 'pending' and func = 'rebuildIndex'");
  await since(18 * minute, "status = 'pending' and func = 'makeThumbnail'");
  await since(15 * minute, "status = 'pending' and func = 'chargeCard'");
  await since(45 * minute, "status = 'pending' and func = 'buildReport'");
  await sql.run(
    `update dbq_limits set paused_at = ${sql.before("paused_at", 25 * minute)} where name = 'mail' and paused_at is not null`,
  );
  await recordGrowth(queue, sql, size);
}

/** How many tasks were pending in each of the last minutes, as workers write it. */
async function recordGrowth(queue: Queue, sql: Sql, { products }: Size): Promise<void> {
  const { store } = internalsOf(queue);
  const { now } = await store.causes.stored();
  const begun = Math.floor(now / minute) * minute;
  await sql.run("delete from dbq_stats where span = -1 and queue_name = 'search'");
  for (const ago of upTo(12).reverse()) {
    const count = Math.max(1, Math.round((products * (12 - ago)) / 12));
    await store.stats.writeDepths(begun - ago * minute, [
      { queueName: "search", pending: count, more: false },
    ]);
  }
}

// ---- processes -------------------------------------------------------------------------------------

async function startProcesses({ queue, sql, processes, signal }: Mess): Promise<void> {
  const [shop, warehouse] = await Promise.all([processes.start("shop"), processes.start("warehouse")]);
  const runs = (func: string) => until(signal, async () => (await queue.countTasks({ func })).running > 0);
  await runs("syncWarehouse");
  processes.freeze(warehouse.child, shop.child);
  await sql.run(
    `update dbq_workers set heartbeat_at = ${sql.before("heartbeat_at", 35 * minute)} where id = '${warehouse.workerId}'`,
  );
  await runs("importFeed");
  await sql.run(
    `update dbq_tasks set started_at = ${sql.before("started_at", 20 * minute)} where status = 'running' and func = 'importFeed'`,
  );
}

async function killWorkers({ queue, processes }: Mess): Promise<void> {
  const video = tasks.convertVideo.with({ queueName: "videos" });
  await queue.enqueueTasks(["garden.mov", "kitchen.mov", "roof.mov"].map((name) => [video, name] as const));
  await processes.startDying(3);
}

export async function until(signal: AbortSignal, look: () => Promise<boolean>): Promise<void> {
  while (!(await look())) {
    await sleep(50, undefined, { signal });
  }
}

export function stepsOf(size: Size): Step[] {
  return [
    ...history(size),
    { what: "invoices that fail", weight: 2, run: morning },
    { what: "tasks that wait", weight: 2, run: pending },
    { what: "a schedule that piles up", weight: 1, run: schedule },
    { what: "tasks that have waited for long", weight: 1, run: age },
    { what: "workers, and one that is stopped", weight: 4, run: startProcesses },
    { what: "a function that kills its workers", weight: 4, run: killWorkers },
  ];
}

/** What comes in while somebody looks: the mess does not become better by itself. */
export async function keepComing({ queue, signal }: Mess): Promise<void> {
  const product = tasks.indexProduct.with({ queueName: "search" });
  for (let n = 0; !signal.aborted; n += 1) {
    await queue.enqueueTasks([
      ...upTo(4).map((i) => [product, 10_000 + 4 * n + i, 2_000] as const),
      [tasks.sendInvoice, n] as const,
    ]);
    await sleep(comingEvery, undefined, { signal }).catch(() => undefined);
  }
}
