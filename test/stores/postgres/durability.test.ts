/** Which commits wait for the server's disk: `openQueue(url, { durability })`. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openQueue, type QueueOptions, task } from "../../../src/index.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { startedWorker, temporaryQueue } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const server = await postgresServer();

const succeeds = task("succeeds", async () => 1);
const fails = task(
  "fails",
  async () => {
    throw new Error("no");
  },
  { maxRetries: 1, backoff: () => 0 },
);

describe.skipIf(isMissing(server))("durability on Postgres", () => {
  let schema: Schema;

  /** A trigger that runs right before a commit notes its setting. */
  beforeAll(async () => {
    schema = await newSchema();
    await (await openQueue(schema.url)).close();
    await schema.client.query(`
      create table commits (func text, status text, setting text);
      create function note_commit() returns trigger language plpgsql as $$ begin
        insert into commits values (new.func, new.status, current_setting('synchronous_commit')); return null; end $$;
      create constraint trigger notes_commit after insert or update on dbq_tasks
        deferrable initially deferred for each row execute function note_commit();`);
  });
  afterAll(() => schema?.drop());

  /** The commits of other tests do not wait. One connection: what a cycle sets must not outlive it. */
  const temporaryQueueOn = (options: QueueOptions) =>
    temporaryQueue(
      { poolSize: 1, ...options },
      schema.url.replace("synchronous_commit%3Doff", "synchronous_commit%3Don"),
    );

  /** Runs a task of each kind, and one that is cancelled; the settings of all commits. */
  async function settingsOfCommits(options: QueueOptions): Promise<Record<string, string[]>> {
    await schema.client.query("delete from commits");
    const queue = await temporaryQueueOn(options);
    const worker = await startedWorker(queue);
    for (let n = 0; n < 3; n += 1) {
      await queue.awaitTaskCompletion(await queue.enqueueTask(succeeds), { timeout: "20s" });
      await queue.awaitTaskCompletion(await queue.enqueueTask(fails), { timeout: "20s" });
    }
    await worker.stop();
    await queue.cancelTask(await queue.enqueueTask(succeeds));
    const { rows } = await schema.client.query<{ status: string; settings: string[] }>(
      "select status, array_agg(distinct setting) as settings from commits group by status order by status",
    );
    return Object.fromEntries(rows.map(({ status, settings }) => [status, settings]));
  }

  it("relaxed: claims and settlements do not wait for the disk, and all else does", async () => {
    expect(await settingsOfCommits({ durability: "relaxed" })).toEqual({
      pending: ["on"],
      running: ["off"],
      completed: ["off"],
      scheduled: ["off"],
      failed: ["off"],
      cancelled: ["on"],
    });
  });

  it("by default each commit waits for the disk", async () => {
    const settings = await settingsOfCommits({});
    expect(new Set(Object.values(settings).flat())).toEqual(new Set(["on"]));
  });

  it("refuses another value by its name", async () => {
    const opening = temporaryQueueOn({ durability: "none" as "full" });
    await expect(opening).rejects.toThrow('openQueue: durability: expected "full" or "relaxed", got "none"');
  });
});
