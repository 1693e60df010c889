/** Postgres has committed or rolled back, and its answer is lost: the rows show what dbq does then. */
import { sql } from "drizzle-orm/sql/sql";
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { OutcomeUnknownError } from "../../../src/errors.ts";
import type { FullStore } from "../../../src/features/store.ts";
import type { ServerDrizzle } from "../../../src/stores/server/drizzle.ts";
import { claimBy, insert, newTask, newWorker } from "../../conformance/arrange.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { afterAnswers, openedPostgres } from "../server/stores.ts";

const server = await postgresServer();
let schema: Schema;
let store: FullStore;

beforeAll(async () => {
  if (!isMissing(server)) schema = await newSchema();
});
afterAll(() => schema?.drop());

/** Loses the first answer to a matching statement, after the statement has run. */
function lose(which: RegExp): void {
  let lost = false;
  afterAnswers(({ text }) => {
    if (lost || !which.test(text)) return;
    lost = true;
    throw new Error("Connection terminated unexpectedly");
  });
}

const tasks = async () => await store.list({}, 100, undefined);

describe.skipIf(isMissing(server))("a lost answer of Postgres", () => {
  beforeEach(async () => {
    store = await openedPostgres(schema.url);
    await schema.client.query(emptied);
  });

  it("an enqueue without a unique key fails with an unknown outcome and is not repeated", async () => {
    lose(/insert into dbq_tasks/);
    await expect(store.insert([newTask()], "report")).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await tasks()).toHaveLength(1);
  });

  it("an enqueue with a unique key is repeated and finds its own task", async () => {
    lose(/^commit$/);
    const [inserted] = await store.insert([newTask({ uniqueKey: "k" })], "report");
    expect((await tasks()).map(({ id }) => id)).toEqual([inserted?.id]);
  });

  it("a repeated enqueue that must not be a duplicate is not refused because of its own task", async () => {
    lose(/^commit$/);
    const [inserted] = await store.insert([newTask({ uniqueKey: "k" })], { refuse: [true] });
    expect((await tasks()).map(({ id }) => id)).toEqual([inserted?.id]);
  });

  it("a claim is not repeated, since its first result would be lost", async () => {
    await store.register(newWorker());
    await insert(store, {}, {}, {}, {});
    // The first claim that finds a task reads the limits, in a transaction; later ones are one statement.
    await store.settleAndClaim({ outcomes: [], claim: claimBy("w1", { limit: 1 }) });
    lose(/update only dbq_tasks/);
    const turn = store.settleAndClaim({ outcomes: [], claim: claimBy("w1", { limit: 2 }) });
    await expect(turn).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await store.heldBy("w1")).toHaveLength(3);
  });

  it("a commit of an app's transaction without an answer fails with an unknown outcome", async () => {
    lose(/^commit$/);
    const run = vi.fn((tx: unknown) => store.within(tx).insert([newTask()], "report"));
    await expect(store.transaction(run)).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(run).toHaveBeenCalledOnce();
    expect(await tasks()).toHaveLength(1);
  });

  it("an app's transaction is not run a second time", async () => {
    // Not even when it was certainly rolled back. Each of two transactions sees no tasks and inserts one; no serial
    // order allows that, so the second commit is refused.
    const write = "insert into dbq_tasks (func) select 'f' where not exists (select from dbq_tasks)";
    await schema.client.query("begin isolation level serializable");
    await schema.client.query(write);
    const run = vi.fn(async (tx: unknown) => {
      await (tx as ServerDrizzle).execute(sql`set transaction isolation level serializable`);
      await (tx as ServerDrizzle).execute(sql.raw(write));
      await schema.client.query("commit");
    });
    const refused = { code: "DBQ_DATABASE", cause: { code: "40001" } };
    await expect(store.transaction(run)).rejects.toMatchObject(refused);
    expect(run).toHaveBeenCalledOnce();
  });

  it("register checks whether the worker's row was written", async () => {
    lose(/^commit$/);
    await store.register(newWorker());
    expect((await store.workers()).map(({ id }) => id)).toEqual(["w1"]);
  });
});

describe.skipIf(isMissing(server))("a deadlock on Postgres", () => {
  it("the operation is retried, without an error", async ({ skip }) => {
    // Postgres rolls back the transaction that looks for a deadlock last; only a superuser can set when a session
    // looks.
    skip(!schema.url.includes("deadlock_timeout"), "the user of this Postgres is not a superuser");
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
