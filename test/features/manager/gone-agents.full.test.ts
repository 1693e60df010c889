/** What happens to the tasks of an agent whose connections close. Leases are long here: they free nothing. */

import { randomUUID } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { expect, it, onTestFinished, vi } from "vitest";
import { listAgents, revokeAgent } from "../../../src/features/manager/index.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { task } from "../../../src/index.ts";
import { deferred, uniqueName } from "../../support/queue.ts";
import { onFile, startedManager, tokenFor, urlOf } from "./setup.ts";

/** A Manager, a task, and an agent that keeps its connection until `die` is called. */
async function setUp(lease = "1m") {
  const queue = await onFile()();
  const func = uniqueName();
  const fn = task(func, () => 1);
  const url = urlOf(await startedManager(queue, { lease }));
  const token = await tokenFor(queue, [func]);
  const connections = new HttpAgent({ keepAlive: true });
  onTestFinished(() => connections.destroy());
  const ask = (path: string, body: object) =>
    new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}` };
      const options = { method: "POST", headers, agent: connections };
      const request = httpRequest(new URL(path, url), options, async (response) => {
        let text = "";
        for await (const chunk of response) text += String(chunk);
        resolve({ status: response.statusCode, text });
      });
      request.on("error", reject);
      request.end(JSON.stringify(body));
    });
  const session = randomUUID();
  const asked = { session, requestId: randomUUID(), slots: 1, funcs: [func], wait: 0 };
  const claim = async (more: object = {}) => (await ask("/v1/claim", { ...asked, ...more })).text;
  const beat = async () => (await ask("/v1/beat", { session, running: [] })).status;
  const { store } = internalsOf(queue);
  return { queue, fn, store, claim, beat, die: () => connections.destroy() };
}

it("the tasks of an agent that is gone are freed, although another transaction holds its row at first", async () => {
  const { queue, fn, store, claim, die } = await setUp();
  const id = await queue.enqueueTask(fn);
  expect(await claim()).toContain(`"id":${id}`);
  const { rescue } = store;
  const answers = ["busy", 0] as const;
  let tries = 0;
  store.rescue = async (...asked) => answers[tries++] ?? (await rescue(...asked));
  die();
  await vi.waitFor(
    async () => expect(await queue.getTask(id)).toMatchObject({ status: "pending", retryCount: 1 }),
    5_000,
  );
  expect(await store.workers()).toEqual([]);
});

it("an open connection on which nothing is asked does not keep its session alive", async () => {
  const { queue, fn, store, claim } = await setUp("1s");
  expect(JSON.parse(await claim())).toEqual({ tasks: [] });
  expect(await store.workers()).toHaveLength(1);
  await vi.waitFor(async () => expect(await store.workers()).toEqual([]), 15_000);
  const id = await queue.enqueueTask(fn);
  expect(await claim()).toContain(`"id":${id}`);
});

it("an agent that is gone before its first claim has claimed nothing", async () => {
  const { queue, fn, store, claim, die } = await setUp();
  const [begun, goOn, registered] = [deferred(), deferred(), deferred()];
  const { register } = store;
  store.register = async (worker) => {
    begun.resolve();
    await goOn.promise;
    await register(worker);
    registered.resolve();
  };
  const [closed, looked] = [deferred(), deferred()];
  const { workers } = store;
  const onClosed = () => {
    closed.resolve();
    store.workers = async () => {
      const found = await workers();
      setTimeout(() => looked.resolve(), 100);
      return found;
    };
  };
  subscribe("dbq:session-closed", onClosed);
  onTestFinished(() => void unsubscribe("dbq:session-closed", onClosed));
  const id = await queue.enqueueTask(fn);
  const claimed = claim().catch(() => undefined);
  await begun.promise;
  die();
  await closed.promise;
  // The look for the agent's row, which finds none: it is over before the row is there.
  await looked.promise;
  goOn.resolve();
  await Promise.all([claimed, registered.promise]);
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(await queue.getTask(id)).toMatchObject({ status: "pending", generationId: 1 });
});

it("a claim that its agent did not live to see claims nothing once the agent is gone", async () => {
  const { queue, fn, store, claim, die } = await setUp();
  expect(JSON.parse(await claim())).toEqual({ tasks: [] });
  const [begun, goOn] = [deferred(), deferred()];
  const { settleAndClaim } = store;
  store.settleAndClaim = async (asked) => {
    begun.resolve();
    await goOn.promise;
    return await settleAndClaim(asked);
  };
  const id = await queue.enqueueTask(fn);
  const claimed = claim().catch(() => undefined);
  await begun.promise;
  die();
  await vi.waitFor(async () => expect(await store.workers()).toEqual([]), 5_000);
  goOn.resolve();
  await claimed;
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(await store.workers()).toEqual([]);
  expect(await queue.getTask(id)).toMatchObject({ status: "pending", generationId: 1 });
});

it("the tasks of an agent are freed when its token is refused, although its connections stay open and a claim waits", async () => {
  const { queue, fn, store, claim, beat } = await setUp();
  const id = await queue.enqueueTask(fn);
  expect(await claim()).toContain(`"id":${id}`);
  const waiting = claim({ requestId: randomUUID(), wait: "1m" });
  // A Manager that has read all of a request before it refuses it keeps the connection open.
  const { list } = store.agents;
  store.agents.list = async () => {
    const agents = await list();
    await new Promise((resolve) => setTimeout(resolve, 50));
    return agents;
  };
  const [{ name } = { name: "" }] = await listAgents(queue);
  await revokeAgent(queue, name);
  await vi.waitFor(async () => expect(await beat()).toBe(401), { timeout: 5_000, interval: 600 });
  await vi.waitFor(
    async () => expect(await queue.getTask(id)).toMatchObject({ status: "pending", retryCount: 1 }),
    1_000,
  );
  expect((await queue.getTask(id))?.error?.message).toContain("had its token revoked, or its token expired");
  expect(JSON.parse(await waiting)).toEqual({ tasks: [] });
  expect(await store.workers()).toEqual([]);
});
