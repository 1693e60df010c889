/**
 * Invariant: when many processes open one new database at the same moment, each succeeds, and the database has one
 * schema.
 */
import { deepStrictEqual } from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Entry } from "../../fixtures/event-log.ts";
import type { Harness } from "../../fixtures/harness.ts";
import type { OpenerOptions } from "../../fixtures/opener.ts";
import { backendOf, openRaw } from "../backends/backend.ts";
import { type Figure, type Scenario, spread } from "../scenario.ts";
import { type Schema, schemaOf } from "../schema.ts";

/** How many processes open it at once; the last round may be smaller. */
const together = 50;

/** One of this many processes is an app that passes its own Drizzle database. */
const apps = 5;

interface Opened {
  database: string;
  ms: number;
  schema: Schema;
}

export const openings: Scenario = {
  name: "openings",
  about: "Fifty processes open a new database at once: one schema, no error, and every task is there.",
  unit: "openings",
  amounts: { test: 12, sample: 50, chaos: 250 },
  async run({ harness, random, amount, progress }) {
    const expected = await schemaOf(harness.database);
    const times: number[] = [];
    for (let done = 0; done < amount; done += together) {
      const database = await harness.another();
      const opened = await openTogether(harness, database, Math.min(together, amount - done), random);
      for (const { schema } of opened)
        deepStrictEqual(
          schema,
          expected,
          `${database}: the schema is that of a database made by one process`,
        );
      deepStrictEqual(await schemaOf(database), expected, `${database}: the schema has not changed`);
      await demandTasks(harness, database);
      times.push(...opened.map(({ ms }) => ms));
      progress(times.length);
    }
    return figures(times);
  },
};

/** @throws Error when a process was refused, or died */
async function openTogether(
  harness: Harness,
  database: string,
  processes: number,
  random: () => number,
): Promise<Opened[]> {
  const go = join(harness.folder, `go-${harness.eventLog.entries("opened").length}`);
  const before = harness.eventLog.entries("ready").length;
  const children = Array.from({ length: processes }, () => {
    const options: OpenerOptions = { database, go, asApp: random() < 1 / apps };
    return harness.start("opener.ts", [options]);
  });
  const ended = Promise.all(children.map((child) => child.ended));
  await Promise.race([harness.eventLog.count("ready", before + processes), ended]);
  writeFileSync(go, "");
  deepStrictEqual(await ended, Array(processes).fill(0), "each process exits with success");
  const about = (entry: Entry) => JSON.stringify(entry.note).includes(database);
  deepStrictEqual(harness.eventLog.entries("refused").filter(about), [], "no process is refused");
  const opened = harness.eventLog.entries("opened").filter(about);
  deepStrictEqual(opened.length, processes, "each process has opened the database");
  return opened.map(({ note }) => note as Opened);
}

/** @throws Error unless the tasks are exactly the acknowledged ones, and the database is intact */
async function demandTasks({ eventLog }: Harness, database: string): Promise<void> {
  await using raw = await openRaw(database);
  const rows = await raw.all<{ id: number }>("select id from dbq_tasks order by id");
  const tasks = rows.map(({ id }) => id);
  const acknowledged = eventLog.entries("acknowledged").filter(({ note }) => note === database);
  const ids = acknowledged.map(({ task }) => task as number).sort((a, b) => a - b);
  deepStrictEqual(tasks, ids, `${database}: the tasks are the acknowledged ones`);
  const { kind, health } = backendOf(database);
  deepStrictEqual((await health(raw, database)).integrity, "ok");
  if (kind === "sqlite") deepStrictEqual(await raw.all("pragma journal_mode"), [{ journalMode: "wal" }]);
}

const figures = (times: readonly number[]): Figure[] => [
  { name: "openings", value: times.length },
  ...spread("open", times),
];
