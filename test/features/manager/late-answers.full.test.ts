/** What an agent does with answers that come late. The Manager here is the test: it answers when the test says so. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { Agent } from "../../../src/features/manager/agent/index.ts";
import { currentTask, task } from "../../../src/index.ts";
import { deferred, uniqueName } from "../../support/queue.ts";

interface Asked {
  // biome-ignore lint/suspicious/noExplicitAny: JSON, which each test looks into.
  body: any;
  answer(body: object): void;
  /** Ends the connection without an answer. */
  hangUp(): void;
}

/** A Manager whose every answer the test gives: `next(path)` resolves with the next request there that nobody has taken. */
async function manager() {
  const [asked, waiting] = [new Map<string, Asked[]>(), new Map<string, ((one: Asked) => void)[]>()];
  let isOver = false;
  const server = createServer(async (request, response: ServerResponse) => {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const path = request.url as string;
    const answer = (body: object) => void response.end(JSON.stringify(body));
    const one = { body: JSON.parse(text), answer, hangUp: () => void request.socket.destroy() };
    if (isOver) return one.answer(anything);
    const taker = waiting.get(path)?.shift();
    if (taker) taker(one);
    else asked.set(path, [...(asked.get(path) ?? []), one]);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const next = async (path: string): Promise<Asked> => {
    const one = asked.get(path)?.shift();
    return one ?? new Promise((resolve) => waiting.set(path, [...(waiting.get(path) ?? []), resolve]));
  };
  /** Answers whatever the agent still asks, so that its stop need not wait. */
  const end = async (agent: Agent) => {
    isOver = true;
    for (const some of asked.values()) for (const one of some) one.answer(anything);
    await agent.stop({ grace: 0 });
    server.close();
  };
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const unanswered = (path: string) => asked.get(path)?.length ?? 0;
  return { url, next, end, unanswered };
}

/** An answer to any request: nothing to do. */
const anything = { tasks: [], settled: [], lost: [7], cancel: [], quiet: false };

const claimed = (func: string, generation: number) => ({
  ...{ id: 7, generation, func, args: [generation], kwargs: {}, meta: {}, retryCount: 0, maxRetries: 3 },
  ...{
    timeout: null,
    requestId: null,
    traceContext: null,
    queueName: "default",
    priority: 5,
    fillDefaults: false,
  },
  ...{ createdAt: 0, startedAt: 0 },
});

/** An agent that has claimed generation 2 of task 7; its function ends when the test says so. */
async function running() {
  const { url, next, end, unanswered } = await manager();
  const calls = [deferred(), deferred()];
  const signals: AbortSignal[] = [];
  const fn = task(uniqueName(), async (generation: number) => {
    signals.push(currentTask().signal);
    await calls[generation / 2 - 1]?.promise;
    return generation;
  });
  const agent = new Agent({ managers: url, token: "t", tasks: [fn] });
  const started = agent.start();
  (await next("/v1/limits")).answer({});
  (await next("/v1/claim")).answer({ tasks: [claimed(fn.taskName, 2)] });
  await started;
  onTestFinished(() => end(agent));
  return { fn, next, calls, signals, unanswered };
}

it("a connection that ends while a beat is under way makes no second beat", async () => {
  const { next, unanswered, calls } = await running();
  const claim = await next("/v1/claim");
  const beat = await next("/v1/beat");
  claim.hangUp();
  // By then the agent has asked its claim again.
  await next("/v1/claim");
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(unanswered("/v1/beat")).toBe(0);
  beat.answer(anything);
  calls[0]?.resolve();
});

it("a late answer about a task's earlier attempt does not end its next attempt", async () => {
  const { fn, next, calls, signals } = await running();
  const beat = await next("/v1/beat");
  expect(beat.body.running).toEqual([{ id: 7, generation: 2 }]);
  calls[0]?.resolve();
  (await next("/v1/settle")).answer({ settled: [7], lost: [] });
  (await next("/v1/claim")).answer({ tasks: [claimed(fn.taskName, 4)] });
  // By now the task has come to the agent again. The answer to the beat is about what it named.
  await next("/v1/claim");
  beat.answer({ cancel: [7], lost: [7], quiet: false });
  const second = await next("/v1/beat");
  expect(second.body.running).toEqual([{ id: 7, generation: 4 }]);
  expect(signals[1]?.aborted).toBe(false);
  calls[1]?.resolve();
  const settle = await next("/v1/settle");
  expect(settle.body.tasks).toEqual([{ id: 7, generation: 4, status: "completed", result: 4 }]);
  settle.answer({ settled: [7], lost: [] });
});

it("of two attempts of one task an agent names the newer, and ends the older", async () => {
  const { fn, next, signals } = await running();
  (await next("/v1/claim")).answer({ tasks: [claimed(fn.taskName, 4)] });
  await next("/v1/claim");
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  expect(signals[0]?.reason).toMatchObject({ code: "DBQ_LOST_GENERATION" });
  (await next("/v1/beat")).answer({ cancel: [], lost: [], quiet: false });
  const { body } = await next("/v1/beat");
  expect(body.running).toEqual([{ id: 7, generation: 4 }]);
});
