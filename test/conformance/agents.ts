import assert from "node:assert/strict";
import type { AgentStore } from "../../src/features/manager/contract.ts";
import { errorText, insertOne, minute, newWorker, outcomes, running, settle } from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import { beatOf } from "./heartbeat.ts";

type NewAgent = Parameters<AgentStore["add"]>[0];

const newAgent = (name = "gpu-7", changes: Partial<NewAgent> = {}): NewAgent => ({
  ...{ name, tokenHash: "ab".repeat(32), funcs: ["resize"], queues: ["default"], expiresIn: null },
  ...changes,
});

const agentNamed = async ({ store }: Context, name: string) =>
  (await store.agents.list()).find((agent) => agent.name === name);

const hostOf = async ({ store }: Context, workerId: string) =>
  (await store.workers()).find(({ id }) => id === workerId)?.host;

export const agentsGroup: Group = {
  name: "agents",
  cases: [
    {
      name: "list returns all agents by name, each as it was added",
      run: async ({ store }) => {
        const odd = newAgent("b", { funcs: ["é", 'a"b'], queues: ["x", "y z"], tokenHash: "cd".repeat(32) });
        assert.equal(await store.agents.add(odd), true);
        assert.equal(await store.agents.add(newAgent("a", { expiresIn: minute })), true);
        const [a, b, ...others] = await store.agents.list();
        assert.equal(others.length, 0);
        const { createdAt, ...rest } = b ?? assert.fail();
        assert.deepEqual(rest, { ...odd, lastSeenAt: null, expiresAt: null, revokedAt: null });
        assert.ok(Math.abs(Date.now() - createdAt) < minute);
        assert.deepEqual([a?.name, a?.expiresAt], ["a", (a?.createdAt ?? 0) + minute]);
      },
    },
    {
      name: "an agent's name is taken until it is revoked",
      run: async (ctx) => {
        const { agents } = ctx.store;
        assert.equal(await agents.add(newAgent()), true);
        assert.equal(await agents.add(newAgent("gpu-7", { tokenHash: "cd".repeat(32) })), false);
        assert.equal((await agentNamed(ctx, "gpu-7"))?.tokenHash, "ab".repeat(32));
        assert.equal(await agents.revoke("gpu-7"), true);
        assert.equal(await agents.add(newAgent("gpu-7", { tokenHash: "ef".repeat(32) })), true);
        const again = await agentNamed(ctx, "gpu-7");
        assert.deepEqual([again?.tokenHash, again?.revokedAt], ["ef".repeat(32), null]);
      },
    },
    {
      name: "of several connections that add an agent of one name, one succeeds",
      needs: ["several connections"],
      run: async ({ bare, another }) => {
        const stores = [bare, await another(), await another(), await another()];
        const hashes = stores.map((_, n) => `${n}`.repeat(64));
        const added = await Promise.all(
          stores.map(({ agents }, n) => agents.add(newAgent("one", { tokenHash: hashes[n] as string }))),
        );
        assert.equal(added.filter(Boolean).length, 1);
        const [agent] = await bare.agents.list();
        assert.equal(agent?.tokenHash, hashes[added.indexOf(true)]);
      },
    },
    {
      name: "adding the same agent again, because the answer was lost, succeeds",
      run: async ({ store }) => {
        assert.equal(await store.agents.add(newAgent()), true);
        assert.equal(await store.agents.add(newAgent()), true);
        assert.equal((await store.agents.list()).length, 1);
      },
    },
    {
      name: "the time until an agent expires is measured by the database's clock",
      run: async (ctx) => {
        const { store, sql, database } = ctx;
        await store.agents.add(newAgent("soon", { expiresIn: minute }));
        await store.agents.add(newAgent("never"));
        const left = async () => (await agentNamed(ctx, "soon"))?.expiresIn ?? Number.NaN;
        const first = await left();
        assert.ok(first > minute / 2 && first <= minute, `${first} ms are left of a minute`);
        for (const column of ["expires_at", "created_at", "created_at"])
          await sql(`update dbq_agents set ${column} = ${database.earlier(column, 2 * minute)}`);
        const later = await left();
        assert.ok(later > -2 * minute && later <= -minute, `it expired a minute ago, by ${later} ms`);
        assert.equal((await agentNamed(ctx, "never"))?.expiresIn, null);
      },
    },
    {
      name: "revoke keeps the time of the first revocation, and is false for no agent",
      run: async (ctx) => {
        const { store, sql, database } = ctx;
        await store.agents.add(newAgent());
        await store.agents.add(newAgent("other"));
        assert.equal(await store.agents.revoke("gpu-7"), true);
        await sql(`update dbq_agents set revoked_at = ${database.earlier("revoked_at", minute)}`);
        const revokedAt = (await agentNamed(ctx, "gpu-7"))?.revokedAt;
        assert.equal(await store.agents.revoke("gpu-7"), true);
        assert.equal((await agentNamed(ctx, "gpu-7"))?.revokedAt, revokedAt);
        assert.equal((await agentNamed(ctx, "other"))?.revokedAt, null);
        assert.equal(await store.agents.revoke("GPU-7"), false);
      },
    },
    {
      name: "seen notes when that agent asked, and no other",
      run: async (ctx) => {
        await ctx.store.agents.add(newAgent("a"));
        await ctx.store.agents.add(newAgent("b"));
        await ctx.store.agents.seen("a");
        await ctx.store.agents.seen("nobody");
        const [a, b] = await ctx.store.agents.list();
        assert.ok(Math.abs(Date.now() - (a?.lastSeenAt ?? 0)) < minute);
        assert.equal(b?.lastSeenAt, null);
      },
    },
    {
      name: "beat is a heartbeat of each of these workers, and writes where its agent was heard",
      run: async (ctx) => {
        const { store } = ctx;
        for (const id of ["w1", "w2", "w3"]) await store.register(newWorker(id));
        const before = await Promise.all(["w1", "w2", "w3"].map((id) => beatOf(ctx, id)));
        await store.agents.beat([
          { workerId: "w1", host: "agent a at m1" },
          { workerId: "w3", host: "agent c at m2" },
          { workerId: "gone", host: "agent a at m1" },
        ]);
        await store.agents.beat([]);
        const now = await Promise.all(["w1", "w2", "w3"].map((id) => beatOf(ctx, id)));
        assert.deepEqual(
          now.map((beat, n) => beat - (before[n] ?? 0)),
          [1, 0, 1],
        );
        assert.deepEqual(
          [await hostOf(ctx, "w1"), await hostOf(ctx, "w2"), await hostOf(ctx, "w3")],
          ["agent a at m1", "elsewhere", "agent c at m2"],
        );
        assert.equal((await store.workers()).length, 3);
      },
    },
    {
      name: "tasks, attempts and cancelErrors return what the rows have, without payloads, and leave out other ids",
      run: async ({ store }) => {
        const [task, failed] = [await running(store), await running(store)];
        await settle(store, outcomes.failed(failed));
        await store.cancel(await insertOne(store), "{}");
        const cancelled = await insertOne(store);
        await store.cancel(cancelled, errorText);
        const ids = [task.id, failed.id, cancelled, -1, Number.MAX_SAFE_INTEGER];
        const { args, kwargs, meta, result, error, ...whole } = task;
        const [known, ...others] = (await store.agents.tasks(ids)).sort((a, b) => a.id - b.id);
        assert.deepEqual({ ...whole, ...known }, whole);
        assert.deepEqual(
          others.map(({ id, status }) => [id, status]),
          [
            [failed.id, "failed"],
            [cancelled, "cancelled"],
          ],
        );
        const { id, generationId, workerId } = failed;
        const versions = [{ id, generationId }, { id, generationId: 1 }, task];
        const recorded = { taskId: id, generationId, workerId, outcome: "failed" };
        assert.deepEqual(await store.agents.attempts(versions), [recorded]);
        assert.deepEqual(await store.agents.cancelErrors(ids), [{ id: cancelled, error: errorText }]);
        for (const none of [store.agents.tasks([]), store.agents.attempts([]), store.agents.cancelErrors([])])
          assert.deepEqual(await none, []);
      },
    },
  ],
};
