/** Workflows on Postgres and on MySQL or MariaDB. */
import { afterAll, describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { step, waitForEvent } from "../../../src/features/workflows/steps.ts";
import { moveQueue, openQueue, task, Worker } from "../../../src/index.ts";
import { prepare } from "../../../src/queue/enqueue.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { temporaryQueue, uniqueName, urlForTest } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { workflowCases } from "./cases.ts";
import { manyChildrenCases } from "./many-children-cases.ts";
import { undoCases } from "./undo-cases.ts";
import { waitsCases } from "./waits-cases.ts";

/** One database for all tests of this file, emptied for each: creating the tables takes longer than most tests. */
function emptiedForTest(make: () => Promise<Database>): () => Promise<string> {
  let home: Promise<Database> | undefined;
  let last: string | undefined;
  afterAll(async () => await (await home)?.drop());
  return async () => {
    const { currentTestName } = expect.getState();
    // A second database of one test is another one.
    if (currentTestName === last) return await urlForTest(make);
    last = currentTestName;
    home ??= migrated(make);
    const { url, client } = await home;
    await client.query(emptied);
    return url;
  };
}

async function migrated(make: () => Promise<Database>): Promise<Database> {
  const made = await make();
  const queue = await openQueue(made.url);
  await queue.close();
  return made;
}

interface Database {
  url: string;
  client: { query(text: string): Promise<unknown> };
  drop(): Promise<void>;
}

describe.skipIf(isMissing(await postgresServer()))("on a server", () => {
  const place = emptiedForTest(newSchema);
  workflowCases("Postgres", place);
  undoCases("Postgres", place);
  waitsCases("Postgres", place);
  manyChildrenCases("Postgres", place);
});

describe.skipIf(isMissing(await mysqlServer()))("on a server", () => {
  const place = emptiedForTest(newDatabase);
  workflowCases("MySQL or MariaDB", place);
  undoCases("MySQL or MariaDB", place);
  waitsCases("MySQL or MariaDB", place);
  manyChildrenCases("MySQL or MariaDB", place);
});

describe.each([
  ["Postgres", await postgresServer(), newSchema],
  ["MySQL or MariaDB", await mysqlServer(), newDatabase],
] as const)("a step on %s", (_, server, make) => {
  test.skipIf(isMissing(server)).each(["the first step", "a later step"])(
    "%s waits for a transaction that ends its task, and is not stored when that is committed",
    async (which) => {
      const queue = await temporaryQueue({}, await urlForTest(make));
      const { store } = internalsOf(queue);
      const hangs = task(uniqueName("hangs"), async () => {
        if (which === "a later step") await step("before", () => 1);
        await new Promise<never>(() => undefined);
      });
      const id = await queue.enqueueTask(hangs);
      const worker = new Worker(queue, { concurrency: 1 });
      await worker.start();
      const isUnderWay = async () => {
        const before = (await store.workflows.steps(id)).length;
        return (
          (await queue.getTask(id))?.status === "running" && before === (which === "a later step" ? 1 : 0)
        );
      };
      while (!(await isUnderWay())) await new Promise((resolve) => setTimeout(resolve, 5));
      const [record] = await store.get([id]);
      const version = { id, generationId: record?.generationId ?? 0, workerId: record?.workerId ?? null };
      const one = { name: "late", seq: 2, value: "1", error: null, startedAt: null };
      let answer: unknown = "none yet";
      let stored: Promise<void> | undefined;
      await queue.transaction(async (tx: unknown) => {
        await store.within(tx).settle({ ...version, startedAt: null, kind: "completed", result: null });
        stored = store.workflows.write(version, [one], []).then((given) => {
          answer = given;
        });
        await new Promise((resolve) => setTimeout(resolve, 200));
        expect(answer).toBe("none yet");
      });
      await stored;
      expect(answer).toBeUndefined();
      expect((await store.workflows.steps(id)).map(({ name }) => name)).not.toContain("late");
      await worker.stop({ grace: 0 });
    },
  );
});

describe.each([
  ["Postgres", await postgresServer(), newSchema],
  ["MySQL or MariaDB", await mysqlServer(), newDatabase],
] as const)("starts of children on %s", (_, server, make) => {
  test.skipIf(isMissing(server))(
    "are undone when the transaction is committed that has ended their parent meanwhile",
    async () => {
      const queue = await temporaryQueue({}, await urlForTest(make));
      const { store } = internalsOf(queue);
      const leaf = task(uniqueName("leaf"), () => 1);
      const hangs = task(uniqueName("hangs"), async () => {
        await step("before", () => 1);
        await new Promise<never>(() => undefined);
      });
      const id = await queue.enqueueTask(hangs);
      const worker = new Worker(queue, { concurrency: 1, tasks: [hangs] });
      await worker.start();
      while ((await store.workflows.steps(id)).length === 0)
        await new Promise((resolve) => setTimeout(resolve, 5));
      const [record] = await store.get([id]);
      const version = { id, generationId: record?.generationId ?? 0, workerId: record?.workerId ?? null };
      const start = { name: "leaf", seq: 2, task: prepare(leaf, []).task };
      let answer: unknown = "none yet";
      let started: Promise<void> | undefined;
      await queue.transaction(async (tx: unknown) => {
        await store.within(tx).settle({ ...version, startedAt: null, kind: "completed", result: null });
        started = store.workflows.write(version, [], [start]).then((given) => {
          answer = given;
        });
        await new Promise((resolve) => setTimeout(resolve, 200));
        expect(answer).toBe("none yet");
      });
      await started;
      expect(answer).toBeUndefined();
      expect(await queue.countTasks()).toMatchObject({ pending: 0, completed: 1 });
      expect((await store.workflows.steps(id)).map(({ name }) => name)).toEqual(["before"]);
      await worker.stop({ grace: 0 });
    },
  );
});

const steps: string[] = [];
const moving = task("moving", async () => {
  const before = await step("before", () => steps.push("before"));
  return [before, await waitForEvent("early"), await waitForEvent("late")];
});

describe.skipIf(isMissing(await postgresServer()))("a move", () => {
  test("takes steps, waits and events along, and the old database takes no event any more", async () => {
    const old = await temporaryQueue();
    const next = await temporaryQueue({}, await urlForTest(newSchema));
    await old.emitEvent("early", { n: 1 });
    const id = await old.enqueueTask(moving);
    const worker = new Worker(old, { concurrency: 1 });
    await worker.start();
    while ((await old.getTask(id))?.status !== "waiting")
      await new Promise((resolve) => setTimeout(resolve, 5));
    await worker.stop();
    await moveQueue(old, next);
    await expect(old.emitEvent("late", 2)).rejects.toThrow("move");
    expect((await next.getRun(id))?.waits).toEqual([{ kind: "event", target: "late", deadline: null }]);
    const heir = new Worker(next, { concurrency: 1 });
    await heir.start();
    await next.emitEvent("late", 2);
    expect(await next.awaitTaskResult(id, { timeout: 20_000 })).toEqual([1, { n: 1 }, 2]);
    expect(steps).toEqual(["before"]);
    await heir.stop();
  });
});
