/** What a Manager reports on diagnostics channels. */
import { randomUUID } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { expect, it, onTestFinished, vi } from "vitest";
import { addAgent, revokeAgent } from "../../../src/features/manager/index.ts";
import { task } from "../../../src/index.ts";
import { startedWorker, uniqueName } from "../../support/queue.ts";
import { ByHand, onFile, send, startedAgent, startedManager, urlOf, version } from "./setup.ts";

/** What is published on a channel until the test ends. */
function published(name: string): object[] {
  const messages: object[] = [];
  const listener = (message: unknown) => void messages.push(message as object);
  subscribe(name, listener);
  onTestFinished(() => void unsubscribe(name, listener));
  return messages;
}

async function setUp(func = uniqueName()) {
  const queue = await onFile()();
  const manager = await startedManager(queue, { lease: "1s" });
  const { token } = await addAgent(queue, "gpu-7", { funcs: func });
  return { queue, manager, token, func, hand: new ByHand(urlOf(manager), token) };
}

it("a session is opened by its first request, and closed when its connections have closed", async () => {
  const [opened, closed] = [published("dbq:session-opened"), published("dbq:session-closed")];
  const fn = task(uniqueName(), () => 1);
  const { manager, token } = await setUp(fn.taskName);
  const agent = await startedAgent([manager], { token, tasks: [fn] });
  const about = { agent: "gpu-7", session: agent.session, manager: expect.stringMatching(/:\d+:/) };
  expect(opened).toEqual([about]);
  expect(closed).toEqual([]);
  await agent.stop();
  await vi.waitFor(() => expect(closed).toEqual([{ ...about, reason: "disconnected" }]), 5_000);
  expect(opened).toHaveLength(1);
});

it("a session without connections is closed when it is silent, or with its Manager", async () => {
  const closed = published("dbq:session-closed");
  const { manager, hand, token } = await setUp();
  await hand.beat();
  await vi.waitFor(() => expect(closed).toMatchObject([{ session: hand.session, reason: "silent" }]), 6_000);
  const last = new ByHand(hand.url, token);
  await last.beat();
  await manager.stop();
  expect(closed.slice(1)).toMatchObject([{ session: last.session, reason: "stopped" }]);
});

it("a session is closed when it is silent, although others use its connection", async () => {
  const closed = published("dbq:session-closed");
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on("warning", onWarning);
  onTestFinished(() => void process.off("warning", onWarning));
  const { hand, token } = await setUp();
  const proxy = new HttpAgent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => proxy.destroy());
  const beat = (session: string) =>
    new Promise<void>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}` };
      const options = { method: "POST", headers, agent: proxy };
      const request = httpRequest(new URL("/v1/beat", hand.url), options, (response) =>
        response.resume().once("end", resolve),
      );
      request.on("error", reject);
      request.end(JSON.stringify({ session, running: [] }));
    });
  // As many sessions as make Node warn of a leak of listeners.
  const silent = Array.from({ length: 12 }, () => randomUUID());
  for (const session of silent) await beat(session);
  const alive = randomUUID();
  await vi.waitFor(
    async () => {
      await beat(alive);
      expect(closed).toHaveLength(silent.length);
    },
    { timeout: 10_000, interval: 200 },
  );
  expect(closed).toEqual(
    expect.arrayContaining(silent.map((session) => expect.objectContaining({ session, reason: "silent" }))),
  );
  expect(warnings).toEqual([]);
});

it("a refused token is reported with its reason, and without the token", async () => {
  const [refused, revoked] = [published("dbq:token-refused"), published("dbq:agent-revoked")];
  const { queue, hand, func } = await setUp();
  const address = "127.0.0.1";
  expect((await send(hand.url, "/v1/beat")).status).toBe(401);
  expect((await new ByHand(hand.url, "dbq_wrong").beat()).status).toBe(401);
  expect((await hand.beat()).status).toBe(200);
  expect(refused.splice(0)).toEqual([
    { agent: undefined, reason: "missing", address },
    { agent: undefined, reason: "unknown", address },
  ]);
  await revokeAgent(queue, "gpu-7");
  await vi.waitFor(async () => expect((await hand.beat()).status).toBe(401), 5_000);
  expect(refused.splice(0)).toEqual([{ agent: "gpu-7", reason: "revoked", address }]);
  expect(revoked).toEqual([{ agent: "gpu-7" }]);
  const brief = new ByHand(hand.url, (await addAgent(queue, "brief", { funcs: func, expires: "1s" })).token);
  await vi.waitFor(async () => expect((await brief.beat()).status).toBe(401), 5_000);
  expect(refused).toEqual([{ agent: "brief", reason: "expired", address }]);
});

it("tasks that an agent has lost are reported when it is told so", async () => {
  const lost = published("dbq:task-lost");
  const { queue, hand, func } = await setUp();
  const id = await queue.enqueueTask(task(func, () => 1));
  const [claimed] = (await hand.claim([func])).body.tasks;
  await hand.beat(version(claimed));
  expect(lost).toEqual([]);
  const stale = { id, generation: claimed.generation - 1 };
  const about = { agent: "gpu-7", session: hand.session, tasks: [stale] };
  await hand.beat(stale);
  await hand.settle({ ...stale, status: "completed" });
  expect(lost).toEqual([about, about]);
});

it("a Manager reports the dead whose tasks it freed, and each of these tasks; a worker runs the hook of an agent's function", async () => {
  const rescued = published("dbq:rescued");
  const { queue, hand, func, manager } = await setUp();
  const [hooked, failed] = [vi.fn(), vi.fn()];
  manager.on("failed", ({ id, error }) => failed(id, error?.name));
  const fn = task(func, () => 1, { maxRetries: 0, onFailure: (t, error) => hooked(t.id, String(error)) });
  const id = await queue.enqueueTask(fn);
  await hand.claim([func]);
  // Nobody beats: its lease ends.
  const workerId = expect.stringContaining(`/gpu-7/${hand.session}`);
  await vi.waitFor(() => expect(rescued).toContainEqual({ workerId, tasks: 1 }), 10_000);
  expect(failed.mock.calls).toEqual([[id, "WorkerCrashed"]]);
  await startedWorker(queue);
  await vi.waitFor(
    () => expect(hooked.mock.calls).toEqual([[id, expect.stringContaining("WorkerCrashed")]]),
    5_000,
  );
}, 20_000);
