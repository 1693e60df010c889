/** Processes that open a new database at once. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../support/queue.ts";
import { inProcesses } from "./processes.ts";
import { countRows, rawClient } from "./raw.ts";

it("opening a new database works in ten processes at once", async () => {
  const path = join(temporaryFolder(), "dbq.db");
  const ids = (await inProcesses<number[]>(10, "enqueue", path, "3")).flat();
  expect(new Set(ids).size).toBe(30);
  const client = rawClient(path);
  expect(countRows(client)).toBe(30);
  const applied = client.prepare("select hash from dbq_migrations").pluck().all();
  expect(new Set(applied).size).toBe(applied.length);
  expect(client.pragma("integrity_check", { simple: true })).toBe("ok");
}, 120_000);
