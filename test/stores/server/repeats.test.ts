/**
 * Operations that are repeated after a lost answer although no generation fences them: their first effect may be over
 * by then.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { type Queue, remoteTask } from "../../../src/index.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { afterAnswers } from "./stores.ts";

const server = await postgresServer();
let schema: Schema;
let queue: Queue;

beforeAll(async () => {
  if (!isMissing(server)) schema = await newSchema();
});
afterAll(() => schema?.drop());

/** Loses the answer to the next COMMIT; `meanwhile` runs before the caller notices. */
const loseCommit = (meanwhile: () => Promise<unknown>) => loseAnswer((text) => text === "commit", meanwhile);

/** Loses the answer to the next statement of which `isIt` is true. */
function loseAnswer(isIt: (text: string) => boolean, meanwhile: () => Promise<unknown>): void {
  let lost = false;
  afterAnswers(async ({ text }) => {
    if (lost || !isIt(text)) return;
    lost = true;
    await meanwhile();
    throw new Error("Connection terminated unexpectedly");
  });
}

/** A worker claims and completes everything. */
const completed = `update dbq_tasks set status = 'completed', generation_id = generation_id + 2, finished_at = now()
  where status = 'pending'`;

describe.skipIf(isMissing(server))("a lost answer to a COMMIT on Postgres", () => {
  beforeEach(async () => {
    queue = await temporaryQueue({}, schema.url);
    await schema.client.query(emptied);
  });

  it("an enqueue that must not be a duplicate is not refused because of its own task", async () => {
    loseCommit(async () => undefined);
    const once = remoteTask("f").with({ uniqueKey: "k", onDuplicate: "error" });
    const answer = await queue.enqueueTask(once).catch(({ code }: { code: string }) => code);
    expect(await queue.listTasks()).toHaveLength(1);
    expect(answer).not.toBe("DBQ_DUPLICATE");
  });

  it("an enqueue with a key whose task has completed meanwhile leaves one task", async () => {
    loseCommit(() => schema.client.query(completed));
    await queue.enqueueTask(remoteTask("f").with({ uniqueKey: "k" })).catch(() => undefined);
    expect(await queue.countTasks()).toMatchObject({ completed: 1, pending: 0 });
  });

  it("a retry whose task has completed meanwhile runs once more, not twice", async () => {
    const id = await queue.enqueueTask(remoteTask("f"));
    await queue.cancelTask(id);
    loseCommit(() => schema.client.query(completed));
    await queue.retryTask(id).catch(() => undefined);
    expect(await queue.countTasks()).toMatchObject({ completed: 1, pending: 0 });
  });

  it("log lines are stored once", async () => {
    const id = await queue.enqueueTask(remoteTask("f"));
    await schema.client.query("update dbq_tasks set status = 'running', generation_id = 2");
    loseCommit(async () => undefined);
    const lines = ["one", "two"].map((message) => ({ id, generationId: 2, at: Date.now(), message }));
    await internalsOf(queue).store.log(lines, 10);
    expect((await queue.listLogs(id)).map(({ message }) => message)).toEqual(["one", "two"]);
  });

  it("a step is stored once, and is stored although the answer to its statement was lost", async () => {
    const { workflows } = internalsOf(queue).store;
    const id = await queue.enqueueTask(remoteTask("f"));
    await schema.client.query("update dbq_tasks set status = 'running', generation_id = 2");
    const version = { id, generationId: 2 };
    const stored = (name: string, seq: number) =>
      workflows.write(version, [{ name, seq, value: "1", error: null, startedAt: null }], []);
    const isInsert = (text: string) => text.includes("insert into dbq_steps");
    loseAnswer(isInsert, async () => undefined);
    expect(await stored("first", 1)).toEqual([]);
    loseAnswer(isInsert, async () => undefined);
    expect(await stored("second", 2)).toEqual([]);
    expect((await workflows.steps(id)).map(({ name }) => name)).toEqual(["first", "second"]);
  });
});
