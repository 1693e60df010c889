/** `dbq-ts/otel` with the real SDK: the spans and metrics of a queue and a worker, and what they are connected by. */
import { tracingChannel } from "node:diagnostics_channel";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import {
  type Attributes,
  context,
  diag,
  isSpanContextValid,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BasicTracerProvider,
  InMemorySpanExporter,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  SamplingDecision,
  SimpleSpanProcessor,
  type SpanExporter,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { instrument } from "../../../src/entries/otel/index.ts";
import { child, step } from "../../../src/features/workflows/steps.ts";
import { currentTask, type Queue, task, Worker } from "../../../src/index.ts";
import { deferred, temporaryQueue } from "../../support/queue.ts";

const contextManager = new AsyncLocalStorageContextManager();
beforeAll(() => void context.setGlobalContextManager(contextManager.enable()));
afterAll(() => context.disable());

/** Instruments this process, with spans kept in memory or sent to `exporter`. */
function spans(exporter: SpanExporter = new InMemorySpanExporter(), drop = false) {
  const provider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    ...(drop ? { sampler: new AlwaysOffSampler() } : {}),
  });
  const undo = instrument({ tracerProvider: provider });
  onTestFinished(undo);
  const finished = () => (exporter as InMemorySpanExporter).getFinishedSpans();
  const named = (name: string): ReadableSpan[] => finished().filter((span) => span.name === name);
  const one = (name: string): ReadableSpan => {
    expect(named(name)).toHaveLength(1);
    return named(name)[0] as ReadableSpan;
  };
  return { provider, undo, finished, named, one, tracer: provider.getTracer("app") };
}

async function worked(queue: Queue): Promise<Worker> {
  const worker = new Worker(queue, { concurrency: 1 });
  await worker.start();
  onTestFinished(() => worker.stop({ grace: 0 }));
  return worker;
}

test("the first attempt is a child of the enqueue, and the function's own spans are children of its run", async () => {
  const { one, tracer } = spans();
  const queue = await temporaryQueue();
  const fn = task("otel-child", async () => {
    tracer.startSpan("own work").end();
    return 1;
  });
  const request = tracer.startSpan("request");
  const id = await context.with(trace.setSpan(context.active(), request), () => queue.enqueueTask(fn));
  request.end();
  await worked(queue);
  await queue.awaitTaskResult(id);

  const [enqueue, process, run, own] = ["enqueue_task", "process_task", "execute_function", "own work"].map(
    one,
  );
  expect(enqueue?.parentSpanContext?.spanId).toBe(request.spanContext().spanId);
  expect(process?.parentSpanContext?.spanId).toBe(enqueue?.spanContext().spanId);
  expect(run?.parentSpanContext?.spanId).toBe(process?.spanContext().spanId);
  expect(own?.parentSpanContext?.spanId).toBe(run?.spanContext().spanId);
  expect([enqueue, process, run].map((span) => span?.kind)).toEqual([
    SpanKind.PRODUCER,
    SpanKind.CONSUMER,
    SpanKind.INTERNAL,
  ]);
  expect(enqueue?.attributes).toMatchObject({
    "messaging.system": "dbq",
    "messaging.operation.name": "enqueue",
    "messaging.operation.type": "send",
    "messaging.destination.name": "default",
    "messaging.message.id": String(id),
    "dbq.task.id": id,
    "dbq.task.function": "otel-child",
    "dbq.queue_name": "default",
  });
  expect(process?.attributes).toMatchObject({
    "messaging.operation.type": "process",
    "dbq.task.id": id,
    "dbq.task.retry_count": 0,
    "dbq.task.status": "completed",
  });
});

test("each task goes on with the trace of its own enqueue", async () => {
  const { named } = spans();
  const queue = await temporaryQueue();
  const fn = task("otel-own", async () => 1);
  const ids = [...(await queue.enqueueTasks([[fn], [fn]])), await queue.enqueueTask(fn)];
  await (await worked(queue)).idle();
  const [together, alone] = named("enqueue_task").map((span) => span.spanContext().traceId);
  const traces = new Map(
    named("process_task").map((span) => [span.attributes["dbq.task.id"], span.spanContext().traceId]),
  );
  expect(ids.map((id) => traces.get(id))).toEqual([together, together, alone]);
  expect(together).not.toBe(alone);
});

test("a retry is a trace of its own with a link to the enqueue, and both attempts say what failed", async () => {
  const { one, named } = spans();
  const queue = await temporaryQueue();
  const fn = task(
    "otel-retry",
    async () => {
      throw new RangeError(`attempt ${currentTask().retryCount}`);
    },
    { maxRetries: 1, backoff: () => 0 },
  );
  const id = await queue.enqueueTask(fn);
  await worked(queue);
  await queue.awaitTaskCompletion(id);

  const enqueue = one("enqueue_task");
  const [first, second] = named("process_task");
  expect(first?.spanContext().traceId).toBe(enqueue.spanContext().traceId);
  expect(second?.spanContext().traceId).not.toBe(enqueue.spanContext().traceId);
  expect(second?.parentSpanContext).toBeUndefined();
  expect(second?.links.map((link) => link.context.spanId)).toEqual([enqueue.spanContext().spanId]);
  expect([first, second].map((span) => span?.status)).toEqual([
    { code: SpanStatusCode.ERROR, message: "attempt 0" },
    { code: SpanStatusCode.ERROR, message: "attempt 1" },
  ]);
  expect([first, second].map((span) => span?.attributes["dbq.task.status"])).toEqual(["scheduled", "failed"]);
  const [event] = first?.events ?? [];
  expect(event?.attributes).toMatchObject({
    "exception.type": "RangeError",
    "exception.message": "attempt 0",
    "exception.stacktrace": expect.stringContaining("otel.test"),
  });
  expect(named("execute_function").map((span) => span.status.message)).toEqual(["attempt 0", "attempt 1"]);
});

test("a function that a stop abandons has its span, which says so, inside of the attempt's", async () => {
  const { one } = spans();
  const queue = await temporaryQueue();
  const [calling, release] = [deferred(), deferred()];
  const fn = task("otel-abandoned", async () => {
    calling.resolve();
    await release.promise;
  });
  await queue.enqueueTask(fn);
  const worker = await worked(queue);
  await calling.promise;
  await worker.stop({ grace: 0 });
  release.resolve();
  await new Promise((resolve) => setImmediate(resolve));

  const [process, run] = [one("process_task"), one("execute_function")];
  expect(process.attributes["dbq.task.status"]).toBe("pending");
  expect(run.parentSpanContext?.spanId).toBe(process.spanContext().spanId);
  expect(run.attributes["dbq.function.abandoned"]).toBe(true);
});

test("a function that settles has a span that does not call it abandoned", async () => {
  const { one } = spans();
  const queue = await temporaryQueue();
  const id = await queue.enqueueTask(task("otel-settled", async () => 1));
  await worked(queue);
  await queue.awaitTaskResult(id);
  expect(one("execute_function").attributes).not.toHaveProperty("dbq.function.abandoned");
});

test("a batch of tasks is one claim span, and a look that finds nothing makes none", async () => {
  const { one, named } = spans();
  const queue = await temporaryQueue();
  const fn = task("otel-batch", async (n: number) => n);
  await queue.enqueueTasks(Array.from({ length: 3 }, (_, n) => [fn, n] as const));
  const worker = new Worker(queue, { concurrency: 10 });
  await worker.start();
  onTestFinished(() => worker.stop({ grace: 0 }));
  await worker.idle();
  expect(one("enqueue_task").attributes["messaging.batch.message_count"]).toBe(3);
  expect(one("dequeue_task").attributes).toMatchObject({
    "messaging.batch.message_count": 3,
    "messaging.operation.type": "receive",
    "dbq.task.function": "otel-batch",
  });
  expect(named("process_task")).toHaveLength(3);
});

test("hooks, awaits, purges and stops have spans, and a rejected await says why", async () => {
  const { one, named } = spans();
  const queue = await temporaryQueue();
  const good = task("otel-hooks", async () => 1, { beforeRun: () => undefined, onSuccess: () => undefined });
  const bad = task(
    "otel-bad-hooks",
    async () => {
      throw new Error("no");
    },
    { maxRetries: 0, onFailure: () => undefined },
  );
  const id = await queue.enqueueTask(good);
  await expect(queue.awaitTaskCompletion(id, { timeout: 1 })).rejects.toThrow();
  const worker = await worked(queue);
  await queue.awaitTaskResult(id);
  await queue.awaitTaskCompletion(await queue.enqueueTask(bad));
  await queue.purgeTasks({ func: "otel-hooks" });
  await worker.stop();

  const [late, done] = named("await_task_completion");
  expect(late?.status.code).toBe(SpanStatusCode.ERROR);
  expect(done?.status.code).toBe(SpanStatusCode.UNSET);
  for (const name of ["task_before_run", "task_on_success", "task_on_failure"]) {
    const processed = named("process_task").map((span) => span.spanContext().spanId);
    expect(processed).toContain(one(name).parentSpanContext?.spanId);
  }
  expect(one("purge_tasks").attributes["dbq.task.function"]).toBe("otel-hooks");
  expect(one("worker_stop").attributes["dbq.worker.id"]).toMatch(/:/);
});

test("steps, undos and children have spans in the trace of their task; a stored step has no second one", async () => {
  const { one, named, tracer } = spans();
  const queue = await temporaryQueue();
  const leaf = task("otel-leaf", async () => 1);
  const flow = task(
    "otel-flow",
    async () => {
      await step("charge", () => tracer.startSpan("own work").end(), { undo: () => undefined });
      await step.within("book", () => 1);
      await child(leaf);
      throw new Error("bad");
    },
    { maxRetries: 1, backoff: () => 0 },
  );
  const id = await queue.enqueueTask(flow);
  await worked(queue);
  await queue.awaitTaskCompletion(id);
  const steps = named("execute_step");
  expect(steps.map(({ attributes }) => attributes["dbq.step.name"])).toEqual(["charge", "book"]);
  const [charge] = steps as [ReadableSpan];
  expect(one("own work").parentSpanContext?.spanId).toBe(charge.spanContext().spanId);
  const calls = named("execute_function").map((span) => span.spanContext().spanId);
  expect(calls).toContain(charge.parentSpanContext?.spanId);
  expect(one("undo_step").attributes).toMatchObject({ "dbq.step.name": "charge", "dbq.task.id": id });
  const ofLeaf = named("process_task").find(
    ({ attributes }) => attributes["dbq.task.function"] === "otel-leaf",
  );
  expect(ofLeaf?.spanContext().traceId).toBe(charge.spanContext().traceId);
});

test("a task that is enqueued in an app's transaction carries the trace; one without an active span carries none", async () => {
  const queue = await temporaryQueue();
  const fn = task("otel-within", async () => 1);
  const plain = await queue.enqueueTask(fn);
  const { one } = spans();
  const within = await queue.transaction((_, q) => q.enqueueTask(fn));
  const { traceId, spanId } = one("enqueue_task").spanContext();
  expect((await queue.getTask(plain))?.traceContext).toBeNull();
  expect((await queue.getTask(within))?.traceContext).toEqual({ traceparent: `00-${traceId}-${spanId}-01` });
});

test("of a task that the sampler drops, it is asked once for the attempt, with what the function's attempts have in common", async () => {
  let asked: [string, Attributes][] = [];
  const sampler: Sampler = {
    shouldSample: (_context, _traceId, name, _kind, attributes) => {
      asked.push([name, attributes]);
      const isRecorded = attributes["dbq.task.function"] === "otel-recorded";
      return { decision: isRecorded ? SamplingDecision.RECORD_AND_SAMPLED : SamplingDecision.NOT_RECORD };
    },
  };
  onTestFinished(instrument({ tracerProvider: new BasicTracerProvider({ sampler }) }));
  const queue = await temporaryQueue();
  await worked(queue);
  const askedOf = async (fn: () => Promise<number>) => {
    asked = [];
    await queue.awaitTaskResult(await queue.enqueueTask(fn));
    return asked.map(([name]) => name).sort();
  };
  const dropped = task("otel-dropped", async () => 1, { beforeRun: () => undefined });
  const recorded = task("otel-recorded", async () => 1, { beforeRun: () => undefined });
  const names = ["await_task_completion", "dequeue_task", "enqueue_task", "process_task"];
  expect(await askedOf(dropped)).toEqual(names);
  expect(tracingChannel("dbq:run").hasSubscribers).toBe(false);
  expect(await askedOf(recorded)).toEqual([...names, "execute_function", "task_before_run"].sort());
  expect(await askedOf(dropped)).toEqual(names);
  expect(asked.find(([name]) => name === "process_task")?.[1]).toEqual({
    "messaging.system": "dbq",
    "messaging.destination.name": "default",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "dbq.queue_name": "default",
    "dbq.task.function": "otel-dropped",
  });
});

test.each([
  ["whose enqueue was dropped too", true],
  ["that was enqueued without a trace", false],
])("a function's own spans are dropped with the attempt of a task %s", async (_, traced) => {
  const exporter = new InMemorySpanExporter();
  const own = new BasicTracerProvider({
    sampler: new ParentBasedSampler({ root: new AlwaysOnSampler() }),
    spanProcessors: [new SimpleSpanProcessor(exporter)],
  }).getTracer("app");
  const queue = await temporaryQueue();
  const parents: (SpanContext | undefined)[] = [];
  const fn = task(`otel-own-${traced}`, async () => {
    parents.push(trace.getSpanContext(context.active()));
    own.startSpan("own work").end();
  });
  if (!traced) await queue.enqueueTask(fn);
  spans(new InMemorySpanExporter(), true);
  if (traced) await queue.enqueueTask(fn);
  const worker = await worked(queue);
  await worker.idle();
  expect(parents.map((parent) => parent && [isSpanContextValid(parent), parent.traceFlags])).toEqual([
    [true, TraceFlags.NONE],
  ]);
  const carried = (await queue.listTasks())[0]?.traceContext as { traceparent: string } | null;
  expect(carried?.traceparent.includes(parents[0]?.traceId ?? "")).toBe(traced ? true : undefined);
  expect(exporter.getFinishedSpans()).toEqual([]);
});

test("a corrupt trace context in a row starts a new trace", async () => {
  const { named } = spans();
  const queue = await temporaryQueue();
  const fn = task("otel-corrupt", async () => 1);
  const { store } = (await import("../../../src/features/queue.ts")).internalsOf(queue);
  const { newTask } = await import("../../conformance/arrange.ts");
  const contexts = [
    "no JSON",
    '{"traceparent":7}',
    '{"traceparent":"00-0-0-01"}',
    `{"traceparent":"00-${"x".repeat(32)}-${"x".repeat(16)}-01"}`,
    `{"traceparent":"00-${"0".repeat(32)}-${"0".repeat(16)}-01"}`,
    "[]",
  ];
  await store.insert(
    contexts.map((traceContext) => ({ ...newTask({ func: fn.taskName }), traceContext })),
    "report",
  );
  const worker = await worked(queue);
  await worker.idle();
  expect(named("process_task").map((span) => [span.parentSpanContext, span.links])).toEqual(
    contexts.map(() => [undefined, []]),
  );
});

test("after it is undone there are no spans, and a task's trace context is not written", async () => {
  const { undo, finished } = spans();
  undo();
  const queue = await temporaryQueue();
  const id = await queue.enqueueTask(task("otel-undone", async () => 1));
  expect((await queue.getTask(id))?.traceContext).toBeNull();
  expect(finished()).toEqual([]);
});

test("an exporter that throws harms neither the enqueue nor the task, and the logger of OpenTelemetry says so", async () => {
  const error = vi.fn();
  diag.setLogger({ error, warn: error, info: () => {}, debug: () => {}, verbose: () => {} });
  onTestFinished(() => diag.disable());
  const broken = {
    onStart: () => {
      throw new Error("the processor is broken");
    },
    onEnd: () => {
      throw new Error("the processor is broken");
    },
    forceFlush: async () => undefined,
    shutdown: async () => undefined,
  };
  onTestFinished(instrument({ tracerProvider: new BasicTracerProvider({ spanProcessors: [broken] }) }));
  const queue = await temporaryQueue();
  await worked(queue);
  const id = await queue.enqueueTask(task("otel-broken", async () => "done"));
  expect(await queue.awaitTaskResult(id)).toBe("done");
  expect(error).toHaveBeenCalled();
});

test("spans reach a collector over OTLP, and those that the sampler drops do not", async () => {
  const received: string[] = [];
  const collector = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      received.push(body);
      response.end("{}");
    });
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => collector.once("listening", resolve));
  onTestFinished(() => void collector.close());
  const url = `http://127.0.0.1:${(collector.address() as AddressInfo).port}/v1/traces`;
  const queue = await temporaryQueue();
  for (const drop of [true, false]) {
    const { provider, undo } = spans(new OTLPTraceExporter({ url }), drop);
    await queue.enqueueTask(task(`otel-otlp-${drop}`, async () => 1));
    await provider.forceFlush();
    undo();
  }
  expect(received.join()).toContain("enqueue_task");
  expect(received.join()).toContain("otel-otlp-false");
  expect(received.join()).not.toContain("otel-otlp-true");
});

test("metrics count what was sent and consumed, time the waiting and the processing in seconds, and gauge the rows", async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  onTestFinished(() => meterProvider.shutdown());
  const queue = await temporaryQueue();
  onTestFinished(instrument({ meterProvider, queue }));
  const fn = task("otel-metrics", async () => 1);
  const later = task("otel-later", async () => 1, { delay: "1h" });
  await queue.enqueueTask(later);
  await queue.enqueueTasks([[fn], [fn]]);
  const worker = await worked(queue);
  await worker.idle();
  await reader.forceFlush();

  const [resource] = exporter.getMetrics().slice(-1);
  const points = Object.fromEntries(
    (resource?.scopeMetrics ?? []).flatMap(({ metrics: found }) =>
      found.map((metric) => [
        metric.descriptor.name,
        metric.dataPoints.map(({ attributes, value }) => ({
          func: attributes["dbq.task.function"],
          status: attributes["dbq.task.status"],
          outcome: attributes["dbq.outcome"],
          value: typeof value === "number" ? value : value.count,
        })),
      ]),
    ),
  );
  expect(points).toEqual({
    "messaging.client.sent.messages": [
      { func: "otel-later", value: 1 },
      { func: "otel-metrics", value: 2 },
    ],
    "messaging.client.consumed.messages": [{ func: "otel-metrics", value: 2 }],
    "messaging.process.duration": [{ func: "otel-metrics", outcome: "completed", value: 2 }],
    "dbq.task.wait_time": [{ func: "otel-metrics", value: 2 }],
    "dbq.tasks": [
      { status: "pending", value: 0 },
      { status: "scheduled", value: 1 },
      { status: "running", value: 0 },
      { status: "waiting", value: 0 },
      { status: "failed", value: 0 },
    ],
    "dbq.oldest_pending.age": [{ value: 0 }],
    "dbq.tasks.put_off": [{ value: 0 }],
    "dbq.oldest_put_off.age": [{ value: 0 }],
  });
});

test.each([
  [
    { traceProvider: {} },
    'instrument: there is no option "traceProvider"; there are tracerProvider, meterProvider, queue',
  ],
  [
    { tracerProvider: {} },
    "instrument: tracerProvider: expected a TracerProvider of OpenTelemetry, got an object (Object)",
  ],
  [{ meterProvider: 7 }, "instrument: meterProvider: expected a MeterProvider of OpenTelemetry, got 7"],
  [{ queue: "default" }, 'instrument: queue: expected a queue of openQueue, got "default"'],
  ["all", 'instrument: expected an object of options, got "all"'],
])("instrument refuses the options %o, and names what is wrong", (options, message) => {
  expect(() => instrument(options as object)).toThrow(new TypeError(message));
});

test("instrument refuses a queue for which it would make no gauges", async () => {
  const queue = await temporaryQueue();
  const tracerProvider = new BasicTracerProvider();
  expect(() => instrument({ tracerProvider, queue })).toThrow(
    new TypeError("instrument: queue is for metrics: pass the meterProvider that they go to"),
  );
});

test("a call for spans and a call for metrics share nothing, and a second call with the same provider makes nothing twice", async () => {
  const global = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(global)] }),
  );
  onTestFinished(() => trace.disable());
  const { provider, named, one, undo, tracer } = spans();
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  onTestFinished(() => meterProvider.shutdown());
  const queue = await temporaryQueue();
  const repeats = [
    instrument({ meterProvider }),
    instrument({ meterProvider, queue }),
    instrument({ tracerProvider: provider }),
  ];
  const fn = task("otel-twice", async () => tracer.startSpan("own work").end());
  await worked(queue);
  await queue.awaitTaskResult(await queue.enqueueTask(fn));
  for (const name of ["enqueue_task", "execute_function"]) one(name);
  expect(one("own work").parentSpanContext?.spanId).toBe(one("execute_function").spanContext().spanId);
  expect(global.getFinishedSpans()).toEqual([]);
  await reader.forceFlush();
  const [resource] = exporter.getMetrics().slice(-1);
  const sent = resource?.scopeMetrics.flatMap(({ metrics }) => metrics)[0];
  expect(sent).toMatchObject({
    descriptor: { name: "messaging.client.sent.messages" },
    dataPoints: [{ value: 1 }],
  });
  for (const each of [...repeats, ...repeats]) each();
  await queue.enqueueTask(fn);
  expect(named("enqueue_task")).toHaveLength(2);
  undo();
  await queue.enqueueTask(fn);
  expect(named("enqueue_task")).toHaveLength(2);
});
