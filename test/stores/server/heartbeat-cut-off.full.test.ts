/** A heartbeat continues when its connection was cut off, or when its host cannot write. */
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { openMysql } from "../../../src/stores/mysql/store.ts";
import { openPostgres } from "../../../src/stores/postgres/store.ts";
import { newWorker } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { wireTo } from "./cut-wire.ts";
import { openedMysql } from "./stores.ts";

const server = await mysqlServer();
const postgres = await postgresServer();

describe.skipIf(isMissing(server))("on MySQL", () => {
  it("a heartbeat that was cut off continues on another connection", { timeout: 60_000 }, async () => {
    const { url, drop } = await newDatabase();
    onTestFinished(drop);
    const direct = await openedMysql(url);
    const wire = await wireTo(url);
    const store = await openMysql(wire.url, { migrate: true });
    await store.register(newWorker());
    await store.register(newWorker("w2"));
    const stop = await store.keepAlive("w1", 100, () => undefined);
    const stopOther = await store.keepAlive("w2", 3_600_000, () => undefined);
    onTestFinished(async () => {
      await stop();
      await stopOther();
      await store.close();
    });
    const workerOf = async (which: string) => (await direct.workers()).find(({ id }) => id === which);
    const own = () => workerOf("w1");
    const lives = async (id: string) => (await workerOf(id))?.sessionLives === true;
    await vi.waitUntil(async () => (await lives("w1")) && (await lives("w2")), { timeout: 10_000 });
    const beatOfOther = (await workerOf("w2"))?.beat ?? 0;
    wire.cutBefore("heartbeat_at");
    await wire.wasCut;
    const before = (await own())?.beat ?? 0;
    // The interval of heartbeats is ten seconds.
    const beats = async () => ((await own())?.beat ?? 0) > before;
    await vi.waitUntil(beats, { timeout: 20_000, interval: 200 });
    expect(await own()).toMatchObject({ sessionLives: true });
    // The row of a worker that beats rarely has to name the new session too.
    await vi.waitUntil(async () => ((await workerOf("w2"))?.beat ?? 0) > beatOfOther, { timeout: 5_000 });
  });
});

describe.skipIf(isMissing(postgres))("on Postgres", () => {
  it("a heartbeat uses the next host when the first accepts it and cannot write", async () => {
    const { url, drop } = await newSchema();
    onTestFinished(drop);
    const wire = await wireTo(url);
    wire.endBefore("set heartbeat_at");
    const { host } = new URL(wire.url);
    // Makes the first host the first to be tried.
    vi.spyOn(Math, "random").mockReturnValue(0);
    onTestFinished(() => void vi.restoreAllMocks());
    const target = new URL(url);
    const store = await openPostgres(
      url.replace(target.host, `${host},${target.hostname}:${target.port || 5432}`),
      {
        migrate: true,
      },
    );
    await store.register(newWorker());
    const stop = await store.keepAlive("w1", 100, () => undefined);
    onTestFinished(async () => {
      await stop();
      await store.close();
    });
    const own = async () => (await store.workers())[0];
    await vi.waitUntil(async () => (await own())?.sessionLives === true, { timeout: 10_000 });
  });
});
