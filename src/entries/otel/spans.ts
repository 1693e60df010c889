/**
 * Spans, by the names of the Python dbq, with the attributes of OpenTelemetry's conventions for messaging where they fit
 * (https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/).
 */
import {
  type Attributes,
  context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { TaskError } from "../../index.ts";
import type { ObservedRow, Subscriptions, TraceMessage } from "./subscriptions.ts";
import { toSpanContext, toTraceContext } from "./trace-context.ts";

interface EnqueueMessage extends TraceMessage {
  tasks: readonly { func: string; queueName: string }[];
}

interface ClaimMessage {
  tasks: readonly { id: number; func: string; queueName: string }[];
  workerId: string;
  startedAt: number;
  endedAt: number;
}

type TaskMessage = TraceMessage & { record: ObservedRow };
type ProcessMessage = TaskMessage & { outcome?: string };

/** The status that the outcome of an attempt leaves in the row. */
const statusAfter: Readonly<Record<string, string>> = {
  completed: "completed",
  failed: "failed",
  cancelled: "cancelled",
  retry: "scheduled",
  snoozed: "scheduled",
  interrupted: "pending",
};

const hookSpans: Readonly<Record<string, string>> = {
  beforeRun: "task_before_run",
  onSuccess: "task_on_success",
  onFailure: "task_on_failure",
};

/** Adds what the operation is. */
function operation(attributes: Attributes, name: string, type: string): Attributes {
  attributes["messaging.operation.name"] = name;
  attributes["messaging.operation.type"] = type;
  return attributes;
}

type Named = { func: string; queueName: string };

/** The value that all have; undefined where they differ. */
function common(tasks: readonly Named[], name: keyof Named): string | undefined {
  const value = tasks[0]?.[name];
  return tasks.every((task) => task[name] === value) ? value : undefined;
}

function ofTasks(tasks: readonly Named[]): Attributes {
  const attributes: Attributes = { "messaging.system": "dbq" };
  const [queueName, func] = [common(tasks, "queueName"), common(tasks, "func")];
  if (queueName !== undefined) attributes["messaging.destination.name"] = queueName;
  if (queueName !== undefined) attributes["dbq.queue_name"] = queueName;
  if (func !== undefined) attributes["dbq.task.function"] = func;
  if (tasks.length !== 1) attributes["messaging.batch.message_count"] = tasks.length;
  return attributes;
}

const ofTask = ({ id, func, queueName, retryCount }: ObservedRow): Attributes => ({
  "messaging.system": "dbq",
  "messaging.destination.name": queueName,
  "messaging.message.id": String(id),
  "dbq.queue_name": queueName,
  "dbq.task.function": func,
  "dbq.task.id": id,
  "dbq.task.retry_count": retryCount,
});

/** Makes the operation run with this span as the active one. */
function activate(message: TraceMessage, span: Span): void {
  const active = trace.setSpan(context.active(), span);
  message.call = (operation) => context.with(active, operation);
}

function endWith(span: Span, { error }: TraceMessage): void {
  if (error !== undefined) fail(span, error);
  span.end();
}

/** `error` is a thrown value, or a task's error, which has the same fields. */
function fail(span: Span, error: unknown): void {
  const { name, message = String(error), stack } = (error ?? {}) as Partial<TaskError>;
  span.recordException({ name: name ?? "Error", message, ...(stack === undefined ? {} : { stack }) });
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

/** Makes a span of each of dbq's operations. */
export function listenForSpans(subscriptions: Subscriptions, tracer: Tracer): void {
  listenForEnqueues(subscriptions, tracer);
  subscriptions.on<ClaimMessage>("dbq:claimed", (claim) => claimSpan(tracer, claim));
  subscriptions.onTrace<ProcessMessage, Span>("dbq:process", {
    start: (message) => startProcess(tracer, message),
    end: endProcess,
  });
  const plain = <M extends TraceMessage>(channel: string, start: (message: M) => Span | undefined) =>
    subscriptions.onTrace<M, Span | undefined>(channel, {
      start: (message) => {
        const span = start(message);
        if (span) activate(message, span);
        return span;
      },
      end: (message, span) => span && endWith(span, message),
    });
  plain<TaskMessage>("dbq:run", ({ record }) => childSpan(tracer, "execute_function", record));
  plain<TaskMessage & { hook: string }>("dbq:hook", ({ hook, record }) =>
    childSpan(tracer, hookSpans[hook] ?? hook, record),
  );
  plain<TraceMessage & { id: number }>("dbq:await", ({ id }) =>
    tracer.startSpan("await_task_completion", {
      attributes: { "messaging.system": "dbq", "dbq.task.id": id },
    }),
  );
  plain<TraceMessage & { filter: object }>("dbq:purge", ({ filter }) =>
    tracer.startSpan("purge_tasks", { attributes: ofFilter(filter) }),
  );
  plain<TraceMessage & { workerId: string }>("dbq:stop", ({ workerId }) =>
    tracer.startSpan("worker_stop", { attributes: { "messaging.system": "dbq", "dbq.worker.id": workerId } }),
  );
}

const ofFilter = ({ func, queueName }: { func?: string; queueName?: string }): Attributes => ({
  "messaging.system": "dbq",
  ...(func === undefined ? {} : { "dbq.task.function": func }),
  ...(queueName === undefined ? {} : { "dbq.queue_name": queueName }),
});

function listenForEnqueues(subscriptions: Subscriptions, tracer: Tracer): void {
  subscriptions.onTrace<EnqueueMessage, Span>("dbq:enqueue", {
    start: (message) => {
      const attributes = operation(ofTasks(message.tasks), "enqueue", "send");
      const span = tracer.startSpan("enqueue_task", { kind: SpanKind.PRODUCER, attributes });
      activate(message, span);
      return span;
    },
    end: (message, span) => {
      const ids = [message.result].flat();
      if (ids.length === 1 && typeof ids[0] === "number")
        span.setAttributes({ "messaging.message.id": String(ids[0]), "dbq.task.id": ids[0] });
      endWith(span, message);
    },
  });
  // Published while the span above is active: the task's run becomes its child, in whatever process.
  subscriptions.on<{ traceContext?: object }>("dbq:enqueue", (message) => {
    const carried = toTraceContext(
      trace.getSpanContext(context.active()) ?? { traceId: "", spanId: "", traceFlags: 0 },
    );
    if (carried) message.traceContext = carried;
  });
}

/** One span for a batch. It has no parent: its tasks may come from many traces. */
function claimSpan(tracer: Tracer, { tasks, workerId, startedAt, endedAt }: ClaimMessage): void {
  const attributes = operation(ofTasks(tasks), "claim", "receive");
  attributes["messaging.batch.message_count"] = tasks.length;
  attributes["dbq.worker.id"] = workerId;
  const options = { kind: SpanKind.CLIENT, attributes, startTime: startedAt };
  tracer.startSpan("dequeue_task", options, ROOT_CONTEXT).end(endedAt);
}

/** A part of an attempt. Undefined when the sampler has dropped the span of the attempt: its parts are not worth the time. */
function childSpan(tracer: Tracer, name: string, record: ObservedRow): Span | undefined {
  if (trace.getActiveSpan()?.isRecording() === false) return undefined;
  return tracer.startSpan(name, { attributes: ofTask(record) });
}

/** The first attempt is a child of the enqueue. A retry is a trace of its own with a link to it: it may come hours later. */
function startProcess(tracer: Tracer, message: ProcessMessage): Span {
  const { record } = message;
  const attributes = operation(ofTask(record), "process", "process");
  const options: SpanOptions = { kind: SpanKind.CONSUMER, attributes };
  const enqueue = toSpanContext(record.traceContext);
  const isRetry = record.retryCount > 0;
  if (enqueue && isRetry) options.links = [{ context: enqueue }];
  const parent = enqueue && !isRetry ? trace.setSpanContext(ROOT_CONTEXT, enqueue) : ROOT_CONTEXT;
  const span = tracer.startSpan("process_task", options, parent);
  const active = trace.setSpan(ROOT_CONTEXT, span);
  message.call = (operation) => context.with(active, operation);
  return span;
}

function endProcess(message: ProcessMessage, span: Span): void {
  if (span.isRecording()) {
    const status = statusAfter[message.outcome ?? ""];
    if (status !== undefined) span.setAttribute("dbq.task.status", status);
    if (message.outcome === "failed" || message.outcome === "retry") fail(span, message.error);
  }
  span.end();
}
