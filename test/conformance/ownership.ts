import assert from "node:assert/strict";
import type { TaskRecord } from "../../src/task.ts";
import { oneInEach, outcomes, recordOf, running, settle, taskIn } from "./arrange.ts";
import type { Group } from "./case.ts";

export const ownershipGroup: Group = {
  name: "ownership and progress",
  cases: [
    {
      name: "taskStates returns the status and generation of the tasks that exist",
      run: async ({ store }) => {
        const records = Object.values(await oneInEach(store));
        const asked = [...records.map(({ id }) => id), 999_999];
        const states = await store.taskStates(asked);
        assert.deepEqual(
          states.sort((a, b) => a.id - b.id),
          records
            .map(({ id, generationId, status }) => ({ id, generationId, status }))
            .sort((a, b) => a.id - b.id),
        );
        assert.deepEqual(await store.taskStates([]), []);
      },
    },
    {
      name: "taskProgress returns the status, generation and progress of the tasks that exist",
      run: async ({ store }) => {
        const { running: mine, completed } = await oneInEach(store);
        await store.progress([{ ...mine, progress: 1 / 3, note: "a third" }]);
        const seen = await store.taskProgress([mine.id, completed.id, 999_999]);
        const of = ({ id, generationId, status }: TaskRecord) => ({ id, generationId, status });
        assert.deepEqual(
          seen.sort((a, b) => a.id - b.id),
          [
            { ...of(mine), progress: 1 / 3, progressNote: "a third" },
            { ...of(completed), progress: null, progressNote: null },
          ].sort((a, b) => a.id - b.id),
        );
        assert.deepEqual(await store.taskProgress([]), []);
      },
    },
    {
      name: "findEnded returns the finished tasks, and the ids that do not exist",
      run: async ({ store }) => {
        const records = await oneInEach(store);
        const asked = [999_999, ...Object.values(records).map(({ id }) => id), 777_777];
        const { tasks, gone } = await store.findEnded(asked);
        assert.deepEqual(
          tasks.sort((a, b) => a.id - b.id),
          [records.completed, records.failed, records.cancelled].sort((a, b) => a.id - b.id),
        );
        assert.deepEqual(gone.sort(), [777_777, 999_999]);
        assert.deepEqual(await store.findEnded([]), { tasks: [], gone: [] });
      },
    },
    {
      name: "heldBy returns the worker's running tasks with the generation of their claim",
      run: async ({ store }) => {
        const { running: mine } = await oneInEach(store);
        assert.ok(mine.workerId);
        assert.deepEqual(await store.heldBy(mine.workerId), [
          { id: mine.id, generationId: mine.generationId },
        ]);
        assert.deepEqual(await store.heldBy("unknown"), []);
      },
    },
    {
      name: "taskStates takes thousands of ids at once",
      run: async ({ store }) => {
        const { id } = await taskIn(store, "pending");
        const asked = Array.from({ length: 20_000 }, (_, i) => id + i);
        assert.deepEqual(await store.taskStates(asked), [{ id, generationId: 1, status: "pending" }]);
      },
    },
    {
      name: "the last progress of a running task is stored, and is not a change of state",
      run: async ({ store }) => {
        const [a, b] = [await running(store), await running(store)];
        await store.progress([
          { ...a, progress: 1, note: "one" },
          { ...a, progress: 0.25, note: null },
          { ...b, progress: -7, note: "ünder \u0007" },
        ]);
        const [first, second] = [await recordOf(store, a.id), await recordOf(store, b.id)];
        assert.deepEqual([first.progress, first.progressNote], [0.25, null]);
        assert.deepEqual([second.progress, second.progressNote], [-7, "ünder \u0007"]);
        assert.deepEqual([first.generationId, first.status], [a.generationId, "running"]);
        assert.deepEqual(await settle(store, outcomes.completed(a)), [true]);
        assert.equal((await recordOf(store, a.id)).progress, 0.25);
        await store.progress([]);
      },
    },
    {
      name: "progress may be any number, and its note may contain invalid characters",
      run: async ({ store }) => {
        const task = await running(store);
        for (const progress of [1 / 3, 1e300, -5e-324, 2 ** 53]) {
          await store.progress([{ ...task, progress, note: "a\u0000b\udfffc" }]);
          const now = await recordOf(store, task.id);
          assert.equal(now.progress, progress);
          assert.match(now.progressNote ?? "", /^a.?b.{0,3}c$/s);
        }
      },
    },
    {
      name: "fillDefaults sets maxRetries once, and only where the caller left it to the worker",
      run: async ({ store }) => {
        const [left, said] = [await running(store, { fillDefaults: 1 }), await running(store)];
        assert.equal(left.fillDefaults, 1);
        await store.fillDefaults([
          { ...left, maxRetries: 7 },
          { ...said, maxRetries: 7 },
        ]);
        const filled = await recordOf(store, left.id);
        assert.deepEqual([filled.maxRetries, filled.fillDefaults], [7, 0]);
        assert.equal((await recordOf(store, said.id)).maxRetries, 3);
        await store.fillDefaults([{ ...left, maxRetries: 0 }]);
        assert.equal((await recordOf(store, left.id)).maxRetries, 7);
        await store.fillDefaults([]);
      },
    },
    {
      name: "fillDefaults of a stale generation, or of a task that does not run, is ignored",
      run: async ({ store }) => {
        const task = await running(store, { fillDefaults: 1 });
        await store.fillDefaults([{ ...task, generationId: task.generationId - 1, maxRetries: 0 }]);
        assert.deepEqual(await recordOf(store, task.id), task);
        await settle(store, outcomes.interrupted(task));
        const pending = await recordOf(store, task.id);
        await store.fillDefaults([
          { ...task, maxRetries: 0 },
          { ...pending, maxRetries: 0 },
        ]);
        assert.deepEqual(await recordOf(store, task.id), pending);
        assert.equal(pending.fillDefaults, 1);
      },
    },
    {
      name: "progress of a stale generation, or of a task that does not run, is ignored",
      run: async ({ store }) => {
        const task = await running(store);
        await store.progress([{ ...task, generationId: task.generationId - 1, progress: 1, note: null }]);
        assert.deepEqual(await recordOf(store, task.id), task);
        await settle(store, outcomes.snoozed(task));
        const snoozed = await recordOf(store, task.id);
        await store.progress([
          { ...task, progress: 1, note: null },
          { ...snoozed, progress: 1, note: null },
          { id: 999_999, generationId: 1, progress: 1, note: null },
        ]);
        assert.deepEqual(await recordOf(store, task.id), snoozed);
      },
    },
  ],
};
