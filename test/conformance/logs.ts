import assert from "node:assert/strict";
import type { FullStore } from "../../src/features/store.ts";
import type { LogLine } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { insertOne, outcomes, recordOf, running, settle, taskIn } from "./arrange.ts";
import type { Group } from "./case.ts";

const at = 1_700_000_000_123;
const many = 1_000;

const lineOf = ({ id, generationId }: TaskRecord, message: string): LogLine => ({
  ...{ id, generationId, at, message },
});

const linesOf = (task: TaskRecord, ...messages: string[]) => messages.map((one) => lineOf(task, one));

/** All messages of a task, oldest first. */
async function messagesOf(store: FullStore, { id }: { id: number }): Promise<string[]> {
  return (await store.logs([{ id, after: 0 }], many)).map(({ message }) => message);
}

export const logsGroup: Group = {
  name: "log lines",
  cases: [
    {
      name: "the lines of running tasks are stored in their order, and are not a change of state",
      run: async ({ store }) => {
        const [a, b] = [await running(store), await running(store)];
        await store.log([lineOf(a, "one"), lineOf(b, "other"), lineOf(a, "two")], many);
        await store.log(
          Array.from({ length: 300 }, (_, n) => lineOf(a, `line ${n}`)),
          many,
        );
        const written = await store.logs([{ id: a.id, after: 0 }], many);
        const expected = ["one", "two", ...Array.from({ length: 300 }, (_, n) => `line ${n}`)];
        assert.deepEqual(
          written.map(({ message }) => message),
          expected,
        );
        const { lineId, ...first } = written[0] as (typeof written)[number];
        assert.ok(lineId > 0);
        assert.deepEqual(first, { id: a.id, generationId: a.generationId, at, message: "one" });
        assert.deepEqual(await messagesOf(store, b), ["other"]);
        assert.deepEqual(await recordOf(store, a.id), a);
        await store.log([], many);
      },
    },
    {
      name: "a line may have any characters; those that a database cannot store become U+FFFD",
      run: async ({ store }) => {
        const task = await running(store);
        const odd = 'é 🎉 \u001b[31m "quoted" \\ \n\t % $1 ? :a \u2028 ';
        await store.log(linesOf(task, odd, "a\u0000b\udfffc", ""), many);
        assert.deepEqual(await messagesOf(store, task), [odd, "a\ufffdb\ufffdc", ""]);
      },
    },
    {
      name: "of a line that another program has written, the first 2,000 characters are read",
      run: async ({ store }) => {
        const task = await running(store);
        await store.log(linesOf(task, "x".repeat(3_000_000), "🌊".repeat(2_001), "y".repeat(2_000)), many);
        assert.deepEqual(await messagesOf(store, task), [
          "x".repeat(2_000),
          "🌊".repeat(2_000),
          "y".repeat(2_000),
        ]);
      },
    },
    {
      name: "a late line of an attempt that has lost its task is left out",
      run: async ({ store }) => {
        const task = await running(store);
        await store.log(linesOf(task, "in time"), many);
        await store.log(linesOf({ ...task, generationId: task.generationId - 1 }, "stale"), many);
        await settle(store, outcomes.interrupted(task));
        await store.log(linesOf(task, "late"), many);
        await store.log(linesOf(await recordOf(store, task.id), "not running"), many);
        const again = await running(store, { func: "again" });
        await store.log([lineOf(task, "much later"), lineOf(again, "of another task")], many);
        assert.deepEqual(await messagesOf(store, task), ["in time"]);
        assert.deepEqual(await messagesOf(store, again), ["of another task"]);
        await store.log([{ id: 999_999, generationId: 1, at, message: "of no task" }], many);
        assert.deepEqual(await store.logs([{ id: 999_999, after: 0 }], many), []);
      },
    },
    {
      name: "a line of the attempt that has completed the task is stored after its outcome",
      needs: ["finished tasks that stay in place"],
      run: async ({ store }) => {
        const [completed, failed] = [await running(store), await running(store)];
        await settle(store, outcomes.completed(completed), outcomes.failed(failed));
        await store.log([lineOf(completed, "after"), lineOf(failed, "after")], many);
        assert.deepEqual(await messagesOf(store, completed), ["after"]);
        assert.deepEqual(await messagesOf(store, failed), []);
      },
    },
    {
      name: "only the newest lines of a task are kept",
      run: async ({ store }) => {
        const [long, short] = [await running(store), await running(store)];
        await store.log(linesOf(short, "a", "b"), 3);
        await store.log(linesOf(long, "1", "2", "3"), 3);
        assert.deepEqual(await messagesOf(store, long), ["1", "2", "3"]);
        await store.log([lineOf(long, "4"), lineOf(short, "c"), lineOf(long, "5")], 3);
        assert.deepEqual(await messagesOf(store, long), ["3", "4", "5"]);
        assert.deepEqual(await messagesOf(store, short), ["a", "b", "c"]);
      },
    },
    {
      name: "logs returns the lines above an id of each task, oldest first, and at most its limit",
      run: async ({ store }) => {
        const [a, b, silent] = [await running(store), await running(store), await running(store)];
        await store.log([lineOf(a, "a1"), lineOf(b, "b1"), lineOf(a, "a2"), lineOf(b, "b2")], many);
        const from = (id: number, after: number) => ({ id, after });
        const all = await store.logs([from(a.id, 0), from(b.id, 0), from(silent.id, 0)], many);
        const ids = all.map(({ lineId }) => lineId);
        assert.deepEqual(
          ids,
          [...ids].sort((x, y) => x - y),
        );
        const [a1, b1, a2] = ids as [number, number, number, number];
        const read = async (limit: number, ...asked: { id: number; after: number }[]) =>
          (await store.logs(asked, limit)).map(({ message }) => message);
        assert.deepEqual(await read(many, from(a.id, a1), from(b.id, 0)), ["b1", "a2", "b2"]);
        assert.deepEqual(await read(2, from(a.id, 0), from(b.id, b1)), ["a1", "a2"]);
        assert.deepEqual(await read(many, from(a.id, a2)), []);
        assert.deepEqual(await read(many), []);
      },
    },
    {
      name: "a line is written while another transaction has locked its task",
      needs: ["locks of single rows", "several connections"],
      run: async ({ bare, database }) => {
        const task = await running(bare);
        const tx = await database.begin();
        await bare.within(tx.handle).settle(outcomes.completed(task));
        await bare.log(linesOf(task, "meanwhile"), many);
        await tx.commit();
        assert.deepEqual(await messagesOf(bare, task), ["meanwhile"]);
      },
    },
    {
      name: "log lines are deleted with their task, and a new task has none",
      run: async ({ store }) => {
        const task = await taskIn(store, "running");
        await store.log(linesOf(task, "gone"), many);
        await store.purge({ includeRunning: true }, many, 0);
        assert.deepEqual(await messagesOf(store, task), []);
        assert.deepEqual(await messagesOf(store, { id: await insertOne(store) }), []);
      },
    },
  ],
};
