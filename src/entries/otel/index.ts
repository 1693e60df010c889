/** `dbq-ts/otel`: OpenTelemetry spans and metrics of a process that uses dbq. */
import { type MeterProvider, metrics, type TracerProvider, trace } from "@opentelemetry/api";
import type { Queue } from "../../index.ts";
import { listenForMetrics } from "./metrics.ts";
import { listenForSpans } from "./spans.ts";
import { Subscriptions } from "./subscriptions.ts";

/** Options of `instrument`. */
export interface InstrumentOptions {
  /** Where spans go. @default the globally registered provider */
  tracerProvider?: TracerProvider;
  /** Where metrics go. @default the globally registered provider */
  meterProvider?: MeterProvider;
  /**
   * The queue of the gauges `dbq.tasks` and `dbq.oldest_pending.age`: one `queue.health()` for each export of metrics.
   * @default none: there are no gauges
   */
  queue?: Queue;
}

const name = "dbq-ts";

/**
 * Makes spans and metrics of all queues and workers of this process, by listening to the diagnostics channels.
 * @returns a function that undoes it
 */
export function instrument(options: InstrumentOptions = {}): () => void {
  const {
    tracerProvider = trace.getTracerProvider(),
    meterProvider = metrics.getMeterProvider(),
    queue,
  } = options;
  const subscriptions = new Subscriptions();
  listenForSpans(subscriptions, tracerProvider.getTracer(name));
  const endGauge = listenForMetrics(subscriptions, meterProvider.getMeter(name), queue);
  return () => {
    subscriptions.end();
    endGauge();
  };
}
