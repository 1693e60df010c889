/**
 * Spans, by the names of the Python dbq, with the attributes of OpenTelemetry's conventions for messaging where they fit
 * (https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/).
 */
import {
  type Attributes,
  type Context,
  context,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { TaskError } from "../../index.ts";
import { perFunction } from "./attributes.ts";
import type { ObservedRow, ObservedTask, Subscriptions, TraceMessage } from "./subscriptions.ts";
import { toSpanContext, toTraceContext } from "./trace-context.ts";

type Call = NonNullable<TraceMessage["call"]>;

interface EnqueueMessage extends TraceMessage {
  tasks: readonly ObservedTask[];
}

interface ClaimMessage {
  tasks: readonly ObservedRow[];
  workerId: string;
  startedAt: number;
  endedAt: number;
}

/** `attempt`: for a call or a hook, the message of the attempt that it belongs to. */
type TaskMessage = TraceMessage & { record: ObservedRow; attempt?: object };
type StepMessage = TaskMessage & { step: string; isUndo: boolean };
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

/** The value that all of them have; undefined if they differ. */
function common(tasks: readonly ObservedTask[], name: keyof ObservedTask): string | undefined {
  const value = tasks[0]?.[name];
  return tasks.every((task) => task[name] === value) ? value : undefined;
}

function ofTasks(tasks: readonly ObservedTask[]): Attributes {
  const attributes: Attributes = { "messaging.system": "dbq" };
  const [queueName, func] = [common(tasks, "queueName"), common(tasks, "func")];
  if (queueName !== undefined) {
    attributes["messaging.destination.name"] = queueName;
    attributes["dbq.queue_name"] = queueName;
  }
  if (func !== undefined) attributes["dbq.task.function"] = func;
  if (tasks.length !== 1) attributes["messaging.batch.message_count"] = tasks.length;
  return attributes;
}

const ofFunction = ({ func, queueName }: ObservedTask): Attributes => ({
  "messaging.system": "dbq",
  "messaging.destination.name": queueName,
  "dbq.queue_name": queueName,
  "dbq.task.function": func,
});

const ofRow = ({ id, retryCount }: ObservedRow): Attributes => ({
  "messaging.message.id": String(id),
  "dbq.task.id": id,
  "dbq.task.retry_count": retryCount,
});

const ofTask = (row: ObservedRow): Attributes => ({ ...ofFunction(row), ...ofRow(row) });

/** The attributes that a sampler sees. The others are added only if it keeps the span. */
const ofAttempts = perFunction((task) => operation(ofFunction(task), "process", "process"));

/** Makes the operation run with this span as the active one. */
function activate(message: TraceMessage, span: Span): void {
  runIn(message, trace.setSpan(context.active(), span));
}

function runIn(message: TraceMessage, active: Context): void {
  message.call = callIn(active);
}

function callIn(active: Context): Call {
  return (operation) => context.with(active, operation);
}

function endWith(span: Span, { error, how }: TraceMessage): void {
  if (error !== undefined) fail(span, error);
  if (how === "abandoned") span.setAttribute("dbq.function.abandoned", true);
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
  listenForAttempts(subscriptions, tracer);
  carryToChildren(subscriptions);
  const plain = <M extends TraceMessage>(channel: string, start: (message: M) => Span) =>
    listenFor<M>(subscriptions, channel, start);
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

/** Makes one span of each operation; none when `start` returns none. */
function listenFor<M extends TraceMessage>(
  subscriptions: Subscriptions,
  channel: string,
  start: (message: M) => Span | undefined,
): void {
  subscriptions.onTrace<M, Span | undefined>(channel, {
    start: (message) => {
      const span = start(message);
      if (span) activate(message, span);
      return span;
    },
    end: (message, span) => span && endWith(span, message),
  });
}

/** Attempts, and their parts. An attempt that the sampler has dropped has no parts, as they would be dropped too. */
function listenForAttempts(subscriptions: Subscriptions, tracer: Tracer): void {
  let hasParts = false;
  const enqueues = new EnqueueContexts();
  const spanOf = subscriptions.onTrace<ProcessMessage, Span | undefined>("dbq:process", {
    start: (message) => {
      const span = startProcess(tracer, message, enqueues);
      // Only once a span is recorded: without a listener, dbq makes no messages for calls and hooks.
      if (span && !hasParts) listenForParts();
      return span;
    },
    end: (message, span) => span && endProcess(message, span),
  });
  const partOf = ({ attempt, record }: TaskMessage, name: string): Span | undefined =>
    attempt && spanOf(attempt) ? tracer.startSpan(name, { attributes: ofTask(record) }) : undefined;
  const listenForParts = () => {
    hasParts = true;
    listenFor<TaskMessage>(subscriptions, "dbq:run", (message) => partOf(message, "execute_function"));
    listenFor<TaskMessage & { hook: string }>(subscriptions, "dbq:hook", (message) =>
      partOf(message, hookSpans[message.hook] ?? message.hook),
    );
    listenFor<StepMessage>(subscriptions, "dbq:step", (message) => startStep(tracer, message));
  };
}

/** A child of the span of the function's call, which the sampler may have dropped. */
function startStep(tracer: Tracer, { record, step, isUndo }: StepMessage): Span | undefined {
  if (!trace.getSpan(context.active())?.isRecording()) return undefined;
  const attributes = { ...ofTask(record), "dbq.step.name": step };
  return tracer.startSpan(isUndo ? "undo_step" : "execute_step", { attributes });
}

/** A thread or process has no span of the call: spans of the function there continue the one that the worker has. */
function carryToChildren(subscriptions: Subscriptions): void {
  subscriptions.on<{ traceContext?: object }>("dbq:child-call", carryActive);
  subscriptions.onTrace<TraceMessage & { traceContext: string | null }, undefined>("dbq:child-call", {
    start: (message) => {
      const span = toSpanContext(message.traceContext);
      if (span) runIn(message, trace.setSpanContext(ROOT_CONTEXT, span));
    },
    end: () => undefined,
  });
}

function carryActive(message: { traceContext?: object }): void {
  const carried = toTraceContext(trace.getSpanContext(context.active()));
  if (carried) message.traceContext = carried;
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
  subscriptions.on<{ traceContext?: object }>("dbq:enqueue", carryActive);
}

/** One span for a batch. It has no parent: its tasks may come from many traces. */
function claimSpan(tracer: Tracer, { tasks, workerId, startedAt, endedAt }: ClaimMessage): void {
  const attributes = operation(ofTasks(tasks), "claim", "receive");
  attributes["messaging.batch.message_count"] = tasks.length;
  attributes["dbq.worker.id"] = workerId;
  const options = { kind: SpanKind.CLIENT, attributes, startTime: startedAt };
  tracer.startSpan("dequeue_task", options, ROOT_CONTEXT).end(endedAt);
}

/** The span of an enqueue, and the context in which it is the active one. */
interface EnqueueContext {
  span: SpanContext;
  active: Context;
  /** Calls an operation in that context. */
  call: Call;
}

/** Makes them once for tasks that were enqueued together, which carry the same text and mostly run one after another. */
class EnqueueContexts {
  #text: string | null = null;
  #last: EnqueueContext | undefined;

  of(text: string | null): EnqueueContext | undefined {
    if (text === this.#text) return this.#last;
    const span = toSpanContext(text);
    this.#text = text;
    this.#last = span && contextOf(span);
    return this.#last;
  }
}

function contextOf(span: SpanContext): EnqueueContext {
  const active = trace.setSpanContext(ROOT_CONTEXT, span);
  return { span, active, call: callIn(active) };
}

/**
 * The first attempt is a child of the enqueue. A retry is a trace of its own with a link to it: it may come hours later.
 * @returns the span, if it is recorded. Nothing is to be told to one that the sampler has dropped.
 */
function startProcess(tracer: Tracer, message: ProcessMessage, enqueues: EnqueueContexts): Span | undefined {
  const { record } = message;
  const options: SpanOptions = { kind: SpanKind.CONSUMER, attributes: ofAttempts(record) };
  const enqueue = enqueues.of(record.traceContext);
  const isRetry = record.retryCount > 0;
  if (enqueue && isRetry) options.links = [{ context: enqueue.span }];
  const parent = isRetry ? undefined : enqueue;
  const span = tracer.startSpan("process_task", options, parent?.active ?? ROOT_CONTEXT);
  const isRecording = span.isRecording();
  if (isRecording) span.setAttributes(ofRow(record));
  // A dropped span of an unsampled trace adds nothing to its parent's context, which exists already.
  const saysAsMuch = !isRecording && parent?.span.traceFlags === TraceFlags.NONE;
  message.call = saysAsMuch ? parent.call : callIn(trace.setSpan(ROOT_CONTEXT, span));
  return isRecording ? span : undefined;
}

function endProcess(message: ProcessMessage, span: Span): void {
  const status = statusAfter[message.outcome ?? ""];
  if (status !== undefined) span.setAttribute("dbq.task.status", status);
  if (message.outcome === "failed" || message.outcome === "retry") fail(span, message.error);
  span.end();
}
