/** Postgres has done what it was asked, or undone it, and its answer does not come: the rows say what is done about it. */
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { OutcomeUnknownError } from "../../src/errors.ts";
import type { Store } from "../../src/store.ts";
import { claimBy, insert, newTask, newWorker } from "../conformance/arrange.ts";
import { emptied } from "../conformance/server-stores.ts";
import { newSchema, postgresServer, type Schema } from "../support/postgres.ts";
import { isMissing } from "../support/server.ts";
import { afterAnswers, openedPostgres } from "./server-stores.ts";

const server = await postgresServer();
let schema: Schema;
let store: Store;

beforeAll(async () => {
  if (!isMissing(server)) schema = await newSchema();
});
afterAll(() => schema?.drop());

/** The first answer to such a question does not come: what it says has happened. */
function lose(which: RegExp): void {
  let lost = false;
  afterAnswers(({ text }) => {
    if (lost || !which.test(text)) return;
    lost = true;
    throw new Error("Connection terminated unexpectedly");
  });
}

const tasks = async () => await store.list({}, 100, undefined);

describe.skipIf(isMissing(server))("without an answer of Postgres", () => {
  beforeEach(async () => {
    store = await openedPostgres(schema.url);
    await schema.client.query(emptied);
  });

  it("an enqueue without a key says that nobody knows, and is not made twice", async () => {
    lose(/insert into dbq_tasks/);
    await expect(store.insert([newTask()], "report")).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await tasks()).toHaveLength(1);
  });

  it("an enqueue whose keys tell is made again, and finds what it made", async () => {
    lose(/^commit$/);
    const [inserted] = await store.insert([newTask({ uniqueKey: "k" })], "report");
    expect((await tasks()).map(({ id }) => id)).toEqual([inserted?.id]);
  });

  it("an enqueue that must not be a duplicate is not told that it is one, by itself", async () => {
    lose(/^commit$/);
    const refusing = store.insert([newTask({ uniqueKey: "k" })], { refuse: [true] });
    await expect(refusing).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await tasks()).toHaveLength(1);
  });

  it("a turn is not taken a second time: what it claimed would be forgotten", async () => {
    await store.register(newWorker());
    await insert(store, {}, {}, {}, {});
    lose(/update dbq_tasks/);
    const turn = store.turn({ outcomes: [], claim: claimBy("w1", { limit: 2 }) });
    await expect(turn).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await store.heldBy("w1")).toHaveLength(2);
  });

  it("an app's transaction is not run a second time", async () => {
    lose(/^commit$/);
    const run = vi.fn((tx: unknown) => store.within(tx).insert([newTask()], "report"));
    await expect(store.transaction(run)).rejects.toThrow("Connection terminated unexpectedly");
    expect(run).toHaveBeenCalledOnce();
    expect(await tasks()).toHaveLength(1);
  });

  it("a worker that registers looks whether it has", async () => {
    lose(/^commit$/);
    await store.register(newWorker());
    expect((await store.workers()).map(({ id }) => id)).toEqual(["w1"]);
  });
});

describe.skipIf(isMissing(server))("a deadlock on Postgres", () => {
  it("is tried again, and nobody hears of it", async ({ skip }) => {
    // Whoever looks last whether it waits in a circle is undone: a superuser can say who that is.
    skip(!schema.url.includes("deadlock_timeout"), "the user of this Postgres is no superuser");
    const own = await openedPostgres(schema.url);
    const client = new Client({ connectionString: schema.url });
    await client.connect();
    onTestFinished(() => client.end());
    const { rows } = await client.query("select pg_backend_pid() as pid");
    const waits = async () => {
      const text = "select 1 from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'";
      return (await schema.client.query(text, [rows[0]?.pid])).rows.length > 0;
    };
    const text = "insert into dbq_tasks (func, unique_key) values ('theirs', $1)";
    await client.query("set deadlock_timeout = '1min'; begin");
    await client.query(text, ["second"]);
    let second: Promise<unknown> | undefined;
    afterAnswers(async ({ text: asked, values }) => {
      if (second || !asked.includes("insert into dbq_tasks") || !values.includes("first")) return;
      second = client.query(text, ["first"]);
      await vi.waitUntil(waits, { timeout: 5_000, interval: 5 });
    });
    const keyed = ["first", "second"].map((uniqueKey) => newTask({ uniqueKey }));
    const inserting = own.insert(keyed, "report");
    inserting.catch(() => undefined);
    await vi.waitUntil(() => second !== undefined, 5_000);
    await second;
    await client.query("commit");
    expect(await inserting).toMatchObject([{ duplicate: true }, { duplicate: true }]);
  });
});
