import assert from "node:assert/strict";
import type { Outcome, OutcomeKind } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import {
  claim,
  claimBy,
  errorText,
  failedAttempt,
  insertOne,
  minute,
  newTask,
  outcomes,
  recordOf,
  running,
  settle,
} from "./arrange.ts";
import type { Case, Group } from "./case.ts";

/** The claimed task after an accepted outcome of each kind. Times are checked separately. */
const leaves: Readonly<Record<OutcomeKind, Partial<TaskRecord>>> = {
  completed: { status: "completed", result: '{"bytes":123}', error: null },
  failed: { status: "failed", result: null, error: errorText },
  retry: { status: "scheduled", error: errorText, retryCount: 1 },
  cancelled: { status: "cancelled", result: null, error: errorText },
  snoozed: { status: "scheduled", retryCount: 0 },
  interrupted: { status: "pending", retryCount: 0 },
};

const kinds = Object.keys(leaves) as OutcomeKind[];
const ends = new Set<OutcomeKind>(["completed", "failed", "cancelled"]);
const waits = new Set<OutcomeKind>(["retry", "snoozed"]);
const recorded = new Set<OutcomeKind>(["failed", "retry", "cancelled"]);

function withoutTimes({ updatedAt, finishedAt, waitUntil, ...rest }: TaskRecord) {
  return rest;
}

function accepted(kind: OutcomeKind): Case {
  return {
    name: `${kind} is accepted once, and the row shows it`,
    run: async ({ store }) => {
      const task = await running(store, { uniqueKey: "k", requestId: "r" });
      const outcome: Outcome = outcomes[kind](task);
      assert.deepEqual(await settle(store, outcome), [true]);

      const now = await recordOf(store, task.id);
      const moved = { ...task, generationId: task.generationId + 1, ...leaves[kind] };
      assert.deepEqual(withoutTimes(now), withoutTimes(moved));
      assert.ok(now.updatedAt >= task.updatedAt);
      assert.equal(now.finishedAt, ends.has(kind) ? now.updatedAt : null);
      if (waits.has(kind)) assert.ok(Math.abs((now.waitUntil ?? 0) - now.updatedAt - minute) < 1_000);
      else assert.equal(now.waitUntil, null);

      assert.deepEqual(await settle(store, outcome), [false]);
      assert.equal((await store.attempts(task.id)).length, recorded.has(kind) ? 1 : 0);
    },
  };
}

function refused(kind: OutcomeKind): Case {
  return {
    name: `${kind} of a stale generation changes nothing and records no attempt`,
    run: async ({ store }) => {
      const task = await running(store);
      for (const generationId of [task.generationId - 1, task.generationId + 1, 0]) {
        assert.deepEqual(await settle(store, outcomes[kind]({ ...task, generationId })), [false]);
      }
      assert.deepEqual(await settle(store, outcomes[kind]({ ...task, id: task.id + 1_000 })), [false]);
      assert.deepEqual(await recordOf(store, task.id), task);
      assert.deepEqual(await store.attempts(task.id), []);
      assert.deepEqual(await store.attempts(task.id + 1_000), []);
    },
  };
}

export const settleGroup: Group = {
  name: "settle",
  cases: [
    ...kinds.map(accepted),
    ...kinds.map(refused),
    {
      name: "settle answers each of many outcomes in its position, also two for the same task",
      run: async ({ store }) => {
        const [a, b, c] = [await running(store), await running(store), await running(store)];
        const gone = { ...b, generationId: 1 };
        const settled = await settle(
          store,
          outcomes.completed(a),
          outcomes.retry(gone),
          outcomes.snoozed(c),
          outcomes.failed(a),
        );
        assert.deepEqual(settled, [true, false, true, false]);
        const statuses = await Promise.all(
          [a, b, c].map(async ({ id }) => (await recordOf(store, id)).status),
        );
        assert.deepEqual(statuses, ["completed", "running", "scheduled"]);
      },
    },
    {
      name: "of two outcomes of one kind for one task, the first is accepted",
      run: async ({ store }) => {
        for (const kind of kinds) {
          const [task, other] = [await running(store, { func: kind }), await running(store, { func: kind })];
          const outcome = outcomes[kind](task);
          assert.deepEqual(await settle(store, outcome, outcomes[kind](other), outcome), [true, true, false]);
          assert.equal((await store.attempts(task.id)).length, recorded.has(kind) ? 1 : 0);
        }
      },
    },
    {
      name: "a call with nothing to settle and nothing to claim returns nothing",
      run: async ({ store }) => {
        const { settled, claimed } = await store.settleAndClaim({ outcomes: [], claim: undefined });
        assert.deepEqual({ settled, claimed }, { settled: [], claimed: [] });
      },
    },
    {
      name: "a result may be absent, and is kept byte for byte",
      run: async ({ store }) => {
        for (const result of [null, "null", '""', JSON.stringify(["\u0000\ud800😀", 10.5, "10.5"])]) {
          const task = await running(store);
          await settle(store, { ...outcomes.completed(task), result });
          assert.equal((await recordOf(store, task.id)).result, result);
        }
      },
    },
    {
      name: "an attempt keeps a timeout, an error without a stack, and long text",
      run: async ({ store }) => {
        const task = await running(store);
        const attempt = {
          outcome: "timeout",
          errorName: "TimeoutError",
          errorMessage: `ünder\n${"m".repeat(10_000)}`,
          errorStack: null,
          errorCause: null,
        } as const;
        await settle(store, { ...outcomes.retry(task), attempt });
        const [kept] = await store.attempts(task.id);
        assert.deepEqual(kept && { ...attempt, ...kept }, kept);
      },
    },
    {
      name: "an attempt is kept when its error text contains invalid characters, with the rest of the text",
      run: async ({ store }) => {
        const task = await running(store);
        const text = "one\u0000two\ud800three";
        const attempt = { ...failedAttempt, errorName: text, errorMessage: text, errorStack: text };
        assert.deepEqual(await settle(store, { ...outcomes.retry(task), attempt }), [true]);
        const [kept] = await store.attempts(task.id);
        for (const said of [kept?.errorName, kept?.errorMessage, kept?.errorStack])
          assert.match(said ?? "", /^one.?two.{0,3}three$/s);
      },
    },
    {
      name: "a task that fails, is retried and completes keeps its retry count and loses its error",
      run: async ({ store }) => {
        const first = await running(store);
        await settle(store, { ...outcomes.retry(first), delay: 0 });
        assert.equal((await recordOf(store, first.id)).status, "scheduled");
        assert.deepEqual((await store.promote(10)).promoted, 1);
        const [second] = await claim(store);
        assert.deepEqual([second?.retryCount, second?.error], [1, errorText]);
        await settle(store, outcomes.completed(second as TaskRecord));
        const done = await recordOf(store, first.id);
        assert.deepEqual([done.error, done.retryCount], [null, 1]);
        assert.equal(done.generationId, first.generationId + 4, "settled, promoted, claimed, settled");
        assert.equal((await store.attempts(first.id)).length, 1);
      },
    },
    {
      name: "a snooze and a hand-back keep the last error and do not charge a retry",
      run: async ({ store }) => {
        const first = await running(store);
        await settle(store, { ...outcomes.retry(first), delay: 0 });
        await store.promote(10);
        const [second] = (await claim(store)) as [TaskRecord];
        await settle(store, outcomes.interrupted(second));
        const [third] = (await claim(store)) as [TaskRecord];
        assert.deepEqual([third.retryCount, third.error, third.waitUntil], [1, errorText, null]);
        await settle(store, outcomes.snoozed(third));
        const { retryCount, error, status } = await recordOf(store, first.id);
        assert.deepEqual([status, retryCount, error], ["scheduled", 1, errorText]);
      },
    },
    {
      name: "a task keeps its unique key through a retry, a snooze and a hand-back",
      run: async ({ store }) => {
        for (const kind of ["retry", "snoozed", "interrupted"] as const) {
          const task = await running(store, { uniqueKey: kind, func: kind });
          await settle(store, outcomes[kind](task));
          const [again] = await store.insert([newTask({ uniqueKey: kind })], "report");
          assert.deepEqual(again, { id: task.id, duplicate: true });
        }
        assert.ok(await insertOne(store, { uniqueKey: "free" }));
      },
    },
    {
      name: "an outcome whose claim a server has lost ends no task that the same cycle claims again",
      run: async ({ store, sql }) => {
        const task = await running(store);
        // What is left of the claim after a crash that has lost the last commits: its generation is given again.
        await sql(
          `update dbq_tasks set status = 'pending', worker_id = null, started_at = null, generation_id = generation_id - 1`,
        );
        const outcome = outcomes.completed(task);
        const { settled, claimed, refused } = await store.settleAndClaim({
          outcomes: [outcome],
          claim: claimBy(),
        });
        assert.deepEqual([settled, refused], [[false], undefined]);
        assert.deepEqual(
          claimed.map(({ id, generationId, status }) => [id, generationId, status]),
          [[task.id, task.generationId, "running"]],
        );
        assert.equal((await recordOf(store, task.id)).status, "running");
        assert.deepEqual(await settle(store, outcome), [true]);
      },
    },
  ],
};
