import assert from "node:assert/strict";
import { claim, claimBy, insert, insertOne, outcomes } from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import { eventually } from "./signals.ts";

/** Counts its change notifications. */
class Listener {
  calls = 0;
  readonly stop: () => void;

  constructor({ bare }: Context) {
    this.stop = bare.watch(() => {
      this.calls += 1;
    });
  }
}

/** Writes on another connection until the listener has been called. */
async function notified(ctx: Context, calls: () => number): Promise<void> {
  const other = await ctx.another();
  const before = calls();
  await eventually("a change notification", async () => {
    if (calls() === before) await insertOne(other);
    return calls() > before;
  });
}

export const watchGroup: Group = {
  name: "watch and diagnose",
  cases: [
    {
      name: "a commit on another connection notifies each listener",
      needs: ["several connections", "change notifications"],
      run: async (ctx) => {
        const listeners = [new Listener(ctx), new Listener(ctx)];
        await notified(ctx, () => Math.min(...listeners.map(({ calls }) => calls)));
        for (const { stop } of listeners) stop();
      },
    },
    {
      name: "a settle on another connection notifies a listener",
      needs: ["several connections", "change notifications"],
      run: async (ctx) => {
        const other = await ctx.another();
        await insert(ctx.bare, ...Array.from({ length: 50 }, () => ({})));
        const claimed = await claim(ctx.bare, claimBy("w1", { limit: 50 }));
        const listener = new Listener(ctx);
        // One notification of an insert shows that the listener is connected.
        await notified(ctx, () => listener.calls);
        const before = listener.calls;
        await eventually("a change notification", async () => {
          const next = claimed.pop();
          // Together with a claim, as a worker settles.
          if (next)
            await other.settleAndClaim({
              outcomes: [outcomes.completed(next)],
              claim: claimBy("w1", { funcs: ["none"] }),
            });
          return listener.calls > before;
        });
        listener.stop();
      },
    },
    {
      name: "a stopped listener is not called again, and the others still are",
      needs: ["several connections", "change notifications"],
      run: async (ctx) => {
        const [stopped, going] = [new Listener(ctx), new Listener(ctx)];
        await notified(ctx, () => going.calls);
        stopped.stop();
        stopped.stop();
        const before = stopped.calls;
        await notified(ctx, () => going.calls);
        assert.equal(stopped.calls, before);
        going.stop();
        const later = new Listener(ctx);
        await notified(ctx, () => later.calls);
        later.stop();
      },
    },
    {
      name: "watch on a database that no other connection can write returns a stop function, and inserts still work",
      run: async ({ bare }) => {
        const stop = bare.watch(() => undefined);
        assert.ok(await insertOne(bare));
        stop();
      },
    },
    {
      name: "diagnose returns facts with distinct names",
      run: async ({ store }) => {
        const facts = await store.diagnose();
        assert.ok(facts.length > 0);
        assert.equal(new Set(facts.map(({ name }) => name)).size, facts.length);
        for (const { name, value, warning } of facts) {
          assert.ok(name !== "" && ["string", "number", "boolean"].includes(typeof value), name);
          assert.ok(warning === undefined || warning.length > 0);
        }
      },
    },
  ],
};
