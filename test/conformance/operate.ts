import assert from "node:assert/strict";
import { DuplicateTaskError } from "../../src/errors.ts";
import { finishedStatuses, isFinished, type TaskStatus } from "../../src/task.ts";
import {
  errorText,
  insertOne,
  minute,
  outcomes,
  reachedStatuses,
  recordOf,
  running,
  settle,
  taskIn,
} from "./arrange.ts";
import type { Case, Group } from "./case.ts";

const why = JSON.stringify({ name: "TaskCancelled", message: "not needed" });

function cancels(status: TaskStatus): Case {
  return {
    name: `cancel ends a ${status} task`,
    run: async ({ store }) => {
      const task = await taskIn(store, status, { uniqueKey: "k" });
      const operated = await store.cancel(task.id, why);
      assert.ok(operated?.changed);
      const { record } = operated;
      assert.deepEqual(record, await recordOf(store, task.id));
      assert.deepEqual([record.status, record.error], ["cancelled", why]);
      assert.equal(record.generationId, task.generationId + 1);
      assert.equal(record.finishedAt, record.updatedAt);
      assert.equal(record.retryCount, task.retryCount);
      const attempts = await store.attempts(task.id);
      assert.deepEqual(
        attempts.map(({ outcome, generationId }) => ({ outcome, generationId })),
        status === "running" ? [{ outcome: "cancelled", generationId: task.generationId }] : [],
      );
      assert.ok(await insertOne(store, { uniqueKey: "k" }), "the key of the cancelled task is free");
      if (status === "running") assert.deepEqual(await settle(store, outcomes.completed(task)), [false]);
    },
  };
}

function leaves(status: TaskStatus): Case {
  return {
    name: `cancel leaves a ${status} task as it is`,
    run: async ({ store }) => {
      const task = await taskIn(store, status);
      assert.deepEqual(await store.cancel(task.id, why), { record: task, changed: false });
      assert.deepEqual(await recordOf(store, task.id), task);
    },
  };
}

function retries(status: TaskStatus): Case {
  return {
    name: `retry makes a ${status} task pending at once, with a retry count of 0`,
    run: async ({ store }) => {
      const task = await taskIn(store, status, { uniqueKey: "k", args: "[1]" });
      const operated = await store.retry(task.id);
      assert.ok(operated?.changed);
      const { record } = operated;
      assert.deepEqual(record, await recordOf(store, task.id));
      const { updatedAt, ...rest } = record;
      assert.deepEqual(
        { ...task, ...rest },
        {
          ...task,
          ...rest,
          status: "pending",
          generationId: task.generationId + 1,
          args: "[1]",
          retryCount: 0,
          result: null,
          error: null,
          waitUntil: null,
          startedAt: null,
          finishedAt: null,
        },
      );
      const again = await store.insert(
        [{ ...task, delay: null, waitUntil: null, expiresIn: null }],
        "report",
      );
      assert.deepEqual(again, [{ id: task.id, duplicate: true }], "the retried task holds its key again");
    },
  };
}

export const operateGroup: Group = {
  name: "cancel and retry",
  cases: [
    ...reachedStatuses.filter((status) => !isFinished(status)).map(cancels),
    ...finishedStatuses.map(leaves),
    ...[...finishedStatuses, "scheduled" as const].map(retries),
    {
      name: "retry leaves a pending or running task as it is",
      run: async ({ store }) => {
        for (const status of ["running", "pending"] as const) {
          const task = await taskIn(store, status);
          assert.deepEqual(await store.retry(task.id), { record: task, changed: false });
        }
      },
    },
    {
      name: "cancel and retry return undefined for a task that does not exist",
      run: async ({ store }) => {
        assert.equal(await store.cancel(999_999, why), undefined);
        assert.equal(await store.retry(999_999), undefined);
      },
    },
    {
      name: "retry resets the retry count and keeps the attempts",
      run: async ({ store }) => {
        const task = await running(store);
        await settle(store, outcomes.retry(task));
        assert.equal((await recordOf(store, task.id)).retryCount, 1);
        assert.equal((await store.retry(task.id))?.record.retryCount, 0);
        assert.equal((await store.attempts(task.id)).length, 1);
      },
    },
    {
      name: "retry of a task whose key is taken is refused, and changes nothing",
      run: async ({ store }) => {
        const ended = await taskIn(store, "failed", { uniqueKey: "k" });
        const holder = await insertOne(store, { uniqueKey: "k", delay: minute });
        await assert.rejects(store.retry(ended.id), (error) => {
          assert.ok(error instanceof DuplicateTaskError);
          assert.equal(error.taskId, holder);
          return true;
        });
        assert.deepEqual(await recordOf(store, ended.id), ended);
        await store.cancel(holder, why);
        assert.equal((await store.retry(ended.id))?.changed, true);
      },
    },
    {
      name: "the reason of a cancel replaces the error of an earlier attempt",
      run: async ({ store }) => {
        const task = await running(store);
        await settle(store, outcomes.retry(task));
        assert.equal((await recordOf(store, task.id)).error, errorText);
        assert.equal((await store.cancel(task.id, why))?.record.error, why);
      },
    },
  ],
};
