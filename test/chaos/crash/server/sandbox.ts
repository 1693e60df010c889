/** The databases in which operations are cut. Each has its own event log, and gets new rows for the next operation. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openQueue } from "../../../../src/index.ts";
import type { Harness } from "../../../fixtures/harness.ts";
import { audit } from "../../audit.ts";
import { backendOf } from "../../backends/backend.ts";
import type { Files } from "../operation.ts";

/** A database without tables. */
export async function emptySandbox(harness: Harness): Promise<Files> {
  const database = await harness.another();
  const folder = join(harness.folder, backendOf(database).nameOf(database));
  mkdirSync(folder);
  const eventLog = join(folder, "eventLog.jsonl");
  writeFileSync(eventLog, "");
  return { database, eventLog };
}

/** A database with all tables. */
export async function newSandbox(harness: Harness): Promise<Files> {
  const room = await emptySandbox(harness);
  const queue = await openQueue(room.database);
  await queue.close();
  await audit(room.database);
  return room;
}

/** Databases that are reused one after the other. */
export class Sandboxes {
  readonly #harness: Harness;
  #free: Files[] = [];

  constructor(harness: Harness) {
    this.#harness = harness;
  }

  /** A database with tables and arbitrary rows. */
  async take(): Promise<Files> {
    return this.#free.pop() ?? (await newSandbox(this.#harness));
  }

  /** A database that is not given back stays as it is, for an examination. */
  giveBack(room: Files): void {
    this.#free.push(room);
  }

  async takeEmpty(): Promise<Files> {
    return await emptySandbox(this.#harness);
  }
}
