/** What an agent does with answers that come late. The Manager here is the test: it answers when the test says so. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";
import { Agent } from "../../../src/features/agent.ts";
import { currentTask, task } from "../../../src/index.ts";
import { deferred, uniqueName } from "../../support/queue.ts";

interface Asked {
  // biome-ignore lint/suspicious/noExplicitAny: JSON, which each test looks into.
  body: any;
  answer(body: object): void;
  answerAndClose(body: object): void;
  /** Ends the connection without an answer. */
  hangUp(): void;
  /** Answers 401, and ends the connection, as a Manager does that knows no such token. */
  refuse(): void;
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
    const answerAndClose = (body: object) => {
      response.setHeader("connection", "close");
      answer(body);
    };
    const refuse = () =>
      void response.writeHead(401, { connection: "close" }).end(JSON.stringify({ error: "unauthorized" }));
    const hangUp = () => void request.socket.destroy();
    const one = { body: JSON.parse(text), answer, answerAndClose, refuse, hangUp };
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
  /** From now on answers whatever agents ask. */
  const answerAll = () => {
    isOver = true;
    for (const some of asked.values()) for (const one of some) one.answer(anything);
  };
  const end = async (agent: Agent) => {
    // Its stop need not wait then.
    answerAll();
    await agent.stop({ grace: 0 });
    server.close();
  };
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const unanswered = (path: string) => asked.get(path)?.length ?? 0;
  return { url, next, end, answerAll, unanswered };
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
async function running(otherManagers: readonly string[] = []) {
  const { url, next, end, unanswered } = await manager();
  const calls = [deferred(), deferred()];
  const signals: AbortSignal[] = [];
  const fn = task(uniqueName(), async (generation: number) => {
    signals.push(currentTask().signal);
    await calls[generation / 2 - 1]?.promise;
    return generation;
  });
  const agent = new Agent({ managers: [url, ...otherManagers], token: "t", tasks: [fn] });
  const started = agent.start();
  (await next("/v1/limits")).answer({});
  (await next("/v1/claim")).answer({ tasks: [claimed(fn.taskName, 2)] });
  await started;
  onTestFinished(() => end(agent));
  return { agent, fn, next, calls, signals, unanswered };
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

it("an agent whose token is refused aborts what it runs, reports that once, and names the tasks no more", async () => {
  const { agent, next, signals, unanswered, calls } = await running();
  const errors: string[] = [];
  agent.on("error", (error, where) => errors.push(`${where}: ${String(error)}`));
  const lost = new Promise((resolve) => agent.on("lost", resolve));
  (await next("/v1/beat")).refuse();
  await vi.waitFor(() => expect(signals[0]?.aborted).toBe(true), 5_000);
  await lost;
  expect(unanswered("/v1/beat")).toBe(0);
  expect(errors).toEqual([expect.stringMatching(/^telling a Manager what runs: .* refused the token/)]);
  calls[0]?.resolve();
});

it("a Manager that refuses the token is left for one that accepts it", async () => {
  const other = await manager();
  const { next, signals, calls } = await running([other.url]);
  const first = await next("/v1/beat");
  first.refuse();
  const second = await other.next("/v1/beat");
  expect(second.body).toEqual(first.body);
  second.answer({ cancel: [], lost: [], quiet: false });
  expect(signals[0]?.aborted).toBe(false);
  calls[0]?.resolve();
  const settle = await other.next("/v1/settle");
  expect(settle.body.tasks).toMatchObject([{ id: 7, status: "completed" }]);
  settle.answer({ settled: [7], lost: [] });
  other.answerAll();
});

it("an agent whose connections end with each answer beats at most every 100 ms", async () => {
  const { next, calls } = await running();
  const beats: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    const beat = await next("/v1/beat");
    beats.push(performance.now());
    beat.answerAndClose({ cancel: [], lost: [], quiet: false });
  }
  // Four pauses. On its way a request may take longer than the one after it.
  expect((beats[4] ?? 0) - (beats[0] ?? 0)).toBeGreaterThan(300);
  calls[0]?.resolve();
});

it("an agent that reaches no Manager names each of them, with the reason", async () => {
  const fn = task(uniqueName(), () => 1);
  const managers = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
  const agent = new Agent({ managers, token: "t", tasks: [fn] });
  const reported = once(agent, "error");
  const started = agent.start().catch(() => undefined);
  expect(agent.session).toMatch(/^[\da-f-]{36}$/);
  const [error] = await reported;
  for (const url of managers) expect((error as Error).message).toMatch(new RegExp(`${url}: .*ECONNREFUSED`));
  await agent.stop({ grace: 0 });
  await started;
  expect(agent.session).toBeUndefined();
});

it("an agent whose event loop was blocked for longer than a third of the default lease warns of it", async () => {
  const { next, calls } = await running();
  const warned = new Promise<{ message: string }>((resolve) => {
    const listen = (message: unknown) => resolve(message as { message: string });
    subscribe("dbq:warning", listen);
    onTestFinished(() => void unsubscribe("dbq:warning", listen));
  });
  // The next beat is due 800 ms after this answer: it has not begun when the loop is blocked.
  (await next("/v1/beat")).answer({ cancel: [], lost: [], quiet: false });
  await new Promise((resolve) => setTimeout(resolve, 100));
  const end = performance.now() + 7_000;
  while (performance.now() < end);
  expect((await warned).message).toMatch(/^this agent's event loop was blocked for [56] s: /);
  (await next("/v1/beat")).answer(anything);
  calls[0]?.resolve();
}, 20_000);

it("a task that an agent has claimed before its turn at a rate starts at its turn, and keeps its slot until then", async () => {
  const { agent, fn, next, calls, signals } = await running();
  const claim = await next("/v1/claim");
  // Of ten slots one is in use, and one is left to tasks that can start at once.
  expect(claim.body).toMatchObject({ slots: 9, later: 9 });
  const answered = performance.now();
  claim.answer({ tasks: [{ ...claimed(fn.taskName, 4), id: 8, startsIn: 500 }] });
  const started = new Promise((resolve) => agent.on("started", ({ id }) => resolve(id)));
  expect((await next("/v1/claim")).body).toMatchObject({ slots: 8, later: 8 });
  expect(signals).toHaveLength(1);
  expect(await started).toBe(8);
  expect(performance.now() - answered).toBeGreaterThanOrEqual(500);
  for (const call of calls) call.resolve();
});
