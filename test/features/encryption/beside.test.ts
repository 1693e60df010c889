/** Encryption beside other features: a move, a drain, agents' results of old, and an app that has no option. */
import { expect, onTestFinished, test } from "vitest";
import { Agent } from "../../../src/features/agent.ts";
import { Drain } from "../../../src/features/drain/index.ts";
import { addAgent, Manager } from "../../../src/features/manager/index.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { moveQueue, type Queue, remoteTask, task } from "../../../src/index.ts";
import { deferred, startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { columnsWith, newKey, onSqlite } from "./support.ts";

const marker = "Zebra4111secret";
const soon = { timeout: "20s" } as const;
const soonAfter = { timeout: 20_000 };

const joined = task(uniqueName(), async () => "joined");

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

test("a Manager without the key hands a task back and says so, and a worker with the key runs it", async () => {
  const raw = await onSqlite();
  const keyed = await temporaryQueue({ encryption: { keys: [newKey("a")] } }, raw.target);
  const lacking = await temporaryQueue({}, raw.target);
  const echo = task(uniqueName(), async (text: string) => `${text}!`);
  const { token } = await addAgent(lacking, "a", { funcs: [echo.taskName, joined.taskName] });
  const manager = new Manager(lacking, { listen: "127.0.0.1:0", pollInterval: 50 });
  const told: unknown[] = [];
  manager.on("error", (error) => void told.push(error));
  await manager.start();
  onTestFinished(() => manager.stop());
  const agent = new Agent({ managers: [manager.url as string], token, tasks: [echo, joined] });
  await agent.start();
  onTestFinished(() => agent.stop());
  const id = await keyed.enqueueTask(echo, marker);
  await expect.poll(() => told, soonAfter).toMatchObject([{ code: "DBQ_KEY_MISSING", keyId: "a" }]);
  // Meanwhile the agent asks many times.
  for (let i = 0; i < 5; i += 1) await lacking.awaitTaskResult(await lacking.enqueueTask(joined), soon);
  expect(await keyed.getTask(id)).toMatchObject({ status: "pending", retryCount: 0, generationId: 3 });
  await startedWorker(keyed, { tasks: [echo] });
  expect(await keyed.awaitTaskResult(id, soon)).toBe(`${marker}!`);
  expect(told).toHaveLength(1);
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
