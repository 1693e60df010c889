/**
 * Invariant: a task whose enqueue was acknowledged is in the database, whatever becomes of the process that enqueued it; a
 * batch is there whole or not at all.
 */
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { stage, start } from "../fixtures/processes.ts";
import { onLinux, patient } from "./linux.ts";

onLinux("an enqueuer that is killed", () => {
  test.each([1, 60, 200])("after %i acknowledged tasks: none is lost", patient, async (acknowledged) => {
    const { database, ledger } = await stage();
    const enqueuer = start("enqueuer.ts", database, ledger.path, "100000");
    await ledger.count("acknowledged", acknowledged);
    await enqueuer.kill();
    const raw = new Database(database);
    const ids = new Set(raw.prepare<[], number>("select id from dbq_tasks").pluck().all());
    const told = ledger.entries("acknowledged").map(({ task }) => task as number);
    expect(told.length).toBeGreaterThanOrEqual(acknowledged);
    expect(new Set(told).size).toBe(told.length);
    expect(told.filter((id) => !ids.has(id))).toEqual([]);
    const batches = raw.prepare(
      "select distinct count(*) from dbq_tasks where request_id is not null group by request_id",
    );
    for (const size of batches.pluck().all()) expect(size).toBe(4);
    expect(raw.pragma("integrity_check", { simple: true })).toBe("ok");
    raw.close();
  });
});
