/** How many tasks wait, and for what, on each database. */
import { describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { child, race, sleep, waitForEvent } from "../../../src/features/workflows/steps.ts";
import { startedWorker, temporaryQueue } from "../../support/queue.ts";
import { end, named, until } from "./support.ts";

export function waitsCases(database: string, place: () => Promise<string>): void {
  describe(`counts of waits on ${database}`, () => {
    test("say by kind and by queue how many tasks wait and since when, and leave out tasks that have ended", async () => {
      const queue = await temporaryQueue({}, await place());
      expect(await queue.countWaits()).toEqual({ kinds: [], atLeast: false });
      await startedWorker(queue, { pollInterval: 50, concurrency: 1 });
      const held = named(() => 1, { queueName: "held" });
      const event = named(() => waitForEvent("paid"));
      const parent = named(() => child(held));
      const both = named(async () => await race([waitForEvent("called off"), sleep("long", "1h")]));
      const ended = named(async () => await race([waitForEvent("never"), sleep("short", "1.2s")]));
      const endedId = await queue.enqueueTask(ended);
      expect((await end(queue, endedId)).status).toBe("completed");
      expect(await internalsOf(queue).store.workflows.waits([endedId])).toHaveLength(1);
      await queue.enqueueTasks([[event], [event], [parent], [both]]);
      await until(async () => (await queue.countTasks()).waiting === 4);
      await new Promise((resolve) => setTimeout(resolve, 30));
      const { kinds, atLeast } = await queue.countWaits();
      expect(kinds.map(({ kind, tasks }) => [kind, tasks])).toEqual([
        ["child", 1],
        ["event", 3],
        ["time", 1],
      ]);
      for (const { oldestAge } of kinds) {
        expect(oldestAge).toBeGreaterThanOrEqual(30);
        expect(oldestAge).toBeLessThan(20_000);
      }
      expect(atLeast).toBe(false);
      const { queues } = await queue.health();
      expect(queues.map(({ name, waiting }) => [name, waiting])).toEqual([
        ["default", 4],
        ["held", 0],
      ]);
    });

    test("are lower bounds where there are more waits than are looked at, and tell the oldest", async () => {
      const queue = await temporaryQueue({}, await place());
      await startedWorker(queue, { pollInterval: 50, concurrency: 1 });
      const event = named(() => waitForEvent("paid"));
      await queue.enqueueTasks([[event], [event], [event]]);
      await until(async () => (await queue.countTasks()).waiting === 3);
      const { workflows } = internalsOf(queue).store;
      expect(await workflows.countWaits(3)).toMatchObject({ kinds: [{ tasks: 3 }], more: true });
      expect(await workflows.countWaits(4)).toMatchObject({ kinds: [{ tasks: 3 }], more: false });
      const counted = await workflows.countWaits(2);
      expect(counted.queues).toEqual([{ queueName: "default", tasks: 2 }]);
    });
  });
}
