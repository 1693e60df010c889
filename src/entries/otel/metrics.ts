/**
 * Metrics, in seconds where they are times, by OpenTelemetry's conventions for messaging where they fit
 * (https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/).
 */
import { type Attributes, createNoopMeter, type Meter, type ObservableResult } from "@opentelemetry/api";
import type { Queue } from "../../index.ts";
import type { ObservedRow, Subscriptions, TraceMessage } from "./subscriptions.ts";

type Written = readonly { func: string; queueName: string }[];

const of = ({ func, queueName }: { func: string; queueName: string }): Attributes => ({
  "messaging.system": "dbq",
  "messaging.destination.name": queueName,
  "dbq.task.function": func,
});

/** Counts and times of all queues of the process. @returns what ends the gauges of `queue` */
export function listenForMetrics(subscriptions: Subscriptions, meter: Meter, queue?: Queue): () => void {
  // No provider is registered.
  if (meter === createNoopMeter()) return () => undefined;
  countSent(subscriptions, meter);
  countConsumed(subscriptions, meter);
  timeProcessing(subscriptions, meter);
  return queue ? observe(meter, queue) : () => undefined;
}

function countSent(subscriptions: Subscriptions, meter: Meter): void {
  const sent = meter.createCounter("messaging.client.sent.messages", {
    unit: "{message}",
    description: "Tasks that were enqueued.",
  });
  subscriptions.onTrace<TraceMessage & { tasks: Written }, true>("dbq:enqueue", {
    start: () => true,
    end: ({ tasks, error }) => {
      if (error === undefined) for (const task of tasks) sent.add(1, of(task));
    },
  });
}

function countConsumed(subscriptions: Subscriptions, meter: Meter): void {
  const consumed = meter.createCounter("messaging.client.consumed.messages", {
    unit: "{message}",
    description: "Tasks that were claimed.",
  });
  subscriptions.on<{ tasks: Written }>("dbq:claimed", ({ tasks }) => {
    for (const task of tasks) consumed.add(1, of(task));
  });
}

function timeProcessing(subscriptions: Subscriptions, meter: Meter): void {
  const duration = meter.createHistogram("messaging.process.duration", {
    unit: "s",
    description: "From the start of an attempt to its outcome.",
  });
  const waited = meter.createHistogram("dbq.task.wait_time", {
    unit: "s",
    description: "From when a task could start to the start of its attempt.",
  });
  subscriptions.onTrace<TraceMessage & { record: ObservedRow; outcome?: string }, number>("dbq:process", {
    start: ({ record }) => {
      waited.record(waitOf(record), of(record));
      return performance.now();
    },
    end: ({ record, outcome = "lost" }, began) =>
      duration.record((performance.now() - began) / 1_000, { ...of(record), "dbq.outcome": outcome }),
  });
}

/** Seconds, never negative: the clocks of two machines differ. */
function waitOf({ createdAt, waitUntil, startedAt }: ObservedRow): number {
  const since = Math.max(createdAt, waitUntil ?? 0);
  return Math.max(0, ((startedAt ?? since) - since) / 1_000);
}

/** Finished tasks but the failed ones are left out: there may be millions, and an export must not count them. */
const observed = ["pending", "scheduled", "running", "failed"] as const;

/** The gauge of the rows of one queue. */
function observe(meter: Meter, queue: Queue): () => void {
  const tasks = meter.createObservableGauge("dbq.tasks", {
    unit: "{task}",
    description: "Pending, scheduled, running and failed tasks by queue, function and status.",
  });
  const callback = async (result: ObservableResult) => {
    for (const { func, queueName, status, count } of await queue.listCounts({ status: observed }))
      result.observe(count, { ...of({ func, queueName }), "dbq.task.status": status });
  };
  tasks.addCallback(callback);
  return () => tasks.removeCallback(callback);
}
