/** The databases in which operations are cut. Each has its own event log, and gets new rows for the next operation. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openQueue } from "../../../../src/index.ts";
import type { Scene } from "../../../fixtures/scene.ts";
import { audit } from "../../audit.ts";
import { placeOf } from "../../place/place.ts";
import type { Files } from "../operation.ts";

/** A database without tables. */
export async function emptyRoom(scene: Scene): Promise<Files> {
  const database = await scene.another();
  const folder = join(scene.folder, placeOf(database).nameOf(database));
  mkdirSync(folder);
  const ledger = join(folder, "ledger.jsonl");
  writeFileSync(ledger, "");
  return { database, ledger };
}

/** A database with all tables. */
export async function newRoom(scene: Scene): Promise<Files> {
  const room = await emptyRoom(scene);
  const queue = await openQueue(room.database);
  await queue.close();
  await audit(room.database);
  return room;
}

/** Databases that are reused one after the other. */
export class Rooms {
  readonly #scene: Scene;
  #free: Files[] = [];

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  /** A database with tables and arbitrary rows. */
  async take(): Promise<Files> {
    return this.#free.pop() ?? (await newRoom(this.#scene));
  }

  /** A database that is not given back stays as it is, for an examination. */
  giveBack(room: Files): void {
    this.#free.push(room);
  }

  async takeEmpty(): Promise<Files> {
    return await emptyRoom(this.#scene);
  }
}
