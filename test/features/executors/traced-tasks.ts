/** A task that makes a span in a thread or process, where this module sets up a tracer. */
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, type ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { processGlobal } from "../../../src/base/runtime/process-globals.ts";
import { instrument } from "../../../src/entries/otel/index.ts";
import { currentTask, task } from "../../../src/index.ts";
import { moduleNamed, places } from "./tasks.ts";

if (processGlobal("child", () => false)) {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new BasicTracerProvider());
  instrument();
}

async function work() {
  await undefined;
  const span = trace.getTracer("child").startSpan("in a child") as unknown as ReadableSpan;
  const { traceId } = span.spanContext();
  return { traceId, parent: span.parentSpanContext?.spanId ?? null, carried: currentTask().traceContext };
}

export type Seen = Awaited<ReturnType<typeof work>>;

const module = moduleNamed("traced-tasks");
export const traced = places.map((runIn) => task(`traced-${runIn}`, work, { runIn, module, maxRetries: 0 }));
