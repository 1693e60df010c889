/** A span's context as text (https://www.w3.org/TR/trace-context/), so that a task can carry it from its enqueue to its run. */
import { createTraceState, isSpanContextValid, type SpanContext } from "@opentelemetry/api";

/** The largest `tracestate` that is kept, in characters: what the specification asks every system to carry. */
const longestState = 512;

/** What the column `trace_context` holds, as JSON. */
export interface TraceContext {
  traceparent: string;
  tracestate?: string;
}

/** Undefined without a span, or for a context that is not valid, such as that of a no-op tracer. */
export function toTraceContext(span: SpanContext | undefined): TraceContext | undefined {
  if (span === undefined || !isSpanContextValid(span)) return undefined;
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
  const written = withoutState(text);
  if (written) return written;
  const given: unknown = parsed(text);
  if (typeof given !== "object" || given === null) return undefined;
  const { traceparent, tracestate } = given as Partial<Record<keyof TraceContext, unknown>>;
  const [, traceId = "", spanId = "", flags = ""] =
    (typeof traceparent === "string" && parts.exec(traceparent)) || [];
  const span = remote(traceId, spanId, flags);
  return span && typeof tracestate === "string"
    ? { ...span, traceState: createTraceState(tracestate) }
    : span;
}

function remote(traceId: string, spanId: string, flags: string): SpanContext | undefined {
  const span: SpanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return isSpanContextValid(span) ? span : undefined;
}

/** The text of a valid context without a state, as `toTraceContext` writes it. */
const ownText = /^\{"traceparent":"00-(?!0+-)[\da-f]{32}-(?!0+-)[\da-f]{16}-[\da-f]{2}"\}$/;
const startsAt = '{"traceparent":"00-'.length;

/** Reads what `toTraceContext` writes for a span without a state, as most are: in a fifth of the time that JSON takes. */
function withoutState(text: string): SpanContext | undefined {
  if (!ownText.test(text)) return undefined;
  const part = (from: number, to: number) => text.slice(startsAt + from, startsAt + to);
  const traceFlags = Number.parseInt(part(50, 52), 16) & 1;
  return { traceId: part(0, 32), spanId: part(33, 49), traceFlags, isRemote: true };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
