/** A span's context as text (https://www.w3.org/TR/trace-context/), so that a task can carry it from its enqueue to its run. */
import { createTraceState, isSpanContextValid, type SpanContext } from "@opentelemetry/api";

/** The largest `tracestate` that is kept, in characters: what the specification asks every system to carry. */
const longestState = 512;

/** What the column `trace_context` holds, as JSON. */
export interface TraceContext {
  traceparent: string;
  tracestate?: string;
}

/** Undefined for a context that is not valid, such as that of a no-op tracer. */
export function toTraceContext(span: SpanContext): TraceContext | undefined {
  if (!isSpanContextValid(span)) return undefined;
  const flags = span.traceFlags.toString(16).padStart(2, "0");
  const traceparent = `00-${span.traceId}-${span.spanId}-${flags}`;
  const tracestate = span.traceState?.serialize() ?? "";
  return tracestate === "" || tracestate.length > longestState
    ? { traceparent }
    : { traceparent, tracestate };
}

const parts = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-|$)/;

/** The context in a column `trace_context`; undefined when there is none, since another program may have written the column. */
export function toSpanContext(text: string | null): SpanContext | undefined {
  if (text === null) return undefined;
  const given: unknown = parsed(text);
  if (typeof given !== "object" || given === null) return undefined;
  const { traceparent, tracestate } = given as Partial<Record<keyof TraceContext, unknown>>;
  const [, traceId = "", spanId = "", flags = ""] =
    (typeof traceparent === "string" && parts.exec(traceparent)) || [];
  const span: SpanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  if (!isSpanContextValid(span)) return undefined;
  return typeof tracestate === "string" ? { ...span, traceState: createTraceState(tracestate) } : span;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
