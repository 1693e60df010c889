/** The metrics of a queue in Prometheus' text format, written by prom-client from `queue.health()` and the statistics. */
import type { Registry } from "prom-client";
import { importPackage, isMissingPackage } from "../../base/runtime/packages.ts";
import { groupBy } from "../../base/values/group-by.ts";
import { boundOf, Histogram, timeOf } from "../../base/values/histogram.ts";
import { type Cause, causeSeverities } from "../causes/methods.ts";
import type { HealthOfQueue } from "../inspect/methods.ts";
import { internalsOf, type Queue } from "../queue.ts";
import type { StatsRow } from "../stats/contract.ts";
import type { WaitCount } from "../workflows/methods.ts";

type PromClient = typeof import("prom-client");

/** The last buckets of ours that each bucket of Prometheus has: 1 ms, 4 ms, and so on up to 4,194 s. */
const ends = Array.from({ length: 12 }, (_, i) => 16 + 8 * i);

const statuses = ["pending", "scheduled", "running", "waiting", "failed"] as const;

/**
 * The metrics of a queue as text, for a scrape of Prometheus: `dbq_tasks`, `dbq_oldest_pending_seconds`, `dbq_tasks_put_off`,
 * `dbq_oldest_put_off_seconds`, `dbq_waiting_tasks`, `dbq_oldest_waiting_seconds`, `dbq_causes`, `dbq_task_duration_seconds` and
 * `dbq_task_wait_seconds`. Takes a little longer than `queue.health()`, whose look serves the causes too.
 * @throws TypeError when the package prom-client is not installed; DatabaseError
 */
export async function metricsText(queue: Queue): Promise<string> {
  const { store, shared, checkOpen } = internalsOf(queue);
  const client = await loadClient();
  checkOpen();
  const look = await shared.healthLook();
  const registry = new client.Registry();
  addGauges(client, registry, look.health.queues);
  addWaits(client, registry, (await queue.countWaits()).kinds);
  addCauses(client, registry, await shared.causesOf(look));
  const rows = await store.stats.totals();
  addHistogram(registry, {
    name: "dbq_task_duration_seconds",
    help: "How long functions ran. The sum is estimated from the buckets, within 9 %.",
    labels: ({ queueName, func, outcome }) => ({ queue: queueName, func, outcome }),
    ...{ rows, of: "runBuckets" },
  });
  addHistogram(registry, {
    name: "dbq_task_wait_seconds",
    help: "From when tasks were enqueued or became due to their claim. The sum is estimated from the buckets, within 9 %.",
    labels: ({ queueName, func }) => ({ queue: queueName, func }),
    ...{ rows, of: "waitBuckets" },
  });
  return await registry.metrics();
}

/** prom-client is an optional peer. It is CommonJS: what it exports is also its default. */
async function loadClient(): Promise<PromClient> {
  try {
    const loaded = await importPackage<PromClient & { default?: PromClient }>("prom-client");
    return loaded.default ?? loaded;
  } catch (error) {
    if (!isMissingPackage(error)) throw error;
    throw new TypeError('metrics: the package "prom-client" is missing: npm install prom-client', {
      cause: error,
    });
  }
}

function addGauges({ Gauge }: PromClient, registry: Registry, queues: readonly HealthOfQueue[]): void {
  const tasks = new Gauge({
    name: "dbq_tasks",
    help: "Tasks by status. Counting ends at 10,000 pending tasks of a function, and at 5,000 in each other status.",
    labelNames: ["queue", "status"],
    registers: [registry],
  });
  const oldest = new Gauge({
    name: "dbq_oldest_pending_seconds",
    help: "How long the longest waiting of the next tasks has been pending; 0: none waits.",
    labelNames: ["queue"],
    registers: [registry],
  });
  const putOff = new Gauge({
    name: "dbq_tasks_put_off",
    help: "Scheduled tasks that a rate has put off to their turns. Counting ends at 5,000 in all queues together.",
    labelNames: ["queue"],
    registers: [registry],
  });
  const longest = new Gauge({
    name: "dbq_oldest_put_off_seconds",
    help: "How long ago a rate put off the task that waits longest for its turn; 0: none waits.",
    labelNames: ["queue"],
    registers: [registry],
  });
  for (const health of queues) {
    for (const status of statuses) tasks.set({ queue: health.name, status }, health[status]);
    oldest.set({ queue: health.name }, (health.oldestPendingAge ?? 0) / 1_000);
    putOff.set({ queue: health.name }, health.putOff);
    longest.set({ queue: health.name }, secondsSince(health.putOffSince));
  }
}

const waitKinds = ["event", "child", "time"] as const;

/** Each kind has a sample, also while nothing waits for it. */
function addWaits({ Gauge }: PromClient, registry: Registry, counts: readonly WaitCount[]): void {
  const tasks = new Gauge({
    name: "dbq_waiting_tasks",
    help: "Tasks of workflows that wait for an event, a child or a time. Counting ends at 10,000 waits.",
    labelNames: ["kind"],
    registers: [registry],
  });
  const oldest = new Gauge({
    name: "dbq_oldest_waiting_seconds",
    help: "How long the first of them has been waiting; 0: none waits.",
    labelNames: ["kind"],
    registers: [registry],
  });
  for (const kind of waitKinds) {
    const count = counts.find((one) => one.kind === kind);
    tasks.set({ kind }, count?.tasks ?? 0);
    oldest.set({ kind }, (count?.oldestAge ?? 0) / 1_000);
  }
}

/** Each kind has a sample, also while nothing of it is wrong: an alert ends by it. */
function addCauses({ Gauge }: PromClient, registry: Registry, causes: readonly Cause[]): void {
  const gauge = new Gauge({
    name: "dbq_causes",
    help: "What is wrong now, by the kind of cause: dbq causes names each.",
    labelNames: ["kind", "severity"],
    registers: [registry],
  });
  for (const [kind, severity] of Object.entries(causeSeverities))
    gauge.set({ kind, severity }, causes.filter((cause) => cause.kind === kind).length);
}

/** 0 where the database's clock is ahead. */
const secondsSince = (time: Date | null): number =>
  time === null ? 0 : Math.max(0, Date.now() - time.getTime()) / 1_000;

interface HistogramOf {
  name: string;
  help: string;
  rows: readonly StatsRow[];
  of: "waitBuckets" | "runBuckets";
  labels: (row: StatsRow) => Record<string, string>;
}

/** Our times are counted already, so this is a metric that prom-client only writes. */
function addHistogram(registry: Registry, { name, help, rows, of, labels }: HistogramOf): void {
  const groups = groupBy(rows, (row) => JSON.stringify(labels(row)));
  const values = [...groups].flatMap(([key, group]) => {
    const all = group.reduce((sum, row) => sum.merge(Histogram.decode(row[of])), new Histogram());
    return valuesOf(name, JSON.parse(key), all);
  });
  const metric = {
    name,
    help,
    type: "histogram",
    aggregator: "sum",
    get: async () => ({ name, help, type: "histogram", values }),
  };
  registry.registerMetric(metric as unknown as Parameters<Registry["registerMetric"]>[0]);
}

function valuesOf(name: string, labels: Record<string, string>, histogram: Histogram) {
  if (histogram.total === 0) return [];
  const counts = [...histogram.buckets()];
  const upTo = (end: number) => counts.reduce((sum, [bucket, count]) => sum + (bucket <= end ? count : 0), 0);
  const bucket = (le: number | string, value: number) => ({
    metricName: `${name}_bucket`,
    labels: { ...labels, le },
    value,
  });
  const sum = counts.reduce((all, [number, count]) => all + count * timeOf(number), 0) / 1_000;
  return [
    ...ends.map((end) => bucket(boundOf(end) / 1_000, upTo(end))),
    bucket("+Inf", histogram.total),
    { metricName: `${name}_sum`, labels, value: Number(sum.toPrecision(6)) },
    { metricName: `${name}_count`, labels, value: histogram.total },
  ];
}
