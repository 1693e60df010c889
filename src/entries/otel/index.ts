/** `dbq-ts/otel`: OpenTelemetry spans and metrics of a process that uses dbq. */
import { type MeterProvider, metrics, type TracerProvider, trace } from "@opentelemetry/api";
import { type Queue, type Reader, readOptions, wrong } from "../../index.ts";
import { listenForMetrics, observe } from "./metrics.ts";
import { listenForSpans } from "./spans.ts";
import { Subscriptions } from "./subscriptions.ts";

/** Options of `instrument`. With one of the two providers it makes only spans, or only metrics. */
export interface InstrumentOptions {
  /** Where spans go. @default the globally registered provider; no spans if `meterProvider` is given */
  tracerProvider?: TracerProvider;
  /** Where metrics go. @default the globally registered provider; no metrics if `tracerProvider` is given */
  meterProvider?: MeterProvider;
  /**
   * The queue of the gauges `dbq.tasks`, `dbq.oldest_pending.age`, `dbq.tasks.put_off` and `dbq.oldest_put_off.age`: one
   * `queue.health()` for each export of metrics.
   * @default none: there are no gauges
   */
  queue?: Queue;
}

const name = "dbq-ts";

/** An object that has this method. */
const having =
  <T>(method: string, expected: string): Reader<T> =>
  (value, option) => {
    const { [method]: found } = Object(value) as Record<string, unknown>;
    if (typeof found === "function") return value as T;
    throw wrong(option, expected, value);
  };

const readers = {
  tracerProvider: having<TracerProvider>("getTracer", "a TracerProvider of OpenTelemetry"),
  meterProvider: having<MeterProvider>("getMeter", "a MeterProvider of OpenTelemetry"),
  queue: having<Queue>("health", "a queue of openQueue"),
};

/**
 * Makes spans and metrics of all queues and workers of this process, by listening to the diagnostics channels. A second call with
 * the same provider makes nothing twice.
 * @returns a function that undoes it
 * @throws TypeError for a wrong option, and for a `queue` without metrics
 */
export function instrument(options?: InstrumentOptions): () => void {
  const given = readOptions<InstrumentOptions>(options, "instrument", readers);
  const { queue } = given;
  const isOne = given.tracerProvider !== undefined || given.meterProvider !== undefined;
  const tracers = given.tracerProvider ?? (isOne ? undefined : trace.getTracerProvider());
  const meters = given.meterProvider ?? (isOne ? undefined : metrics.getMeterProvider());
  if (queue && !meters)
    throw new TypeError("instrument: queue is for metrics: pass the meterProvider that they go to");
  const undo: (() => void)[] = [];
  if (tracers) undo.push(listenOnce(tracers, (to) => listenForSpans(to, tracers.getTracer(name))));
  if (meters) undo.push(listenOnce(meters, (to) => listenForMetrics(to, meters.getMeter(name))));
  if (meters && queue) undo.push(observe(meters.getMeter(name), queue));
  return () => {
    for (const each of undo.splice(0)) each();
  };
}

/** The providers that something goes to, and how many calls of `instrument` want that. */
const inUse = new Map<object, { subscriptions: Subscriptions; users: number }>();

/** Listens for this provider, unless that is done already. @returns what undoes it, when no other call wants it */
function listenOnce(provider: object, listen: (subscriptions: Subscriptions) => void): () => void {
  const use = inUse.get(provider) ?? { subscriptions: new Subscriptions(), users: 0 };
  if (use.users === 0) listen(use.subscriptions);
  use.users += 1;
  inUse.set(provider, use);
  return () => {
    use.users -= 1;
    if (use.users > 0) return;
    use.subscriptions.end();
    inUse.delete(provider);
  };
}
