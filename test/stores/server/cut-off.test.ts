/** A host that is cut off says nothing: whoever waits for it must be told by a clock, whatever was under way. */
import timers from "node:timers";
import { drizzle } from "drizzle-orm/postgres-js";
import postgresJs from "postgres";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { OutcomeUnknownError } from "../../../src/errors.ts";
import { openMysql } from "../../../src/stores/mysql/store.ts";
import { openPostgres, openPostgresDatabase } from "../../../src/stores/postgres/store.ts";
import { newTask } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing, type Server } from "../../support/server.ts";
import { wireTo } from "./cut-wire.ts";

/** Those of the drivers too: mysql2 has its own from `node:timers`. */
function fakedTimers(): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  vi.spyOn(timers, "setTimeout").mockImplementation(setTimeout as typeof timers.setTimeout);
  vi.spyOn(timers, "clearTimeout").mockImplementation(clearTimeout as typeof timers.clearTimeout);
  onTestFinished(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

/** Lets time pass for timers that were set since they are faked, beside what really goes on. Rejects when nothing comes of it. */
async function inTime<T>(promise: Promise<T>): Promise<T> {
  let over = false;
  const end = () => {
    over = true;
  };
  promise.then(end, end);
  const passed = async () => {
    await vi.advanceTimersByTimeAsync(500);
    return over;
  };
  // Minutes in seconds.
  await vi.waitUntil(passed, { timeout: 5_000, interval: 10 });
  return await promise;
}

const kinds = [
  { name: "MySQL", server: await mysqlServer(), place: newDatabase, open: openMysql },
  { name: "Postgres", server: await postgresServer(), place: newSchema, open: openPostgres },
];

describe.each(kinds)("$name", ({ server, place, open }) => {
  /** A store in a place of its own, by a wire that can be cut. */
  async function overWire() {
    const { url, drop } = await place();
    onTestFinished(drop);
    const wire = await wireTo(url);
    return { wire, store: await open(wire.url, { migrate: true }) };
  }

  it.skipIf(isMissing(server))(
    "cut off in the middle of a transaction: it is done on another connection",
    async () => {
      const { wire, store } = await overWire();
      onTestFinished(() => void store.close());
      fakedTimers();
      wire.cutBefore("insert into dbq_tasks");
      const inserting = store.insert([newTask({ uniqueKey: "k" })], "report");
      await wire.wasCut;
      expect(await inTime(inserting)).toMatchObject([{ duplicate: false }]);
    },
  );

  it.skipIf(isMissing(server))("cut off when nothing is under way: a queue closes all the same", async () => {
    const { wire, store } = await overWire();
    await store.insert([newTask()], "report");
    wire.cut();
    fakedTimers();
    await inTime(store.close());
  });

  it.skipIf(isMissing(server))(
    "cut off when nothing is under way: an app's transaction is begun on another connection",
    async () => {
      const { wire, store } = await overWire();
      onTestFinished(() => void store.close());
      fakedTimers();
      await store.transaction(() => undefined);
      wire.cut();
      await vi.advanceTimersByTimeAsync(2_000);
      expect(await inTime(store.transaction(() => "begun"))).toBe("begun");
    },
  );

  it.skipIf(isMissing(server))("broken at the commit of an app's transaction: nobody knows", async () => {
    const { wire, store } = await overWire();
    onTestFinished(() => store.close());
    const run = vi.fn(() => wire.endBefore("commit"));
    await expect(store.transaction(run)).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(run).toHaveBeenCalledOnce();
  });
});

const postgres = kinds.find(({ name }) => name === "Postgres")?.server as Server;

describe.skipIf(isMissing(postgres))("Postgres, by postgres.js", () => {
  it("broken at the commit of an app's transaction: nobody knows", async () => {
    const { url, drop } = await newSchema();
    onTestFinished(drop);
    const wire = await wireTo(url);
    // Else a commit goes by its name.
    const client = postgresJs(wire.url, { max: 1, prepare: false });
    onTestFinished(() => client.end({ timeout: 0 }));
    const store = await openPostgresDatabase(drizzle(client), { migrate: true });
    onTestFinished(() => store.close());
    const run = vi.fn(() => wire.endBefore("commit"));
    await expect(store.transaction(run)).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(run).toHaveBeenCalledOnce();
  });
});
