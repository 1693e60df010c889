import assert from "node:assert/strict";
import { failureKind, otherFailures } from "../../src/base/values/failure-kind.ts";
import { type CountedFailures, mostKinds } from "../../src/features/failures/contract.ts";
import type { FullStore } from "../../src/features/store.ts";
import { crashName } from "../../src/store.ts";
import {
  claimBy,
  errorText,
  failedAttempt,
  insertOne,
  minute,
  newWorker,
  outcomes,
  running,
  settle,
  taskIn,
} from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import { connections } from "./races.ts";

const hour = 60 * minute;
/** A whole hour, so many hours ago. */
const hoursAgo = (hours: number) => (Math.floor(Date.now() / hour) - hours) * hour;

const noLuck = failureKind("resize", "Error", "no luck");

/** The kind that is stored on a task, and those on its attempts. */
async function stored({ sql, store }: Pick<Context, "sql" | "store">, id: number) {
  const [row] = await sql(`select failure from dbq_tasks where id = ${id}`);
  return [row?.failure ?? null, (await store.attempts(id)).map(({ failure }) => failure)];
}

/** Failures of one minute of a time; `changes` may name another kind. */
function failed(time: number, count: number, changes: Partial<CountedFailures> = {}): CountedFailures {
  const begin = Math.floor(time / minute) * minute;
  return { ...noLuck, minute: begin, count, firstAt: time, lastAt: time, sample: 1, ...changes };
}

const many = 1_000;

/** In letters, since a number is no part of a kind. */
const inLetters = (n: number) => String(n).replace(/\d/g, (digit) => "ghijklmnop".charAt(Number(digit)));

const kindOf = (n: number, func = "resize") => failureKind(func, "Error", `of kind ${inLetters(n)}`);

/** Each kind with its count. */
const counts = async (store: FullStore, from = 0, func?: string) =>
  (await store.failures.counted(from, func, many)).map(({ id, count }) => [id, count]);

export const failuresGroup: Group = {
  name: "kinds of failures",
  cases: [
    {
      name: "an attempt that fails names its kind, and its task does when it has failed for good",
      run: async (ctx) => {
        const { store } = ctx;
        const retried = await running(store);
        const final = await running(store);
        const named = await running(store);
        await settle(
          store,
          outcomes.retry(retried),
          outcomes.failed(final),
          outcomes.failed({ ...named, func: "resize" }),
        );
        assert.deepEqual(await stored(ctx, retried.id), [null, [noLuck.id]]);
        assert.deepEqual(await stored(ctx, final.id), [noLuck.id, [noLuck.id]]);
        assert.deepEqual(await stored(ctx, named.id), [noLuck.id, [noLuck.id]]);
      },
    },
    {
      name: "a task that completes or is cancelled has no kind, nor has one that is retried by hand",
      run: async (ctx) => {
        const { store } = ctx;
        for (const kind of ["completed", "cancelled", "snoozed", "interrupted"] as const) {
          const task = await running(store, { func: kind });
          await settle(store, outcomes[kind](task));
          assert.deepEqual(await stored(ctx, task.id), [null, kind === "cancelled" ? [null] : []], kind);
        }
        const failedTask = await taskIn(store, "failed");
        const held = await running(store, { func: "held" });
        await store.cancel(held.id, errorText);
        assert.deepEqual(await stored(ctx, held.id), [null, [null]]);
        assert.equal((await store.retry(failedTask.id))?.changed, true);
        assert.deepEqual(await stored(ctx, failedTask.id), [null, [noLuck.id]]);
      },
    },
    {
      name: "a crash that a rescue charges has a kind, without the id of its worker",
      run: async (ctx) => {
        const { store } = ctx;
        const ids: number[] = [];
        for (const workerId of ["w1", "w22"]) {
          await store.register(newWorker(workerId));
          ids.push((await running(store, { maxRetries: 0 }, workerId)).id);
          const worker = (await store.workers()).find(({ id }) => id === workerId);
          assert.equal(await store.rescue(workerId, worker?.beat ?? -1), 1);
        }
        const { id } = failureKind(
          "resize",
          crashName,
          "worker w1 died, or lost its lease, while it ran this",
        );
        for (const task of ids) assert.deepEqual(await stored(ctx, task), [id, [id]]);
      },
    },
    {
      name: "an end without an attempt has the kind of its error",
      run: async (ctx) => {
        const { store } = ctx;
        const task = await running(store);
        await settle(store, { ...outcomes.failed(task), attempt: undefined });
        assert.deepEqual(await stored(ctx, task.id), [noLuck.id, []]);
      },
    },
    {
      name: "a drain's tasks that are overdue, or whose end is told, have a kind",
      run: async (ctx) => {
        const { store, sql, database } = ctx;
        const [overdue, told] = [
          await insertOne(store, { queueName: "mail" }),
          await insertOne(store, { queueName: "mail" }),
        ];
        await store.register(newWorker("drain:w1"));
        const claim = claimBy("drain:w1", { queueNames: ["mail"] });
        const { claimed } = await store.settleAndClaim({ outcomes: [], claim });
        assert.deepEqual(await store.drains.handOver(claimed), [true, true]);
        await store.drains.settle(
          told,
          { kind: "failed", error: errorText, attempt: failedAttempt },
          undefined,
        );
        assert.deepEqual(await stored(ctx, told), [noLuck.id, [noLuck.id]]);
        await sql(`update dbq_tasks set updated_at = ${database.earlier("updated_at", 2 * minute)}`);
        assert.equal(await store.drains.expire("mail", minute, 10), 1);
        const text = `no result came within ${minute} ms (resultsWithin) after the task was sent`;
        const { id } = failureKind("resize", "TimeoutError", text);
        assert.deepEqual(await stored(ctx, overdue), [id, [id]]);
      },
    },
    {
      name: "a filter finds the failed tasks of a kind, newest first, in lists, counts and actions",
      run: async ({ store, sql }) => {
        const ids: number[] = [];
        for (let i = 0; i < 3; i += 1) ids.push((await taskIn(store, "failed")).id);
        const other = await taskIn(store, "failed", { func: "shrink" });
        await taskIn(store, "completed");
        const [first, second, third] = ids as [number, number, number];
        const filter = { failure: noLuck.id };
        const listed = async (of: object, after?: number) =>
          (await store.list(of, 2, after)).map(({ id }) => id);
        assert.deepEqual(await listed(filter), [third, second]);
        assert.deepEqual(await listed(filter, second), [first]);
        assert.deepEqual(await listed({ ...filter, status: ["failed"] }), [third, second]);
        assert.deepEqual(await listed({ ...filter, func: "shrink" }), []);
        assert.deepEqual(await listed({ ...filter, status: ["pending"] }), []);
        assert.deepEqual(
          (await store.count(filter)).map(({ func, status, count }) => [func, status, count]),
          [["resize", "failed", 3]],
        );
        assert.equal(await store.look.areFew(filter, 3), true);
        assert.equal(await store.look.areFew(filter, 2), false);
        assert.equal(await store.look.countFew(filter, 3), 3);
        await store.look.retryEach([second]);
        assert.deepEqual(await listed(filter), [third, first]);
        // Another program may only set the status.
        await sql(`update dbq_tasks set status = 'pending' where id = ${first}`);
        assert.deepEqual(await listed(filter), [third]);
        assert.deepEqual(await listed({ ...filter, status: ["failed", "pending"] }), [third]);
        await sql(`update dbq_tasks set failure = null where id = ${first}`);
        const counted = { count: 1, more: false };
        assert.deepEqual(await store.failures.open(undefined, many, many), {
          kinds: [noLuck.id, (await store.attempts(other.id))[0]?.failure]
            .map((id, i) => ({ id: String(id), ...counted, sample: i === 0 ? third : other.id }))
            .sort((a, b) => Number(a.id > b.id) - Number(a.id < b.id)),
          complete: true,
        });
        assert.equal((await store.failures.open("shrink", many, many)).kinds.length, 1);
        const one = await store.failures.open(undefined, 1, many);
        assert.deepEqual([one.kinds.length, one.complete], [1, false]);
        assert.deepEqual(await store.failures.openOf([noLuck.id, "nothing"], many), [
          { id: noLuck.id, ...counted, sample: third },
        ]);
      },
    },
    {
      name: "of more failed tasks than are counted, each kind has its share, and says that there are more",
      run: async ({ store }) => {
        const failedOf = async (func: string, times: number) => {
          let last = { id: 0 };
          for (let n = 0; n < times; n += 1) last = await taskIn(store, "failed", { func });
          return { id: String((await store.attempts(last.id))[0]?.failure), sample: last.id };
        };
        const kinds = [await failedOf("a", 5), await failedOf("b", 1), await failedOf("c", 3)];
        const [a, b, c] = kinds as [(typeof kinds)[0], (typeof kinds)[0], (typeof kinds)[0]];
        const byId = (x: { id: string }, y: { id: string }) => Number(x.id > y.id) - Number(x.id < y.id);
        const most = (n: number, more: boolean) => ({ count: n, more });
        assert.deepEqual(await store.failures.open(undefined, many, 9), {
          kinds: [
            { ...a, ...most(5, false) },
            { ...c, ...most(3, false) },
            { ...b, ...most(1, false) },
          ],
          complete: true,
        });
        assert.deepEqual(await store.failures.open(undefined, many, 3), {
          kinds: [
            ...[
              { ...a, ...most(3, true) },
              { ...c, ...most(3, false) },
            ].sort(byId),
            { ...b, ...most(1, false) },
          ],
          complete: true,
        });
        assert.deepEqual(await store.failures.open("c", many, 3), {
          kinds: [{ ...c, ...most(3, false) }],
          complete: true,
        });
        const first = await store.failures.open(undefined, 2, 3);
        const ids = kinds
          .map(({ id }) => id)
          .sort()
          .slice(0, 2);
        assert.deepEqual([first.kinds.map(({ id }) => id).sort(), first.complete], [ids, false]);
        assert.deepEqual(await store.failures.openOf([a.id, "nothing"], 4), [{ ...a, ...most(4, true) }]);
      },
    },
    {
      name: "counts of one kind and minute add up, whoever writes them",
      run: async ({ store }) => {
        const now = hoursAgo(0);
        await store.failures.add([]);
        await store.failures.add([failed(now + 5_000, 2, { sample: 7 })]);
        await store.failures.add([
          failed(now + 1_000, 3, { sample: 8 }),
          failed(now, 1, { ...kindOf(1, "f"), sample: 9 }),
        ]);
        await store.failures.add([failed(now + minute, 4, { sample: 5 })]);
        assert.deepEqual(await counts(store), [
          [noLuck.id, 9],
          [kindOf(1, "f").id, 1],
        ]);
        assert.deepEqual(await counts(store, now + minute), [[noLuck.id, 4]]);
        assert.deepEqual(await counts(store, 0, "f"), [[kindOf(1, "f").id, 1]]);
        assert.deepEqual(await store.failures.counted(0, undefined, 1), [{ id: noLuck.id, count: 9 }]);
        assert.deepEqual(await store.failures.known([noLuck.id, "nothing"]), [
          { ...noLuck, firstAt: now + 1_000, lastAt: now + minute, sample: 5 },
        ]);
      },
    },
    {
      name: "failures are counted by parts of a time, whether their minutes were folded or not",
      run: async ({ store }) => {
        const [now, before] = [hoursAgo(0), hoursAgo(6)];
        await store.failures.add([failed(before + minute, 2), failed(before + 2 * minute, 3)]);
        await store.failures.add([failed(hoursAgo(9), 7), failed(now, 1, kindOf(2))]);
        while (await store.failures.fold());
        await store.failures.add([failed(now, 4), failed(now + minute, 1)]);
        const found = await store.failures.times([noLuck.id, "nothing"], hoursAgo(7), hour);
        assert.deepEqual(
          found.sort((a, b) => a.at - b.at),
          [
            { id: noLuck.id, at: before, count: 5 },
            { id: noLuck.id, at: now, count: 5 },
          ],
        );
      },
    },
    {
      name: "of more kinds in a minute than there may be, the later ones count as the others of their functions",
      run: async ({ store }) => {
        const now = hoursAgo(0);
        const kinds = Array.from({ length: mostKinds }, (_, n) => failed(now, 1, kindOf(n)));
        await store.failures.add(kinds);
        await store.failures.add([
          failed(now, 5, kindOf(0)),
          failed(now, 2, kindOf(mostKinds)),
          failed(now, 3, kindOf(mostKinds + 1)),
        ]);
        await store.failures.add([failed(now, 1, kindOf(0, "shrink"))]);
        const found = new Map((await counts(store)) as [string, number][]);
        assert.equal(found.size, mostKinds + 2);
        assert.equal(found.get(kindOf(0).id), 6);
        assert.equal(found.get(otherFailures("resize").id), 5);
        assert.equal(found.get(otherFailures("shrink").id), 1);
        assert.equal((await store.failures.known([otherFailures("shrink").id]))[0]?.errorName, "Others");
      },
    },
    {
      name: "after two hours the minutes of an hour are one row for each kind, and rows are deleted after 30 days",
      run: async ({ store, sql }) => {
        const [before, old] = [hoursAgo(5), hoursAgo(31 * 24)];
        await store.failures.add([failed(old, 1)]);
        await store.failures.add([
          ...[failed(before + 1, 2), failed(before + 3 * minute, 3, { sample: 4 })],
          ...[failed(before + hour, 4), failed(hoursAgo(0), 1), failed(before, 1, kindOf(2))],
        ]);
        const known = { ...noLuck, lastAt: hoursAgo(0), sample: 1 };
        while (await store.failures.fold());
        const rows = await sql("select span, count(*) as n from dbq_failures group by span order by span");
        assert.deepEqual(
          rows.map(({ span, n }) => [Number(span), Number(n)]),
          [
            [1, 1],
            [60, 3],
          ],
        );
        assert.deepEqual(await counts(store), [
          [noLuck.id, 10],
          [kindOf(2).id, 1],
        ]);
        assert.deepEqual(await store.failures.known([noLuck.id]), [{ ...known, firstAt: before + 1 }]);
        // A worker was late.
        await store.failures.add([failed(before + minute, 7)]);
        while (await store.failures.fold());
        assert.deepEqual((await counts(store, before))[0], [noLuck.id, 17]);
        assert.equal(await store.failures.fold(), false);
      },
    },
    {
      name: "an hour keeps the kinds that came most often, and the sum of all",
      run: async ({ store }) => {
        const before = hoursAgo(5);
        for (const part of [0, 1])
          await store.failures.add(
            Array.from({ length: mostKinds }, (_, n) =>
              failed(before + part * minute, part === 1 && n === 0 ? 9 : 1, kindOf(part * mostKinds + n)),
            ),
          );
        while (await store.failures.fold());
        const found = await counts(store);
        assert.equal(found.length, mostKinds + 1);
        assert.deepEqual(found[0], [otherFailures("resize").id, mostKinds]);
        assert.deepEqual(found[1], [kindOf(mostKinds).id, 9]);
      },
    },
    {
      name: "many workers add to the same rows at once, while others fold, and no failure is lost",
      run: async (ctx) => {
        const { bare } = ctx;
        const stores = await connections(ctx);
        const [now, before] = [hoursAgo(0), hoursAgo(4)];
        await Promise.all(
          stores.flatMap((store, w) =>
            Array.from({ length: 5 }, async (_, i) => {
              const kinds = [kindOf(1), kindOf(2), kindOf(3)];
              if (w % 2 === 1) kinds.reverse();
              await store.failures.add(kinds.map((kind) => failed(now, 1, kind)));
              await store.failures.add([failed(before + i * minute, 1, kindOf(4))]);
              if (i === 4) while (await store.failures.fold());
            }),
          ),
        );
        while (await bare.failures.fold());
        const total = stores.length * 5;
        assert.deepEqual((await counts(bare)).sort(), [1, 2, 3, 4].map((n) => [kindOf(n).id, total]).sort());
      },
    },
  ],
};
