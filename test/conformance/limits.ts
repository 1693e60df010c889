/** Limits, rates, pauses and the turns of groups. Most cases use `bare`: a claim here also puts tasks off. */
import assert from "node:assert/strict";
import type { LimitScope, LimitValues } from "../../src/base/options/limits.ts";
import { limitsAnswered } from "../../src/features/limits/contract.ts";
import type { FullStore } from "../../src/features/store.ts";
import type { ClaimRequest, Outcome } from "../../src/store.ts";
import { byClaimOrder, pairsOf } from "../../src/stores/sql/claim-steps.ts";
import type { TaskRecord } from "../../src/task.ts";
import {
  type ClaimChanges,
  claim,
  claimBy,
  insert,
  minute,
  newWorker,
  outcomes,
  recordOf,
  running,
  settle,
} from "./arrange.ts";
import type { Context, Group } from "./case.ts";

const ofName = (name: string): LimitScope => ({ kind: "name", name, group: "" });
const ofQueue = (name: string): LimitScope => ({ kind: "queue", name, group: "" });
export const ofFunc = (name = "resize"): LimitScope => ({ kind: "func", name, group: "" });
const ofGroup = (group: string, name = "resize"): LimitScope => ({ kind: "group", name, group });

export const atOnce = (concurrency: number): LimitValues => ({ concurrency, rate: null });
const each = (limit: number, per: number, burst = 1): LimitValues => ({
  concurrency: null,
  rate: { limit, per, burst },
});

const grouped = (workerId = "w1", changes: ClaimChanges = {}): ClaimRequest =>
  claimBy(workerId, { sharing: new Map([["resize", { groups: true, uses: [] }]]), ...changes });

const using = (workerId: string, ...uses: string[]): ClaimRequest => usingOnly(uses, workerId);

const usingOnly = (uses: string[], workerId: string, changes: ClaimChanges = {}): ClaimRequest =>
  claimBy(workerId, { sharing: new Map([["resize", { groups: false, uses }]]), ...changes });

/** What a claim has taken, and what limits answer. */
async function limitedClaim(store: FullStore, claim: ClaimRequest) {
  const result = await store.settleAndClaim({ outcomes: [], claim });
  return { claimed: result.claimed, ...limitsAnswered.of(result) };
}

const tasks = (n: number, changes: object = {}) => Array.from({ length: n }, () => changes);

const groupsOf = (claimed: readonly TaskRecord[]) => claimed.map(({ groupKey }) => groupKey);

async function completed(store: FullStore, ...claimed: readonly TaskRecord[]): Promise<void> {
  assert.ok((await settle(store, ...claimed.map((task) => outcomes.completed(task)))).every(Boolean));
}

async function statuses(store: FullStore, ids: readonly number[]): Promise<string[]> {
  const records = await store.get(ids);
  return ids.map((id) => records.find((record) => record.id === id)?.status ?? "gone");
}

/** Claims until no more comes, as a worker does: what it has just been refused it is refused again. */
async function claimAll(store: FullStore, request: ClaimRequest): Promise<TaskRecord[]> {
  const all: TaskRecord[] = [];
  for (let more = true; more; ) {
    const claimed = await claim(store, request);
    all.push(...claimed);
    more = claimed.length > 0;
  }
  return all;
}

const numbered = (name: string, n: number) => Array.from({ length: n }, (_, i) => `${name}${i}`);

const due = (database: Context["database"]) => database.earlier("wait_until", minute);

export const limitsGroup: Group = {
  name: "limits and groups",
  cases: [
    {
      name: "a limit of a function lets so many of its tasks run at once, of all workers together",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(3));
        await insert(store, ...tasks(10));
        const first = await claim(store, claimBy("w1", { limit: 2 }));
        assert.equal(first.length, 2);
        assert.equal((await claim(store, claimBy("w2"))).length, 1);
        assert.equal((await claim(store, claimBy("w1"))).length, 0);
        await completed(store, first[0] as TaskRecord);
        assert.equal((await claim(store, claimBy("w2"))).length, 1);
      },
    },
    {
      name: "a claim of a hundred queues and functions takes the first tasks for which its queues have places",
      run: async ({ bare: store }) => {
        const [queueNames, funcs] = [numbered("queue", 10), numbered("func", 10)];
        const added = pairsOf({ queueNames, funcs }).flatMap(([queueName, func], i) => [
          { queueName, func, priority: (i * 37) % 101 },
          { queueName, func, priority: (i * 53) % 97 },
        ]);
        const ids = await insert(store, ...added);
        for (const [n, queueName] of queueNames.entries())
          await store.limits.set(ofQueue(queueName), atOnce(n % 3));
        const all = added.map((task, i) => ({ ...task, id: ids[i] as number })).sort(byClaimOrder);
        const places = new Map(queueNames.map((queueName, n) => [queueName, n % 3]));
        const expected = all.filter(({ queueName }) => {
          const left = places.get(queueName) as number;
          places.set(queueName, left - 1);
          return left > 0;
        });
        const request = claimBy("w1", { queueNames, funcs, limit: 4 });
        const claimed = [
          await claim(store, request),
          await claim(store, request),
          await claim(store, request),
        ];
        assert.deepEqual(
          claimed.flat().map(({ id }) => id),
          expected.map(({ id }) => id),
        );
        assert.equal(expected.length, 9);
      },
    },
    {
      name: "a claim of one task finds the only group that waits, wherever the turns are",
      run: async ({ bare: store }) => {
        const [, other] = await insert(store, { groupKey: "a" }, { groupKey: "b" });
        assert.deepEqual(groupsOf(await claim(store, grouped("w1", { limit: 1 }))), ["a"]);
        await store.cancel(other as number, "{}");
        // The turn is behind the only group that waits: the claim has to look behind it for tasks without a group, and then before it.
        for (const groupKey of ["a", "b", "a", "b"]) {
          await insert(store, { groupKey });
          const claimed = await claim(store, grouped("w1", { limit: 1 }));
          assert.deepEqual(groupsOf(claimed), [groupKey]);
        }
      },
    },
    {
      name: "a group whose task has just ended has no turn before the others, nor takes their place",
      run: async ({ bare: store }) => {
        await insert(store, { groupKey: "b" }, { groupKey: "b" });
        const one = (ended: TaskRecord) =>
          store.settleAndClaim({
            outcomes: [outcomes.completed(ended)],
            claim: grouped("w1", { limit: 1, freed: [ended] }),
          });
        const [first] = await claim(store, grouped("w1", { limit: 1 }));
        await insert(store, { groupKey: "a" });
        const second = await one(first as TaskRecord);
        assert.deepEqual(groupsOf(second.claimed), ["a"]);
        const third = await one(second.claimed[0] as TaskRecord);
        assert.deepEqual(groupsOf(third.claimed), ["b"]);
        await insert(store, { groupKey: "a" });
        const last = await one(third.claimed[0] as TaskRecord);
        assert.deepEqual(groupsOf(last.claimed), ["a"]);
      },
    },
    {
      name: "a claim that has read only some tasks of a group reports that there may be more",
      run: async ({ bare: store }) => {
        await store.register(newWorker("w1"));
        await insert(store, { groupKey: "a" }, { groupKey: "b" }, { groupKey: "b" });
        const { claimed, more } = await store.settleAndClaim({
          outcomes: [],
          claim: grouped("w1", { limit: 3 }),
        });
        assert.ok(claimed.length === 3 || more);
        assert.equal(claimed.length + (await claimAll(store, grouped("w1"))).length, 3);
      },
    },
    {
      name: "a settled task makes room for the claim of the same cycle",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(1));
        await insert(store, ...tasks(2));
        const [task] = await claim(store);
        const cycle = { outcomes: [outcomes.completed(task as TaskRecord)], claim: claimBy() };
        assert.equal((await store.settleAndClaim(cycle)).claimed.length, 1);
      },
    },
    {
      name: "a claim says whether it has taken all places under limits of the tasks that its cycle settled",
      needs: ["cycles in one transaction"],
      run: async ({ bare: store }) => {
        await store.limits.set(ofName("api"), atOnce(2));
        await store.limits.set(ofQueue("other"), atOnce(1));
        const queueNames = ["default", "other"];
        const settled = async (outcome: Outcome, freed: readonly TaskRecord[]) => {
          const request = usingOnly(["api"], "w1", { queueNames, freed });
          const did = await store.settleAndClaim({ outcomes: [outcome], claim: request });
          return { task: did.claimed[0] as TaskRecord, n: did.claimed.length, retaken: did.retaken === true };
        };
        const cycle = (ended: TaskRecord, freed = [ended]) => settled(outcomes.completed(ended), freed);
        await insert(store, ...tasks(5));
        const [a, b] = (await claim(store, usingOnly(["api"], "w1", { queueNames }))) as [
          TaskRecord,
          TaskRecord,
        ];
        const c = await cycle(a);
        assert.deepEqual([c.n, c.retaken], [1, true]);
        const d = await cycle(b, []);
        assert.deepEqual([d.n, d.retaken], [1, false], "it is not known what the ended task counted for");
        const e = await settled(outcomes.snoozed(c.task), [c.task]);
        assert.deepEqual([e.n, e.retaken], [1, false], "others must hear of the scheduled task");
        await insert(store, { queueName: "other" });
        const inOther = await cycle(d.task);
        assert.deepEqual([inOther.n, inOther.retaken], [1, true]);
        await insert(store, {});
        const last = await cycle(inOther.task);
        assert.deepEqual([last.n, last.retaken], [1, false], "the place of the queue is left");
        assert.deepEqual(await cycle(last.task), { task: undefined, n: 0, retaken: false });
      },
    },
    {
      name: "a limit of a function without groups is that of each group that its tasks have",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(1));
        const groupKeys = ["a", "a", null, null, "b"];
        await insert(store, ...groupKeys.map((groupKey) => ({ groupKey })));
        assert.deepEqual(groupsOf(await claimAll(store, claimBy())).sort(), ["a", "b", null]);
      },
    },
    {
      name: "groups are told apart byte by byte",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(1));
        const groupKeys = ["a", "A", "a ", "ä", "a"];
        await insert(store, ...groupKeys.map((groupKey) => ({ groupKey })));
        assert.deepEqual(groupsOf(await claimAll(store, grouped())).sort(), ["A", "a", "a ", "ä"].sort());
      },
    },
    {
      name: "one group's own limit goes before that of its function, and ends with it",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(1));
        await store.limits.set(ofGroup("big"), atOnce(3));
        await insert(store, ...tasks(5, { groupKey: "big" }), ...tasks(5, { groupKey: "small" }));
        const claimed = await claimAll(store, grouped());
        assert.deepEqual(groupsOf(claimed).sort(), ["big", "big", "big", "small"]);
        await store.limits.set(ofGroup("big"), null);
        await completed(store, ...claimed);
        assert.deepEqual(groupsOf(await claimAll(store, grouped())).sort(), ["big", "small"]);
      },
    },
    {
      name: "a limit of a queue counts the tasks of all functions in it",
      run: async ({ bare: store }) => {
        await store.limits.set(ofQueue("mail"), atOnce(2));
        await insert(
          store,
          ...tasks(2, { queueName: "mail" }),
          ...tasks(2, { queueName: "mail", func: "send" }),
        );
        await insert(store, ...tasks(2));
        const claimed = await claimAll(
          store,
          claimBy("w1", { queueNames: ["mail", "default"], funcs: ["resize", "send"] }),
        );
        assert.deepEqual(claimed.map(({ queueName }) => queueName).sort(), [
          "default",
          "default",
          "mail",
          "mail",
        ]);
      },
    },
    {
      name: "a shared limit counts the tasks of every function that uses its name, whatever worker has claimed them",
      run: async ({ bare: store }) => {
        await insert(store, ...tasks(3), ...tasks(3, { func: "send" }));
        // Claimed while nobody has set the limit.
        assert.equal((await claim(store, { ...using("w1", "api", "cpu"), limit: 1 })).length, 1);
        await store.limits.set(ofName("api"), atOnce(3));
        const sending = claimBy("w2", {
          funcs: ["send"],
          limit: 1,
          sharing: new Map([["send", { groups: false, uses: ["api"] }]]),
        });
        assert.equal((await claim(store, sending)).length, 1);
        assert.equal((await claim(store, using("w1", "api"))).length, 1);
        assert.equal((await claim(store, sending)).length, 0);
        assert.equal((await claim(store, using("w1", "other"))).length, 1);
      },
    },
    {
      name: "a limit counts the tasks that ran before it was set; a lower one lets them end",
      run: async ({ bare: store }) => {
        const task = await running(store);
        await insert(store, ...tasks(3));
        await store.limits.set(ofFunc(), atOnce(2));
        const [second] = await claim(store);
        assert.equal((await claim(store)).length, 0);
        await store.limits.set(ofFunc(), atOnce(1));
        await completed(store, task);
        assert.equal((await claim(store)).length, 0);
        await completed(store, second as TaskRecord);
        assert.equal((await claim(store)).length, 1);
      },
    },
    {
      name: "a limit of a queue counts the tasks that ran before it was set",
      run: async ({ bare: store }) => {
        await running(store);
        await insert(store, ...tasks(3));
        await store.limits.set(ofQueue("default"), atOnce(1));
        assert.equal((await claim(store)).length, 0);
      },
    },
    {
      name: "a change holds for the next claim of a worker on another connection",
      needs: ["several connections"],
      run: async ({ bare: store, another }) => {
        const operator = await another();
        await insert(store, ...tasks(9));
        assert.equal((await claim(store, claimBy("w1", { limit: 1 }))).length, 1);
        await operator.limits.set(ofFunc(), atOnce(2));
        assert.equal((await claim(store)).length, 1);
        await operator.limits.pause(ofQueue("default"));
        await operator.limits.set(ofFunc(), null);
        assert.equal((await claim(store)).length, 0);
        await operator.limits.resume(ofQueue("default"));
        assert.equal((await claim(store)).length, 7);
      },
    },
    {
      name: "a rescue, a cancel and a purge of running tasks make room",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(3));
        await insert(store, ...tasks(9, { maxRetries: 0 }));
        const claimed = await claim(store);
        assert.equal(claimed.length, 3);
        const [first] = claimed as [TaskRecord];
        await store.cancel(first.id, "{}");
        assert.equal((await claim(store, claimBy("w2"))).length, 1);
        const dead = (await store.workers()).find(({ id }) => id === "w1");
        await store.rescue("w1", dead?.beat ?? 0);
        assert.equal((await claim(store, claimBy("w2"))).length, 2);
        await store.purge({ includeRunning: true }, 1_000, 0);
        await insert(store, ...tasks(9));
        assert.equal((await claim(store, claimBy("w2"))).length, 3);
      },
    },
    {
      name: "what the code says is a limit until the database has one of its own for the function",
      run: async ({ bare: store }) => {
        await store.limits.declare([{ func: "resize", values: atOnce(1) }]);
        await insert(store, ...tasks(9));
        const [task] = await claimAll(store, claimBy());
        await store.limits.set(ofFunc(), atOnce(3));
        assert.equal((await claimAll(store, claimBy())).length, 2);
        await store.limits.declare([{ func: "resize", values: atOnce(5) }]);
        assert.equal((await claimAll(store, claimBy())).length, 0);
        await store.limits.set(ofFunc(), null);
        assert.equal((await claimAll(store, claimBy())).length, 2);
        await store.limits.declare([{ func: "resize", values: null }]);
        assert.equal((await claimAll(store, claimBy())).length, 4);
        await completed(store, task as TaskRecord);
      },
    },
    {
      name: "groups take turns whatever the priorities; within a group by priority, then age",
      run: async ({ bare: store }) => {
        const big = Array.from({ length: 50 }, (_, i) => ({ groupKey: "big", priority: 9, args: `[${i}]` }));
        await insert(store, ...big);
        const few = [
          { groupKey: "b", priority: 1, args: '["b1"]' },
          { groupKey: "b", priority: 2, args: '["b2"]' },
          { groupKey: "c", args: '["c"]' },
        ];
        await insert(store, ...few, { args: '["none"]' });
        const order: string[] = [];
        for (let i = 0; i < 8; i += 1)
          order.push(...(await claim(store, grouped("w1", { limit: 1 }))).map(({ args }) => args));
        assert.deepEqual(
          order.filter((args) => args.startsWith('["b')),
          ['["b2"]', '["b1"]'],
        );
        for (const args of ['["c"]', '["none"]', '["b2"]'])
          assert.ok(order.slice(0, 4).includes(args), `${args} in ${order}`);
        assert.deepEqual(order.filter((args) => !args.startsWith('["')).slice(0, 2), ["[0]", "[1]"]);
      },
    },
    {
      name: "a claim of many takes tasks of all groups, and fills its slots from the one that has more",
      run: async ({ bare: store }) => {
        await insert(store, ...tasks(40, { groupKey: "a" }), ...tasks(2, { groupKey: "b" }), {
          groupKey: "c",
        });
        const claimed = await claimAll(store, grouped("w1", { limit: 10 }));
        assert.equal(claimed.length, 43);
        assert.deepEqual(groupsOf(claimed.slice(0, 3)).sort(), ["a", "b", "c"]);
      },
    },
    {
      name: "full groups hide no other group, however many there are",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(1));
        const names = Array.from({ length: 120 }, (_, i) => `g${i}`);
        await insert(store, ...names.flatMap((groupKey) => tasks(2, { groupKey })));
        assert.equal((await claimAll(store, grouped("w1", { limit: 50 }))).length, 120);
        assert.equal((await claim(store, grouped())).length, 0);
        await insert(store, { groupKey: "zz" });
        assert.deepEqual(groupsOf(await claim(store, grouped("w1", { limit: 3 }))), ["zz"]);
      },
    },
    {
      name: "a group with room is found behind more full groups than one claim looks at",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(1));
        const names = Array.from({ length: 2_200 }, (_, i) => `g${String(i).padStart(4, "0")}`);
        for (let i = 0; i < names.length; i += 200)
          await insert(store, ...names.slice(i, i + 200).flatMap((groupKey) => tasks(2, { groupKey })));
        let running = 0;
        for (let claims = 0; running < names.length; claims += 1) {
          assert.ok(claims < 1_000, `${running} run`);
          running += (await claim(store, grouped("w1", { limit: 500 }))).length;
        }
        const held = (await store.list({ status: ["running"] }, 2_200, undefined)).find(
          ({ groupKey }) => groupKey === "g2100",
        );
        assert.ok(held);
        // By another worker, of which this store hears nothing.
        await store.cancel(held.id, "{}");
        let found: TaskRecord[] = [];
        for (let claims = 0; found.length === 0; claims += 1) {
          assert.ok(claims < 200, "no claim finds the group with room");
          found = await claim(store, grouped("w1"));
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        assert.deepEqual(groupsOf(found), ["g2100"]);
      },
    },
    {
      name: "a rate lets its burst start, and gives each further task a turn of its own",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(10, minute, 2));
        const ids = await insert(store, ...tasks(5));
        const claimed = await claimAll(store, claimBy());
        assert.equal(claimed.length, 2);
        assert.deepEqual(await statuses(store, ids), [
          "running",
          "running",
          "scheduled",
          "scheduled",
          "scheduled",
        ]);
        const turns = (await Promise.all(ids.slice(2).map((id) => recordOf(store, id)))).map(
          ({ waitUntil }) => (waitUntil ?? 0) - (claimed[0]?.startedAt ?? 0),
        );
        for (const [i, turn] of turns.entries()) {
          const wanted = (i + 1) * (minute / 10);
          assert.ok(Math.abs(turn - wanted) < minute / 100, `turn ${i}: ${turn} ms, not ${wanted} ms`);
        }
      },
    },
    {
      name: "a task whose turn has come starts when the rate allows it, and is not put behind newer ones",
      run: async ({ bare: store, database, sql }) => {
        await store.limits.set(ofFunc(), each(10, minute));
        const ids = await insert(store, ...tasks(3));
        assert.equal((await claimAll(store, claimBy())).length, 1);
        await sql(`update dbq_tasks set wait_until = ${due(database)} where status = 'scheduled'`);
        await store.promote(10);
        await insert(store, ...tasks(2));
        assert.equal((await claimAll(store, claimBy())).length, 0);
        assert.deepEqual(await statuses(store, ids), ["running", "pending", "pending"]);
        await sql(`update dbq_limits set tat = tat - 6200000 where scope = 'group'`);
        assert.deepEqual(
          (await claimAll(store, claimBy())).map(({ id }) => id),
          [ids[1]],
        );
      },
    },
    {
      name: "a claim takes tasks a little before their turn for its free slots, and the others become due in lots",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(50, 1_000));
        const ids = await insert(store, ...tasks(20));
        await store.register(newWorker("w1"));
        const request = (held: number) => claimBy("w1", { limit: 20, held });
        const { claimed, startsIn } = await limitedClaim(store, request(3));
        assert.deepEqual(
          claimed.map(({ id }) => id),
          ids.slice(0, 3),
        );
        const starts = claimed.map(({ startedAt }) => startedAt ?? 0);
        const [first = 0] = starts;
        // 20.1 ms from one to the next, after a first one that may count as 5 ms earlier.
        assert.deepEqual(
          starts.map((start) => start - first),
          [0, 16, 36],
        );
        assert.deepEqual(
          [...(startsIn ?? [])],
          [
            [ids[1], 16],
            [ids[2], 36],
          ],
        );
        await claimAll(store, request(1));
        const put = (await store.get(ids.slice(3))).map(({ waitUntil }) => waitUntil ?? 0);
        // 17 turns of 20.1 ms are in five lots of 100 ms at most, each due at least 100 ms before the first turn of it.
        const lots = [...new Set(put)];
        assert.ok(lots.length >= 4 && lots.length <= 5, `${lots}`);
        assert.ok(lots.every((due) => due % 100 === 0));
        for (const [i, due] of put.sort((a, b) => a - b).entries())
          assert.ok(due <= first + 56 + i * 20.1, `task ${i} is due at ${due - first} ms`);
      },
    },
    {
      name: "tasks that a claim without room for them puts off become due in lots, too",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(50, 1_000));
        const ids = await insert(store, ...tasks(12));
        await store.register(newWorker("w1"));
        const request = claimBy("w1", { limit: 20, held: 0 });
        const { claimed, startsIn, again } = await limitedClaim(store, request);
        assert.deepEqual([claimed.map(({ id }) => id), [...(startsIn ?? [])]], [ids.slice(0, 1), []]);
        await claimAll(store, request);
        const put = (await store.get(ids)).flatMap(({ waitUntil }) => waitUntil ?? []);
        assert.ok(put.length >= 5, `${put.length} are put off`);
        assert.deepEqual(
          put.filter((due) => due % 100 !== 0),
          [],
        );
        assert.notEqual(again, undefined);
      },
    },
    {
      name: "tasks that claims put off one by one become due in as many lots",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(12, 1_000));
        const ids = await insert(store, ...tasks(24));
        const start = performance.now();
        for (const _ of ids) await claim(store, claimBy("w1", { limit: 1, held: 1 }));
        const left = 2_000 - (performance.now() - start);
        const lots = new Map<number, number>();
        for (const { waitUntil } of await store.get(ids))
          if (waitUntil !== null) lots.set(waitUntil, (lots.get(waitUntil) ?? 0) + 1);
        // Two seconds of turns, less those that have come meanwhile: 84 ms from one to the next, so two at most are in a lot of 100 ms.
        assert.ok(lots.size >= Math.min(3, Math.floor(left / 200)), `${lots.size} lots`);
        assert.ok([...lots.values()].every((n) => n <= 2));
      },
    },
    {
      name: "a rescue charges no retry to a task whose turn is still to come",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(7, 1_000));
        let waited = 0;
        // Its turn comes 138 ms after the first task's: a busy machine may be slower.
        for (let tries = 0; tries < 50 && waited === 0; tries += 1) {
          const ids = await insert(store, { maxRetries: 1 }, { maxRetries: 1 });
          await store.register(newWorker("w1"));
          const claimed = await claim(store, claimBy("w1", { held: 2 }));
          const beat = (await store.workers()).find(({ id }) => id === "w1")?.beat ?? -1;
          await store.rescue("w1", beat);
          const now = await store.get(ids);
          waited += now.filter(({ status, retryCount }) => status === "pending" && retryCount === 0).length;
          assert.ok(claimed.length < 2 || now[0]?.retryCount === 1, "the first task may have been called");
          await store.purge({ includeRunning: true }, 100, 0);
        }
        assert.ok(waited > 0);
      },
    },
    {
      name: "a claim prefers what may start now to what has its turn a little later",
      run: async ({ bare: store }) => {
        await store.limits.set(ofGroup("a"), each(50, 1_000));
        const ids = await insert(
          store,
          ...tasks(3, { groupKey: "a", priority: 9 }),
          ...tasks(2, { groupKey: "b" }),
        );
        const claimed = await claim(store, grouped("w1", { limit: 9, held: 4 }));
        assert.deepEqual(groupsOf(claimed), ["a", "b", "b", "a"]);
        const [first = 0, ...others] = claimed.map(({ startedAt }) => startedAt ?? 0);
        assert.deepEqual(
          others.map((start) => start - first),
          [0, 0, 16],
        );
        assert.deepEqual(await statuses(store, ids.slice(2, 3)), ["scheduled"]);
      },
    },
    {
      name: "a claim takes no task whose turn is far away at a rate that other tasks of the claim have used up",
      run: async ({ bare: store }) => {
        const groups = ["a", "b", "c"].map((groupKey) => ({ groupKey }));
        await store.limits.set(ofFunc(), each(6, 1_000));
        await insert(store, ...groups);
        assert.equal((await claim(store, grouped("w1", { limit: 3 }))).length, 3);
        // Each group has its turn in less than 200 ms. Only the first of them gets the start that the queue has left.
        await store.limits.set(ofQueue("default"), each(1, 10_000));
        const [first, ...others] = await insert(store, ...groups);
        const { claimed, startsIn } = await limitedClaim(store, grouped("w1", { limit: 9, held: 9 }));
        assert.deepEqual(
          claimed.map(({ id }) => id),
          [first],
        );
        assert.ok((startsIn?.get(first as number) ?? 0) <= 200);
        assert.deepEqual(await statuses(store, others as number[]), ["scheduled", "scheduled"]);
      },
    },
    {
      name: "a rate of each group: one group's start takes no token of another's",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(1, minute));
        await insert(store, ...tasks(2, { groupKey: "a" }), ...tasks(2, { groupKey: "b" }));
        assert.deepEqual(groupsOf(await claimAll(store, grouped())).sort(), ["a", "b"]);
      },
    },
    {
      name: "a retry takes a token too",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(1, minute));
        const [id] = await insert(store, {});
        const [task] = await claimAll(store, claimBy());
        await settle(store, outcomes.interrupted(task as TaskRecord));
        assert.equal((await claimAll(store, claimBy())).length, 0);
        assert.deepEqual(await statuses(store, [id as number]), ["scheduled"]);
      },
    },
    {
      name: "a rate that is removed lets go at once what it had put off, and nothing else",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(1, minute));
        const ids = await insert(store, ...tasks(4, { groupKey: "a" }));
        const [later] = await insert(store, { delay: minute });
        assert.equal((await claimAll(store, grouped())).length, 1);
        await store.limits.set(ofFunc(), null);
        assert.deepEqual(await statuses(store, ids), ["running", "pending", "pending", "pending"]);
        assert.deepEqual(await statuses(store, [later as number]), ["scheduled"]);
        assert.equal((await claimAll(store, grouped())).length, 3);
      },
    },
    {
      name: "a rate of a shared name and of a queue put off, and let go",
      run: async ({ bare: store }) => {
        for (const scope of [ofName("api"), ofQueue("default")]) {
          await store.limits.set(scope, each(1, minute));
          const ids = await insert(store, ...tasks(2));
          const claimed = await claimAll(store, using("w1", "api"));
          assert.equal(claimed.length, 1);
          assert.deepEqual((await statuses(store, ids)).sort(), ["running", "scheduled"]);
          await store.limits.set(scope, null);
          assert.deepEqual((await statuses(store, ids)).sort(), ["pending", "running"]);
          await completed(store, ...claimed, ...(await claimAll(store, using("w1", "api"))));
        }
      },
    },
    {
      name: "a task that two rates refuse waits for the later turn, and is let go by a change of that rate",
      run: async ({ bare: store }) => {
        await store.limits.set(ofQueue("default"), each(60, minute));
        await store.limits.set(ofFunc(), each(1, minute));
        const ids = await insert(store, ...tasks(2));
        await claimAll(store, claimBy());
        assert.deepEqual((await statuses(store, ids)).sort(), ["running", "scheduled"]);
        await store.limits.set(ofFunc(), null);
        assert.deepEqual((await statuses(store, ids)).sort(), ["pending", "running"]);
      },
    },
    {
      name: "a pause of a queue, a function or a group: its tasks stay pending until exactly it is resumed",
      run: async ({ bare: store }) => {
        const scopes = [ofQueue("default"), ofFunc(), ofGroup("a")];
        const ids = await insert(store, { groupKey: "a" });
        await insert(store, { groupKey: "b" });
        for (const scope of scopes) assert.equal(await store.limits.pause(scope), true);
        assert.equal(await store.limits.pause(scopes[0] as LimitScope), false);
        assert.deepEqual(groupsOf(await claim(store, grouped())), []);
        assert.equal(await store.limits.resume(scopes[0] as LimitScope), true);
        assert.equal(await store.limits.resume(scopes[0] as LimitScope), false);
        assert.deepEqual(groupsOf(await claim(store, grouped())), []);
        await store.limits.resume(ofFunc());
        assert.deepEqual(groupsOf(await claim(store, grouped())), ["b"]);
        assert.deepEqual(await statuses(store, ids), ["pending"]);
        await store.limits.resume(ofGroup("a"));
        assert.deepEqual(groupsOf(await claim(store, claimBy())), ["a"]);
      },
    },
    {
      name: "a throttle stops its group for its time, and says when it ends",
      run: async ({ bare: store, database, sql }) => {
        await insert(store, { groupKey: "a" }, { groupKey: "b" });
        await store.limits.throttle(ofGroup("a"), minute);
        assert.deepEqual(groupsOf(await claim(store, grouped())), ["b"]);
        const { again = 0 } = await limitedClaim(store, grouped());
        assert.ok(again > minute / 2 && again <= minute, `${again} ms`);
        await sql(`update dbq_limits set throttled_until = ${database.earlier("throttled_until", minute)}`);
        await store.limits.throttle(ofGroup("z"), 0);
        assert.deepEqual(groupsOf(await claim(store, grouped())), ["a"]);
      },
    },
    {
      name: "a limited task that goes back to the queue counts no more",
      run: async ({ bare: store }) => {
        await store.limits.set(ofName("api"), atOnce(1));
        await insert(store, {});
        const [task] = await claim(store, using("w1", "api"));
        await settle(store, outcomes.interrupted(task as TaskRecord));
        // The code no longer uses the name.
        await store.limits.set(ofFunc("other"), atOnce(1));
        assert.equal((await claim(store)).length, 1);
        await insert(store, {});
        assert.equal((await claim(store, using("w1", "api"))).length, 1);
      },
    },
    {
      name: "rows of groups that have no effect any more are deleted, and nothing else",
      run: async ({ bare: store, sql, database }) => {
        const rowsOf = async () =>
          (await sql("select group_key from dbq_limits where scope = 'group' order by group_key")).map(
            ({ group_key }) => String(group_key),
          );
        const quick = each(1_000_000, 1_000);
        await store.limits.set(ofFunc(), quick);
        await store.limits.set(ofGroup("slow"), each(1, minute));
        await store.limits.set(ofGroup("limited"), atOnce(1));
        await store.limits.pause(ofGroup("paused"));
        await store.limits.throttle(ofGroup("throttled"), minute);
        await store.limits.throttle(ofGroup("was throttled"), 1);
        const ended = database.earlier("throttled_until", 1_000);
        await sql(`update dbq_limits set throttled_until = ${ended} where group_key = 'was throttled'`);
        await insert(store, { groupKey: "quick" }, { groupKey: "slow" });
        assert.equal((await claim(store, grouped())).length, 2);
        const kept = ["limited", "paused", "slow", "throttled"];
        assert.deepEqual(await rowsOf(), [
          "limited",
          "paused",
          "quick",
          "slow",
          "throttled",
          "was throttled",
        ]);
        assert.equal(await store.limits.prune(minute, 100), 0);
        await sql("update dbq_limits set tat = tat - 2000 where group_key = 'quick'");
        assert.equal(await store.limits.prune(0, 1), 1);
        assert.equal(await store.limits.prune(0, 100), 1);
        assert.deepEqual(await rowsOf(), kept);
        // Without its own values, the group's start still counts for the function's rate.
        await store.limits.set(ofGroup("slow"), null);
        await sql("update dbq_limits set tat = tat + 3600000000 where group_key = 'slow'");
        assert.equal(await store.limits.prune(0, 100), 0);
        await insert(store, { groupKey: "quick" });
        assert.equal((await claim(store, grouped())).length, 1);
        assert.equal((await rowsOf()).includes("quick"), true);
      },
    },
    {
      name: "a rate whose state lies hours ahead, since the clock was set back, goes on and lets go what it had put off",
      run: async ({ bare: store, sql, database }) => {
        await store.limits.set(ofFunc(), each(60, minute));
        const ids = await insert(store, ...tasks(3));
        await claimAll(store, claimBy());
        assert.deepEqual(await statuses(store, ids), ["running", "scheduled", "scheduled"]);
        // As if an hour had passed before the clock was set back by it.
        await sql("update dbq_limits set tat = tat + 3600000000 where tat is not null");
        const later = database.earlier("wait_until", -60 * minute);
        await sql(`update dbq_tasks set wait_until = ${later} where status = 'scheduled'`);
        const [next] = await insert(store, {});
        assert.equal((await claim(store, claimBy())).length, 1);
        assert.deepEqual(await statuses(store, [next as number]), ["running"]);
        assert.equal((await claim(store, claimBy())).length, 0);
        await claimAll(store, claimBy());
        const waiting = (await store.get(ids)).filter(({ status }) => status === "scheduled");
        for (const { waitUntil } of waiting) assert.ok((waitUntil ?? 0) < Date.now() + minute);
      },
    },
    {
      name: "a group whose own slow rate is removed goes by that of its function at once",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(1_000, minute));
        await store.limits.set(ofGroup("a"), each(1, 60 * minute));
        await insert(store, ...tasks(2, { groupKey: "a" }));
        assert.equal((await claimAll(store, grouped())).length, 1);
        await store.limits.set(ofGroup("a"), null);
        assert.equal((await claimAll(store, grouped())).length, 1);
      },
    },
    {
      name: "a task that a rate has put off and a person gives another time keeps it, and holds no other task up",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), each(60, minute));
        const [, moved] = await insert(store, ...tasks(2));
        await claimAll(store, claimBy());
        const [before] = await store.get([moved as number]);
        assert.equal(before?.status, "scheduled");
        await store.look.edit(moved as number, { priority: 3 }, undefined);
        assert.equal((await store.limits.about(before)).putOffBy?.name, "resize");
        const waitUntil = (before.waitUntil ?? 0) + 60 * minute;
        await store.look.edit(moved as number, { waitUntil }, undefined);
        assert.equal((await store.limits.about(before)).putOffBy, null);
        const [next] = await insert(store, {});
        await claimAll(store, claimBy());
        const [after] = await store.get([next as number]);
        assert.ok(
          (after?.waitUntil ?? 0) < (before.waitUntil ?? 0) + minute,
          "the next task waits for its own turn",
        );
        await store.limits.set(ofFunc(), null);
        const [kept] = await store.get([moved as number]);
        assert.deepEqual([kept?.status, kept?.waitUntil], ["scheduled", waitUntil]);
      },
    },
    {
      name: "tells of one task what limits have to do with it: their use, by its group, and the rate that put it off",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), { concurrency: 2, rate: null });
        await store.limits.set(ofGroup("b"), atOnce(1));
        await store.limits.set(ofName("api"), each(1, minute));
        await store.limits.set(ofQueue("default"), atOnce(9));
        await store.limits.pause(ofQueue("other"));
        await insert(store, { groupKey: "a" }, { groupKey: "a" });
        const [first] = await claimAll(store, using("w1", "api"));
        const [waiting] = (await store.list({ status: ["scheduled"] }, 1, undefined)) as [TaskRecord];
        const { own, shared, uses, putOffBy } = await store.limits.about(waiting);
        const found = own.map(({ kind, name, group, running }) => [kind, name, group, running]);
        assert.deepEqual(found, [
          ["func", "resize", "", 1],
          ["queue", "default", "", 1],
        ]);
        assert.deepEqual(
          shared.map(({ name, running }) => [name, running]),
          [["api", 1]],
        );
        assert.ok((shared[0]?.nextFreeAt ?? 0) > (first?.startedAt ?? 0));
        assert.deepEqual([uses, putOffBy], [["api"], ofName("api")]);
        const ofOther = await store.limits.about({ ...waiting, groupKey: "b" });
        assert.deepEqual(
          ofOther.own.map(({ kind, group, running }) => [kind, group, running]),
          [
            ["func", "", 0],
            ["group", "b", 0],
            ["queue", "", 1],
          ],
        );
        const elsewhere = await store.limits.about({ ...waiting, func: "other", queueName: "third" });
        assert.deepEqual([elsewhere.own, elsewhere.uses], [[], undefined]);
      },
    },
    {
      name: "tells the shared names that running tasks use, and those of rates that have put tasks off",
      run: async ({ bare: store }) => {
        assert.deepEqual(await store.limits.namesInUse(), []);
        await store.limits.set(ofName("slow"), each(1, minute));
        await insert(store, ...tasks(2));
        const [first] = await claimAll(store, using("w1", "slow", "unset"));
        assert.deepEqual(await store.limits.namesInUse(), ["slow", "unset"]);
        await completed(store, first as TaskRecord);
        assert.deepEqual(await store.limits.namesInUse(), ["slow"]);
      },
    },
    {
      name: "lists the limits with what runs, waits and is paused",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(1));
        await store.limits.set(ofName("api"), each(1, minute));
        await store.limits.pause(ofQueue("default"));
        await store.limits.resume(ofQueue("default"));
        await store.limits.pause(ofGroup("x"));
        await insert(store, ...tasks(3));
        await claimAll(store, using("w1", "api"));
        const listed = await store.limits.list();
        const [func, group, name] = listed;
        assert.equal(listed.length, 3);
        assert.deepEqual([func?.kind, func?.running, func?.waiting, func?.concurrency], ["func", 1, 2, 1]);
        assert.ok(group?.pausedAt !== null && group?.group === "x");
        assert.deepEqual([name?.rate, name?.running], [{ limit: 1, per: minute, burst: 1 }, 1]);
        assert.ok((name?.nextFreeAt ?? 0) > Date.now());
      },
    },
    {
      name: "counts what waits for a limit in queues whose names differ by a space at the end",
      run: async ({ bare: store }) => {
        await store.limits.set(ofFunc(), atOnce(1));
        await insert(store, ...tasks(2), ...tasks(3, { queueName: "default " }));
        assert.equal((await store.limits.list())[0]?.waiting, 5);
      },
    },
    {
      name: "counts what each rate has put off, and since when; a task with a delay of its own is none of it",
      run: async ({ bare: store, sql, database }) => {
        const slow = each(1, 60 * minute);
        for (const scope of [ofFunc(), ofName("api"), ofQueue("mail")]) await store.limits.set(scope, slow);
        await store.limits.set(ofGroup("a"), each(2, 60 * minute));
        await store.limits.set(ofFunc("plain"), atOnce(9));
        await insert(store, ...tasks(3, { groupKey: "a" }), ...tasks(2, { groupKey: "b" }), {
          delay: minute,
        });
        await insert(store, ...tasks(4, { func: "call" }), { func: "call", delay: minute });
        await insert(store, ...tasks(3, { func: "send", queueName: "mail" }));
        const sharing = new Map([
          ["resize", { groups: true, uses: [] }],
          ["call", { groups: false, uses: ["api"] }],
        ]);
        const request = { funcs: ["resize", "call", "send"], queueNames: ["default", "mail"], sharing };
        assert.equal((await claimAll(store, claimBy("w1", request))).length, 4);
        const putOffBy = async () =>
          (await store.limits.list()).map(({ kind, name, group, putOff }) => [kind, name, group, putOff]);
        assert.deepEqual(await putOffBy(), [
          ["func", "plain", "", 0],
          ["func", "resize", "", 3],
          ["group", "resize", "a", 2],
          ["name", "api", "", 3],
          ["queue", "mail", "", 2],
        ]);
        const back = database.earlier("updated_at", 2 * minute);
        await sql(`update dbq_tasks set updated_at = ${back} where status = 'scheduled' and group_key = 'b'`);
        const now = Date.now();
        const ages = (await store.limits.list()).map((limit) => limit.putOffSince && now - limit.putOffSince);
        assert.deepEqual(
          ages.map((age) => age && age >= minute),
          [null, true, false, false, false],
        );
        const inQueues = await store.limits.putOff(100);
        assert.deepEqual(
          inQueues.map(({ queueName, count, since }) => [queueName, count, now - since >= minute]),
          [
            ["default", 6, true],
            ["mail", 2, false],
          ],
        );
        assert.deepEqual(
          (await store.limits.putOff(3)).reduce((sum, { count }) => sum + count, 0),
          3,
        );
        for (const scope of [ofFunc(), ofName("api"), ofQueue("mail"), ofGroup("a")])
          await store.limits.set(scope, null);
        assert.deepEqual(await store.limits.putOff(100), []);
      },
    },
    {
      name: "a task that was put off, and fails when no limit is about it any more, waits for its backoff and not for a rate",
      run: async ({ bare: store, sql, database }) => {
        await store.limits.set(ofFunc(), each(1, 60 * minute));
        await insert(store, ...tasks(2));
        await claimAll(store, claimBy());
        // Its turn has come, and the rate is removed before a worker claims it.
        const turn = database.earlier("wait_until", 120 * minute);
        await sql(`update dbq_tasks set wait_until = ${turn} where status = 'scheduled'`);
        assert.equal((await store.promote(10)).promoted, 1);
        await store.limits.set(ofFunc(), null);
        const claimed = await claimAll(store, claimBy());
        assert.equal(claimed.length, 1);
        await settle(store, { ...outcomes.retry(claimed[0] as TaskRecord), delay: minute });
        assert.equal((await store.count({ status: ["scheduled"] }))[0]?.count, 1);
        assert.deepEqual(await store.limits.putOff(100), []);
      },
    },
    {
      name: "claims of many workers at the same moment keep a limit",
      needs: ["several connections"],
      run: async ({ bare: store, another }) => {
        await store.limits.set(ofFunc(), atOnce(3));
        await insert(store, ...tasks(40));
        const stores = [store, await another(), await another()];
        for (const [i, one] of stores.entries()) await one.register(newWorker(`w${i}`));
        for (let round = 0; round < 10; round += 1) {
          const results = await Promise.all(
            stores.map((one, i) => one.settleAndClaim({ outcomes: [], claim: claimBy(`w${i}`) })),
          );
          const claimed = results.flatMap((result) => result.claimed);
          const counts = await store.count({ status: ["running"] });
          assert.ok((counts[0]?.count ?? 0) <= 3, `${counts[0]?.count} run`);
          await completed(store, ...claimed);
        }
      },
    },
  ],
};
