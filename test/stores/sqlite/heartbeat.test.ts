/**
 * The thread that sends a worker's heartbeats reports a lost row, retries soon after a failure, and does not write to a
 * file that was moved, all without the event loop.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test, vi } from "vitest";
import { driverFile, Heartbeat } from "../../../src/stores/sql/heartbeat.ts";
import { heartbeatProgram } from "../../../src/stores/sqlite/embedded.ts";

const text = "update workers set beat = beat + 1 where id = ?";

/** A file with one worker, whose heartbeats come only from the thread. */
function beating(every = 10, before = "") {
  const folder = mkdtempSync(join(tmpdir(), "dbq-heartbeat-"));
  const path = join(folder, "app.db");
  const client = new Database(path, { timeout: 5_000 });
  // As a queue's file has it: without it, SQLite itself refuses to write to a file that was moved.
  client.pragma("journal_mode = wal");
  client.exec("create table workers (id text, beat integer); insert into workers values ('w1', 0)");
  client.exec(before);
  const lost = vi.fn();
  const driver = createRequire(import.meta.url).resolve("better-sqlite3");
  const inodes = { file: statSync(path, { bigint: true }).ino };
  const data = { driver, path, inodes, pragmas: [], text, names: ["workerId"] };
  const thread = { program: heartbeatProgram, data, worker: { workerId: "w1" } };
  const send = async () => true;
  const heartbeat = new Heartbeat({ every, thread, send, onLost: lost });
  onTestFinished(async () => {
    await heartbeat.stop();
    client.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const beats = () => client.prepare("select sum(beat) from workers").pluck().get();
  return { client, path, lost, beats };
}

test("the thread reports that the row of its worker is gone", async () => {
  const { client, lost, beats } = beating();
  await vi.waitUntil(() => Number(beats()) > 2, { timeout: 20_000 });
  expect(lost).not.toHaveBeenCalled();
  client.exec("delete from workers");
  await vi.waitUntil(() => lost.mock.calls.length > 0, { timeout: 5_000 });
});

test("a driver that the thread could not load is reported, with what follows from it", () => {
  const reported: string[] = [];
  const listener = (message: unknown) => reported.push(String((message as { error: unknown }).error));
  subscribe("dbq:error", listener);
  expect(driverFile("no-such-driver")).toBeUndefined();
  unsubscribe("dbq:error", listener);
  const expected = /"no-such-driver".*event loop.*Leave the package out of your bundle/;
  expect(reported).toEqual([expect.stringMatching(expected)]);
});

test("a failed heartbeat is repeated soon, also between rare heartbeats", async () => {
  const warned = once(process, "warning");
  const { client, beats } = beating(
    3_600_000,
    "create trigger full before update on workers begin select raise(abort, 'the disk is full'); end",
  );
  expect(String((await warned)[0])).toContain("the disk is full");
  client.exec("drop trigger full");
  await vi.waitUntil(() => beats() === 1, { timeout: 10_000 });
});

test("no heartbeat is written to a file that was moved, and they continue when it is back", async () => {
  const { path, beats } = beating();
  await vi.waitUntil(() => Number(beats()) > 0, { timeout: 10_000 });
  renameSync(path, `${path}.away`);
  // One heartbeat may have been under way.
  await new Promise((resolve) => setTimeout(resolve, 100));
  const before = beats();
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(beats()).toBe(before);
  renameSync(`${path}.away`, path);
  await vi.waitUntil(() => Number(beats()) > Number(before), { timeout: 10_000 });
});
