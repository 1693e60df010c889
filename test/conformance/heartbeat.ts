import assert from "node:assert/strict";
import { newWorker } from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import { eventually } from "./signals.ts";

export async function beatOf({ store }: Context, workerId = "w1"): Promise<number> {
  const found = (await store.workers()).find(({ id }) => id === workerId);
  assert.ok(found, `there is a worker ${workerId}`);
  return found.beat;
}

/** Deletes a worker's row, as a rescuer does that is killed before it has freed the tasks. */
export async function forget(ctx: Context, workerId: string): Promise<void> {
  await ctx.sql(`delete from dbq_workers where id = '${workerId}'`);
}

export const heartbeatGroup: Group = {
  name: "heartbeat",
  cases: [
    {
      name: "heartbeat adds one to the worker's counter and sets its time, for that worker alone",
      run: async (ctx) => {
        await ctx.store.register(newWorker("w1"));
        await ctx.store.register(newWorker("w2"));
        const [mine, others] = [await beatOf(ctx), await beatOf(ctx, "w2")];
        await ctx.sql(
          `update dbq_workers set heartbeat_at = ${ctx.database.earlier("heartbeat_at", 60_000)}`,
        );
        assert.equal(await ctx.store.heartbeat("w1"), true);
        assert.deepEqual([await beatOf(ctx), await beatOf(ctx, "w2")], [mine + 1, others]);
        const [young, old] = (await ctx.store.workers()).map(({ heartbeatAge }) => heartbeatAge < 30_000);
        assert.deepEqual([young, old], [true, false]);
      },
    },
    {
      name: "heartbeat returns false for a worker whose row is gone, and does not create one",
      run: async (ctx) => {
        assert.equal(await ctx.store.heartbeat("w1"), false);
        assert.deepEqual(await ctx.store.workers(), []);
      },
    },
    {
      name: "keepAlive sends heartbeats until it is stopped",
      needs: ["heartbeats"],
      run: async (ctx) => {
        await ctx.store.register(newWorker());
        const first = await beatOf(ctx);
        const stop = await ctx.store.keepAlive("w1", 20, () => undefined);
        await eventually("two heartbeats", async () => (await beatOf(ctx)) >= first + 2);
        await stop();
        // The heartbeats of a second worker show that enough time has passed for one more.
        await ctx.store.register(newWorker("w2"));
        const others = await beatOf(ctx, "w2");
        const stopOther = await ctx.store.keepAlive("w2", 20, () => undefined);
        const beatsOfOther = (count: number) =>
          eventually(
            `${count} heartbeats of the other worker`,
            async () => (await beatOf(ctx, "w2")) >= others + count,
          );
        // A heartbeat that was on its way when the first worker stopped has arrived by then.
        await beatsOfOther(1);
        const last = await beatOf(ctx);
        await beatsOfOther(4);
        await stopOther();
        assert.equal(await beatOf(ctx), last);
      },
    },
    {
      name: "keepAlive sends heartbeats while the event loop is blocked",
      needs: ["heartbeats", "heartbeats on a thread"],
      run: async (ctx) => {
        await ctx.store.register(newWorker());
        const first = await beatOf(ctx);
        const stop = await ctx.store.keepAlive("w1", 20, () => undefined);
        await eventually("the first heartbeat", async () => (await beatOf(ctx)) > first);
        // Nothing else in this process can run between the busy loop and the read after it.
        const beatsWhileBlocked = async (ms: number) => {
          const before = await beatOf(ctx);
          const end = performance.now() + ms;
          while (performance.now() < end);
          return (await beatOf(ctx)) > before;
        };
        // A busy machine may give the thread no time during the first block.
        const beaten = (await beatsWhileBlocked(200)) || (await beatsWhileBlocked(2_000));
        await stop();
        assert.ok(beaten);
      },
    },
    {
      name: "keepAlive reports that the worker's row is gone",
      needs: ["heartbeats"],
      run: async (ctx) => {
        await ctx.store.register(newWorker());
        let stop = async () => {};
        await new Promise<void>((resolve, reject) => {
          const lost = setTimeout(() => reject(new Error("keepAlive did not report it")), 20_000);
          ctx.store
            .keepAlive("w1", 20, () => {
              clearTimeout(lost);
              resolve();
            })
            .then(async (stopIt) => {
              stop = stopIt;
              await forget(ctx, "w1");
            })
            .catch(reject);
        });
        await stop();
      },
    },
  ],
};
