import assert from "node:assert/strict";
import type { FullStore } from "../../src/features/store.ts";
import { insertOne, newWorker, oneInEach, outcomes, recordOf, settle } from "./arrange.ts";
import type { Group } from "./case.ts";

/** Everything that a store returns about its tasks, attempts and workers. */
async function contentsOf(store: FullStore) {
  const tasks = await store.list({}, 100, undefined);
  const attempts = await Promise.all(tasks.map(({ id }) => store.attempts(id)));
  const workers = (await store.workers()).map(({ heartbeatAge: _, ...worker }) => worker);
  return { tasks, attempts, workers };
}

export const restartGroup: Group = {
  name: "restart",
  cases: [
    {
      name: "tasks, attempts and workers are unchanged after all connections have closed and one opens again",
      needs: ["restart"],
      run: async ({ store, another }) => {
        const { running } = await oneInEach(store, { meta: '{"a":1}', requestId: "r" });
        await store.register(newWorker("w2"));
        const before = await contentsOf(store);
        await store.close();

        const reopened = await another();
        assert.deepEqual(await contentsOf(reopened), before);
        assert.deepEqual(await settle(reopened, outcomes.completed(running)), [true]);
        assert.equal((await recordOf(reopened, running.id)).generationId, running.generationId + 1);
        assert.deepEqual(await settle(reopened, outcomes.completed(running)), [false]);
      },
    },
    {
      name: "a reopened database does not use the id of a deleted task again",
      needs: ["restart"],
      run: async ({ store, another }) => {
        const last = await insertOne(store);
        await store.purge({ includeRunning: true }, 10, 0);
        await store.close();
        assert.ok((await insertOne(await another())) > last);
      },
    },
    {
      name: "close may be called twice",
      run: async ({ bare }) => {
        await insertOne(bare);
        await bare.close();
        await bare.close();
      },
    },
  ],
};
