/**
 * Concurrent calls on several connections. Each case ends in one invariant: one winner for each generation, and no
 * error.
 */
import assert from "node:assert/strict";
import { DuplicateTaskError } from "../../src/errors.ts";
import type { FullStore } from "../../src/features/store.ts";
import type { Outcome } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { claim, claimBy, insert, minute, newTask, newWorker, outcomes, settle } from "./arrange.ts";
import type { Case, Context, Group } from "./case.ts";

const rivals = 4;
const many = 60;

/** One connection for each rival; the first is the case's own. */
export async function connections({ bare, another }: Context): Promise<FullStore[]> {
  const opened = [bare];
  while (opened.length < rivals) opened.push(await another());
  return opened;
}

/** Inserts tasks and claims them for `w1`. */
async function held(store: FullStore, changes: Parameters<typeof newTask>[0] = {}): Promise<TaskRecord[]> {
  await insert(store, ...Array.from({ length: many }, () => changes));
  return await claim(store, claimBy("w1", { limit: many }));
}

async function table(store: FullStore): Promise<Map<number, TaskRecord>> {
  return new Map((await store.list({}, 1_000, undefined)).map((record) => [record.id, record]));
}

/** Half of the calls go before a rival's call and half after it, so that no driver is always first. */
const halvesOf = <T>(items: readonly T[]): [T[], T[]] => [items.slice(0, many / 2), items.slice(many / 2)];

const countTrue = (values: readonly boolean[]) => values.filter(Boolean).length;

/** Claims and settles a few tasks at a time until none is left; returns all that this store claimed. */
async function drain(store: FullStore, workerId: string): Promise<TaskRecord[]> {
  await store.register(newWorker(workerId));
  const all: TaskRecord[] = [];
  let done: Outcome[] = [];
  for (;;) {
    const { claimed, settled } = await store.settleAndClaim({
      outcomes: done,
      claim: claimBy(workerId, { limit: 7 }),
    });
    assert.ok(settled.every(Boolean), "only this worker settles the tasks that it holds");
    all.push(...claimed);
    if (claimed.length === 0) return all;
    done = claimed.map(outcomes.completed);
  }
}

const cases: Case[] = [
  {
    name: "four connections claim every task, each exactly once",
    run: async (ctx) => {
      const stores = await connections(ctx);
      await insert(ctx.bare, ...Array.from({ length: 4 * many }, (_, i) => ({ priority: i % 3 })));
      const claimed = (await Promise.all(stores.map((store, i) => drain(store, `w${i}`)))).flat();
      assert.equal(new Set(claimed.map(({ id }) => id)).size, claimed.length);
      const rows = await table(ctx.bare);
      assert.equal(claimed.length, rows.size);
      for (const { status, generationId } of rows.values())
        assert.deepEqual([status, generationId], ["completed", 3]);
    },
  },
  {
    name: "when a settle and a cancel race, one is accepted and the row shows that one",
    run: async (ctx) => {
      const [settling, cancelling] = (await connections(ctx)) as [FullStore, FullStore];
      const tasks = await held(ctx.bare);
      const raced = await Promise.all(
        tasks.map(async (task, i) => {
          const calls = [
            () => settle(settling, outcomes.completed(task)).then(([accepted]) => ({ settled: accepted })),
            () => cancelling.cancel(task.id, "{}").then((answer) => ({ cancelled: answer?.changed })),
          ];
          // Settle goes first for half of the tasks, cancel for the other half.
          const answers = await Promise.all((i % 2 === 0 ? calls : calls.reverse()).map((call) => call()));
          return Object.assign({ settled: undefined, cancelled: undefined }, ...answers);
        }),
      );
      const rows = await table(ctx.bare);
      for (const [i, { id, generationId }] of tasks.entries()) {
        const { settled, cancelled } = raced[i] as { settled: boolean; cancelled: boolean };
        assert.equal(cancelled, !settled);
        assert.equal(rows.get(id)?.status, settled ? "completed" : "cancelled");
        assert.equal(rows.get(id)?.generationId, generationId + 1);
      }
    },
  },
  {
    name: "when several connections settle one generation, one settle is accepted",
    run: async (ctx) => {
      const stores = await connections(ctx);
      const tasks = await held(ctx.bare);
      // In opposite orders, which makes transactions wait for each other.
      const settled = await Promise.all(
        stores.map(async (store, i) => {
          const order = i % 2 === 0 ? tasks : [...tasks].reverse();
          const answers = await settle(store, ...order.map((task) => outcomes.retry(task)));
          return i % 2 === 0 ? answers : answers.reverse();
        }),
      );
      const rows = await table(ctx.bare);
      for (const [i, { id, generationId }] of tasks.entries()) {
        assert.equal(countTrue(settled.map((answers) => answers[i] === true)), 1);
        assert.deepEqual([rows.get(id)?.retryCount, rows.get(id)?.generationId], [1, generationId + 1]);
        assert.equal((await ctx.bare.attempts(id)).length, 1);
      }
    },
  },
  {
    name: "when several connections promote, each due task is promoted once",
    run: async (ctx) => {
      const stores = await connections(ctx);
      await insert(ctx.bare, ...Array.from({ length: many }, () => ({ delay: minute })));
      await ctx.sql(`update dbq_tasks set wait_until = ${ctx.database.earlier("wait_until", 2 * minute)}`);
      const promoted = await Promise.all(stores.map((store) => store.promote(many)));
      assert.equal(
        promoted.reduce((sum, answer) => sum + answer.promoted, 0),
        many,
      );
      for (const { status, generationId } of (await table(ctx.bare)).values())
        assert.deepEqual([status, generationId], ["pending", 2]);
    },
  },
  {
    name: "when several connections rescue a worker that settles late, each task has one outcome",
    run: async (ctx) => {
      const [late, ...rescuers] = (await connections(ctx)) as [FullStore, ...FullStore[]];
      const tasks = await held(ctx.bare);
      const [dead] = await ctx.bare.workers();
      assert.ok(dead);
      const [early, overdue] = halvesOf(tasks);
      const before = settle(late, ...early.map(outcomes.completed));
      const freed = rescuers.map((store) => store.rescue("w1", dead.beat));
      const after = settle(late, ...overdue.map(outcomes.completed));
      const settled = [...(await before), ...(await after)];
      const counts = (await Promise.all(freed)).map((count) => (count === "busy" ? 0 : count));
      const total = counts.reduce((sum, count) => sum + count, 0);
      assert.equal(countTrue(settled) + total, many);
      const rows = await table(ctx.bare);
      for (const [i, { id, generationId }] of tasks.entries()) {
        assert.equal(rows.get(id)?.status, settled[i] ? "completed" : "pending");
        assert.equal(rows.get(id)?.generationId, generationId + 1);
      }
    },
  },
  {
    name: "when several connections insert one unique key, all get the same id and one created the task",
    run: async (ctx) => {
      const stores = await connections(ctx);
      const asked = stores.flatMap((store) =>
        Array.from({ length: 10 }, () => store.insert([newTask(), newTask({ uniqueKey: "k" })], "report")),
      );
      const answers = (await Promise.all(asked)).map((inserted) => inserted[1]);
      assert.equal(new Set(answers.map((answer) => answer?.id)).size, 1);
      assert.equal(countTrue(answers.map((answer) => answer?.duplicate === false)), 1);
      assert.equal((await table(ctx.bare)).size, asked.length + 1);
    },
  },
  {
    name: "when connections insert unique keys in opposite orders, each key has one holder",
    run: async (ctx) => {
      const stores = await connections(ctx);
      const keys = Array.from({ length: 10 }, (_, i) => `k${i}`);
      const asked = stores.flatMap((store, i) => {
        const order = i % 2 === 0 ? keys : [...keys].reverse();
        return Array.from({ length: 3 }, () =>
          store
            .insert(
              order.map((uniqueKey) => newTask({ uniqueKey })),
              "report",
            )
            .then((inserted) => (i % 2 === 0 ? inserted : inserted.reverse())),
        );
      });
      const answers = await Promise.all(asked);
      for (const i of keys.keys()) {
        assert.equal(new Set(answers.map((answer) => answer[i]?.id)).size, 1);
        assert.equal(countTrue(answers.map((answer) => answer[i]?.duplicate === false)), 1);
      }
      assert.equal((await table(ctx.bare)).size, keys.length);
    },
  },
  {
    name: "when a retry and an insert want one key, one of them holds it",
    run: async (ctx) => {
      const [retrying, inserting] = (await connections(ctx)) as [FullStore, FullStore];
      const tasks = await held(ctx.bare);
      await settle(ctx.bare, ...tasks.map(outcomes.failed));
      await ctx.sql("update dbq_tasks set unique_key = 'k'");
      const refused = (error: unknown) => {
        assert.ok(error instanceof DuplicateTaskError, String(error));
        return undefined;
      };
      const retry = ({ id }: TaskRecord) => retrying.retry(id).catch(refused);
      const [early, overdue] = halvesOf(tasks);
      const retried = early.map(retry);
      const insertion = inserting.insert([newTask({ uniqueKey: "k" })], "report");
      retried.push(...overdue.map(retry));
      const operated = await Promise.all(retried);
      const [inserted] = await insertion;
      const changed = operated.filter((answer) => answer?.changed).map((answer) => answer?.record.id);
      const holders = inserted?.duplicate ? changed : [inserted?.id, ...changed];
      assert.equal(holders.length, 1);
      const unfinished = [...(await table(ctx.bare)).values()].filter(({ status }) => status === "pending");
      assert.deepEqual(
        unfinished.map(({ id }) => id),
        holders,
      );
      assert.ok(!inserted?.duplicate || inserted.id === holders[0]);
    },
  },
  {
    name: "a purge does not delete a task that another connection has claimed",
    run: async (ctx) => {
      const [purging, claiming] = (await connections(ctx)) as [FullStore, FullStore];
      await insert(ctx.bare, ...Array.from({ length: many }, () => ({})));
      const first = await claim(claiming, claimBy("w1", { limit: 5 }));
      const purge = async () => {
        let purged = 0;
        for (let after: number | undefined = 0; after !== undefined; ) {
          const looked = await purging.purge({ includeRunning: false }, 7, after);
          purged += looked.purged;
          after = looked.last;
        }
        return purged;
      };
      const claimAll = async () => {
        const claimed = [...first];
        for (let step = -1; step !== 0; ) {
          const turn = await claiming.settleAndClaim({ outcomes: [], claim: claimBy("w1", { limit: 5 }) });
          claimed.push(...turn.claimed);
          step = turn.claimed.length;
        }
        return claimed;
      };
      const [purged, claimed] = await Promise.all([purge(), claimAll()]);
      assert.equal(purged + claimed.length, many);
      assert.ok((await settle(claiming, ...claimed.map(outcomes.completed))).every(Boolean));
    },
  },
];

export const racesGroup: Group = {
  name: "races between connections",
  cases: cases.map((one) => ({ ...one, needs: ["several connections"] })),
};
