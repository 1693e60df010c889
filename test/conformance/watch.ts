import assert from "node:assert/strict";
import { claim, claimBy, insert, insertOne, outcomes } from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import { eventually } from "./signals.ts";

/** Counts the hints that it is given. */
class Listener {
  calls = 0;
  readonly stop: () => void;

  constructor({ bare }: Context) {
    this.stop = bare.watch(() => {
      this.calls += 1;
    });
  }
}

/** Has another connection write until the listener has been called. */
async function hinted(ctx: Context, calls: () => number): Promise<void> {
  const other = await ctx.another();
  const before = calls();
  await eventually("a hint", async () => {
    if (calls() === before) await insertOne(other);
    return calls() > before;
  });
}

export const watchGroup: Group = {
  name: "watch and diagnose",
  cases: [
    {
      name: "a commit of another connection is hinted at, to each listener",
      needs: ["several connections", "hints between connections"],
      run: async (ctx) => {
        const listeners = [new Listener(ctx), new Listener(ctx)];
        await hinted(ctx, () => Math.min(...listeners.map(({ calls }) => calls)));
        for (const { stop } of listeners) stop();
      },
    },
    {
      name: "a settle of another connection is hinted at",
      needs: ["several connections", "hints between connections"],
      run: async (ctx) => {
        const other = await ctx.another();
        await insert(ctx.bare, ...Array.from({ length: 50 }, () => ({})));
        const claimed = await claim(ctx.bare, claimBy("w1", { limit: 50 }));
        const listener = new Listener(ctx);
        // Once it hears of inserts, it hears.
        await hinted(ctx, () => listener.calls);
        const before = listener.calls;
        await eventually("a hint", async () => {
          const next = claimed.pop();
          // With a claim, as a worker settles.
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
      name: "a listener that has stopped is called no more; another one goes on",
      needs: ["several connections", "hints between connections"],
      run: async (ctx) => {
        const [stopped, going] = [new Listener(ctx), new Listener(ctx)];
        await hinted(ctx, () => going.calls);
        stopped.stop();
        stopped.stop();
        const before = stopped.calls;
        await hinted(ctx, () => going.calls);
        assert.equal(stopped.calls, before);
        going.stop();
        const later = new Listener(ctx);
        await hinted(ctx, () => later.calls);
        later.stop();
      },
    },
    {
      name: "watching what nobody else can write does no harm",
      run: async ({ bare }) => {
        const stop = bare.watch(() => undefined);
        assert.ok(await insertOne(bare));
        stop();
      },
    },
    {
      name: "a diagnosis is a list of facts, each named once",
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
