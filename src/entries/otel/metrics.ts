/**
 * Metrics, in seconds where they are times, by OpenTelemetry's conventions for messaging where they fit
 * (https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/).
 */
import {
  type Attributes,
  type BatchObservableResult,
  type Counter,
  createNoopMeter,
  type Meter,
} from "@opentelemetry/api";
import type { Queue } from "../../index.ts";
import { perFunction } from "./attributes.ts";
import type { ObservedRow, ObservedTask, Subscriptions, TraceMessage } from "./subscriptions.ts";

type Tasks = readonly ObservedTask[];

const attributesOf = ({ func, queueName }: ObservedTask): Attributes => ({
  "messaging.system": "dbq",
  "messaging.destination.name": queueName,
  "dbq.task.function": func,
});

const of = perFunction(attributesOf);
const ofCompleted = perFunction((task) => ofOutcome(task, "completed"));

const ofOutcome = (task: ObservedTask, outcome: string): Attributes => ({
  ...of(task),
  "dbq.outcome": outcome,
});

/** Adds once for all tasks of a function: the SDK makes a key of the attributes at each call. */
function addAll(counter: Counter, tasks: Tasks): void {
  const counts = new Map<Attributes, number>();
  for (const task of tasks) counts.set(of(task), (counts.get(of(task)) ?? 0) + 1);
  for (const [attributes, count] of counts) counter.add(count, attributes);
}

/** Counts and times of all queues of the process. */
export function listenForMetrics(subscriptions: Subscriptions, meter: Meter): void {
  // No provider is registered.
  if (meter === createNoopMeter()) return;
  countSent(subscriptions, meter);
  countConsumed(subscriptions, meter);
  timeProcessing(subscriptions, meter);
  countCrashes(subscriptions, meter);
}

/** An attempt that ended with its process has no end in `dbq:process`. */
function countCrashes(subscriptions: Subscriptions, meter: Meter): void {
  const crashed = meter.createCounter("dbq.task.crashes", {
    unit: "{attempt}",
    description: "Attempts that ended with their worker, counted by the process that freed the task.",
  });
  subscriptions.on<{ task: ObservedTask; kind: string }>("dbq:crashed", ({ task, kind }) =>
    crashed.add(1, ofOutcome(task, kind)),
  );
}

function countSent(subscriptions: Subscriptions, meter: Meter): void {
  const sent = meter.createCounter("messaging.client.sent.messages", {
    unit: "{message}",
    description: "Tasks that were enqueued.",
  });
  subscriptions.onTrace<TraceMessage & { tasks: Tasks }, true>("dbq:enqueue", {
    start: () => true,
    end: ({ tasks, error }) => {
      if (error === undefined) addAll(sent, tasks);
    },
  });
}

function countConsumed(subscriptions: Subscriptions, meter: Meter): void {
  const consumed = meter.createCounter("messaging.client.consumed.messages", {
    unit: "{message}",
    description: "Tasks that were claimed.",
  });
  subscriptions.on<{ tasks: Tasks }>("dbq:claimed", ({ tasks }) => addAll(consumed, tasks));
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
      duration.record(
        (performance.now() - began) / 1_000,
        outcome === "completed" ? ofCompleted(record) : ofOutcome(record, outcome),
      ),
  });
}

/** Seconds, never negative: the clocks of two machines differ. */
function waitOf({ createdAt, waitUntil, startedAt }: ObservedRow): number {
  const since = Math.max(createdAt, waitUntil ?? 0);
  return Math.max(0, ((startedAt ?? since) - since) / 1_000);
}

/** 0 for no time, and where the database's clock is ahead. */
const secondsSince = (time: Date | null): number =>
  time === null ? 0 : Math.max(0, Date.now() - time.getTime()) / 1_000;

const statuses = ["pending", "scheduled", "running", "waiting", "failed"] as const;

/** The gauges of the rows of one queue: all by one look at its health for each export. @returns what ends them */
export function observe(meter: Meter, queue: Queue): () => void {
  const tasks = meter.createObservableGauge("dbq.tasks", {
    unit: "{task}",
    description: "Pending, scheduled, running, waiting and failed tasks by queue and status, up to a bound.",
  });
  const oldest = meter.createObservableGauge("dbq.oldest_pending.age", {
    unit: "s",
    description: "How long the longest waiting of the next tasks has been pending.",
  });
  const putOff = meter.createObservableGauge("dbq.tasks.put_off", {
    unit: "{task}",
    description: "Scheduled tasks that a rate has put off to their turns, by queue, up to a bound.",
  });
  const longest = meter.createObservableGauge("dbq.oldest_put_off.age", {
    unit: "s",
    description: "How long ago a rate put off the task that waits longest for its turn.",
  });
  const callback = async (result: BatchObservableResult) => {
    for (const health of (await queue.health()).queues) {
      const attributes = { "messaging.system": "dbq", "messaging.destination.name": health.name };
      for (const status of statuses)
        result.observe(tasks, health[status], { ...attributes, "dbq.task.status": status });
      result.observe(oldest, (health.oldestPendingAge ?? 0) / 1_000, attributes);
      result.observe(putOff, health.putOff, attributes);
      result.observe(longest, secondsSince(health.putOffSince), attributes);
    }
  };
  const gauges = [tasks, oldest, putOff, longest];
  meter.addBatchObservableCallback(callback, gauges);
  return () => meter.removeBatchObservableCallback(callback, gauges);
}
