/** The trace of a task that runs in a thread or process, with the real SDK on both sides. */
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { instrument } from "../../../src/entries/otel/index.ts";
import { traced } from "../../features/executors/traced-tasks.ts";
import { startedWorker, temporaryQueue } from "../../support/queue.ts";

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
afterAll(() => context.disable());

describe.each(traced.map((fn) => [fn.taskName, fn] as const))("%s", (_, fn) => {
  test("its spans are children of the worker's span of the call", async () => {
    const exporter = new InMemorySpanExporter();
    const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
    onTestFinished(instrument({ tracerProvider }));
    const queue = await temporaryQueue();
    await startedWorker(queue);
    const seen = await queue.awaitTaskResult(await queue.enqueueTask(fn), { timeout: "20s" });
    const named = (name: string) => exporter.getFinishedSpans().find((span) => span.name === name);
    const { traceId, spanId } = named("execute_function")?.spanContext() ?? {};
    expect(seen).toEqual({
      traceId,
      parent: spanId,
      carried: { traceparent: `00-${traceId}-${spanId}-01` },
    });
    expect(named("enqueue_task")?.spanContext().traceId).toBe(traceId);
  });

  test("without a tracer in the worker, they continue the trace of the enqueue", async () => {
    const queue = await temporaryQueue();
    const undo = instrument({ tracerProvider: new BasicTracerProvider() });
    const id = await queue.enqueueTask(fn);
    undo();
    const carried = (await queue.getTask(id))?.traceContext;
    await startedWorker(queue);
    const seen = await queue.awaitTaskResult(id, { timeout: "20s" });
    expect(seen.carried).toEqual(carried);
    expect(String(carried?.traceparent)).toBe(`00-${seen.traceId}-${seen.parent}-01`);
  });
});

test("a task without a trace has none in its function", async () => {
  const [fn] = traced as [(typeof traced)[number]];
  const queue = await temporaryQueue();
  await startedWorker(queue);
  const id = await queue.enqueueTask(fn);
  expect(await queue.awaitTaskResult(id, { timeout: "20s" })).toMatchObject({ parent: null, carried: null });
  expect(trace.getActiveSpan()).toBeUndefined();
});
