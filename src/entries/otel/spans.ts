/**
 * Spans, by the names of the Python dbq, with the attributes of OpenTelemetry's conventions for messaging where they fit
 * (https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/).
 */
import {
  type Attributes,
  context,
  type Link,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { Task, TaskError } from "../../index.ts";
import type { Subscriptions, TraceMessage } from "./subscriptions.ts";
import { toSpanContext, toTraceContext } from "./trace-context.ts";

interface EnqueueMessage extends TraceMessage {
  tasks: readonly { func: string; queueName: string }[];
}

interface ClaimMessage {
  tasks: readonly { id: number; func: string; queueName: string }[];
  workerId: string;
  startedAt: Date;
  endedAt: Date;
}

interface ProcessMessage extends TraceMessage {
  task: Task;
  outcome?: string;
}

type TaskMessage = TraceMessage & { task: Task };

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

const messaging = (name: string, type: string): Attributes => ({
  "messaging.system": "dbq",
  "messaging.operation.name": name,
  "messaging.operation.type": type,
});

/** The one value that all have; undefined where they differ. */
function common<T>(values: readonly T[]): T | undefined {
  return values.every((value) => value === values[0]) ? values[0] : undefined;
}

const ofTasks = (tasks: readonly { func: string; queueName: string }[]): Attributes => {
  const queueName = common(tasks.map((task) => task.queueName));
  const func = common(tasks.map((task) => task.func));
  return {
    ...(queueName === undefined
      ? {}
      : { "messaging.destination.name": queueName, "dbq.queue_name": queueName }),
    ...(func === undefined ? {} : { "dbq.task.function": func }),
    ...(tasks.length === 1 ? {} : { "messaging.batch.message_count": tasks.length }),
  };
};

const ofTask = (task: Task): Attributes => ({
  ...ofTasks([task]),
  "messaging.message.id": String(task.id),
  "dbq.task.id": task.id,
  "dbq.task.retry_count": task.retryCount,
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
  const plain = <M extends TraceMessage>(channel: string, start: (message: M) => Span) =>
    subscriptions.onTrace<M, Span>(channel, {
      start: (message) => {
        const span = start(message);
        activate(message, span);
        return span;
      },
      end: (message, span) => endWith(span, message),
    });
  plain<TaskMessage>("dbq:run", ({ task }) =>
    tracer.startSpan("execute_function", { attributes: ofTask(task) }),
  );
  plain<TaskMessage & { hook: string }>("dbq:hook", ({ hook, task }) =>
    tracer.startSpan(hookSpans[hook] ?? hook, { attributes: ofTask(task) }),
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
      const attributes = { ...messaging("enqueue", "send"), ...ofTasks(message.tasks) };
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
  const attributes = {
    ...messaging("claim", "receive"),
    ...ofTasks(tasks),
    "messaging.batch.message_count": tasks.length,
    "dbq.worker.id": workerId,
  };
  const options = { kind: SpanKind.CLIENT, attributes, startTime: startedAt };
  tracer.startSpan("dequeue_task", options, ROOT_CONTEXT).end(endedAt);
}

/** The first attempt is a child of the enqueue. A retry is a trace of its own with a link to it: it may come hours later. */
function startProcess(tracer: Tracer, message: ProcessMessage): Span {
  const { task } = message;
  const attributes = { ...messaging("process", "process"), ...ofTask(task) };
  const options = { kind: SpanKind.CONSUMER, attributes };
  const enqueue = toSpanContext(task.traceContext);
  const isRetry = task.retryCount > 0;
  const parent = enqueue && !isRetry ? trace.setSpanContext(ROOT_CONTEXT, enqueue) : ROOT_CONTEXT;
  const links: Link[] = enqueue && isRetry ? [{ context: enqueue }] : [];
  const span = tracer.startSpan("process_task", { ...options, links }, parent);
  activate(message, span);
  return span;
}

function endProcess(message: ProcessMessage, span: Span): void {
  const status = statusAfter[message.outcome ?? ""];
  if (status !== undefined) span.setAttribute("dbq.task.status", status);
  if (message.outcome === "failed" || message.outcome === "retry") fail(span, message.error);
  span.end();
}
