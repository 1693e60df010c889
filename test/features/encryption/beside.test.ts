/** Encryption beside other features: a move, a drain, agents' results of old, and an app that has no option. */
import { expect, test } from "vitest";
import { Drain } from "../../../src/features/drain/index.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { moveQueue, type Queue, remoteTask, task } from "../../../src/index.ts";
import { deferred, startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { columnsWith, newKey, onSqlite } from "./support.ts";

const marker = "Zebra4111secret";
const soon = { timeout: "20s" } as const;

test("a move carries encrypted tasks and schedules as they are, and they run in the new database", async () => {
  const [from, to] = [await onSqlite(), await onSqlite()];
  const encryption = { keys: [newKey("a")] };
  const source = await temporaryQueue({ encryption }, from.target);
  const target = await temporaryQueue({ encryption }, to.target);
  const echo = task(uniqueName(), async (text: string) => `${text}!`);
  const id = await source.enqueueTask(echo, marker);
  await source.schedule("nightly", { cron: "0 3 * * *" }, echo, marker);
  await moveQueue(source, target);
  expect(await columnsWith(to, marker)).toEqual([]);
  expect(await target.getSchedule("nightly")).toMatchObject({ args: [marker], problem: null });
  await startedWorker(target);
  expect(await target.awaitTaskResult(id, soon)).toBe(`${marker}!`);
});

test("a drain with the key sends the arguments in clear, and one without it leaves the tasks in the queue", async () => {
  const raw = await onSqlite();
  const keyed = await temporaryQueue({ encryption: { keys: [newKey("a")] } }, raw.target);
  const id = await keyed.enqueueTask(remoteTask<(text: string) => void>(uniqueName()), marker);
  const sent: unknown[] = [];
  const drainTo = async (queue: Queue) => {
    const refused = deferred<unknown>();
    const done = deferred();
    const drain = new Drain(queue, {
      to: {
        name: "a list",
        limits: { count: 10, bytes: 100_000 },
        send: async (messages) => {
          sent.push(...messages.map(({ data }) => data));
          done.resolve();
          return messages.map(() => "sent" as const);
        },
        close: async () => undefined,
      },
    });
    drain.on("refused", (_task, error) => refused.resolve(error));
    await drain.start();
    return { drain, refused, done };
  };
  const keyless = await drainTo(await temporaryQueue({}, raw.target));
  expect(await keyless.refused.promise).toMatchObject({ code: "DBQ_KEY_MISSING" });
  await keyless.drain.stop();
  expect(await keyed.getTask(id)).toMatchObject({ status: "scheduled", retryCount: 0, error: null });
  await internalsOf(keyed).store.look.edit(id, { waitUntil: null }, undefined);
  const withKey = await drainTo(keyed);
  await withKey.done.promise;
  await withKey.drain.stop();
  expect(sent).toMatchObject([{ args: [marker] }]);
});
