/** A host that is cut off sends nothing, so a timeout has to end each wait, whatever was under way. */
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
import "../../support/fakeable-timers.ts";

/** Fakes the timers of the drivers too: mysql2 imports its own from `node:timers`. */
function fakedTimers(): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  vi.spyOn(timers, "setTimeout").mockImplementation(setTimeout as typeof timers.setTimeout);
  vi.spyOn(timers, "clearTimeout").mockImplementation(clearTimeout as typeof timers.clearTimeout);
  onTestFinished(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

/** Advances the faked timers while real I/O continues. Rejects when the promise does not settle. */
async function inTime<T>(promise: Promise<T>): Promise<T> {
  let over = false;
  const end = () => {
    over = true;
  };
  promise.then(end, end);
  const passed = async () => {
    await vi.advanceTimersByTimeAsync(100);
    return over;
  };
  // Minutes of timers in seconds; but slowly enough for a busy machine to connect before its connect times out.
  await vi.waitUntil(passed, { timeout: 25_000, interval: 10 });
  return await promise;
}

const kinds = [
  { name: "MySQL", server: await mysqlServer(), create: newDatabase, open: openMysql },
  { name: "Postgres", server: await postgresServer(), create: newSchema, open: openPostgres },
];

describe.each(kinds)("$name", ({ server, create, open }) => {
  /** A store on a new database, over a wire that can be cut. */
  async function overWire() {
    const { url, drop } = await create();
    onTestFinished(drop);
    const wire = await wireTo(url);
    return { wire, store: await open(wire.url, { migrate: true }) };
  }

  it.skipIf(isMissing(server))("a transaction that is cut off runs again on another connection", async () => {
    const { wire, store } = await overWire();
    onTestFinished(() => void store.close());
    fakedTimers();
    wire.cutBefore("insert into dbq_tasks");
    const inserting = store.insert([newTask({ uniqueKey: "k" })], "report");
    await wire.wasCut;
    expect(await inTime(inserting)).toMatchObject([{ duplicate: false }]);
  });

  it.skipIf(isMissing(server))("a queue closes although its idle connection was cut off", async () => {
    const { wire, store } = await overWire();
    await store.insert([newTask()], "report");
    wire.cut();
    fakedTimers();
    await inTime(store.close());
  });

  it.skipIf(isMissing(server))(
    "an app's transaction begins on another connection when an idle one was cut off",
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

  it.skipIf(isMissing(server))(
    "a lost connection at the commit of an app's transaction gives an unknown outcome",
    async () => {
      const { wire, store } = await overWire();
      onTestFinished(() => store.close());
      const run = vi.fn(() => wire.endBefore("commit"));
      await expect(store.transaction(run)).rejects.toBeInstanceOf(OutcomeUnknownError);
      expect(run).toHaveBeenCalledOnce();
    },
  );
});

const postgres = kinds.find(({ name }) => name === "Postgres")?.server as Server;

describe.skipIf(isMissing(postgres))("Postgres, by postgres.js", () => {
  it("a lost connection at the commit of an app's transaction gives an unknown outcome", async () => {
    const { url, drop } = await newSchema();
    onTestFinished(drop);
    const wire = await wireTo(url);
    // Otherwise a commit is sent as a prepared statement, by its name.
    const client = postgresJs(wire.url, { max: 1, prepare: false });
    onTestFinished(() => client.end({ timeout: 0 }));
    const store = await openPostgresDatabase(drizzle({ client }), { migrate: true });
    onTestFinished(() => store.close());
    const run = vi.fn(() => wire.endBefore("commit"));
    await expect(store.transaction(run)).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(run).toHaveBeenCalledOnce();
  });
});
