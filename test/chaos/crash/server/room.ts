/** Where operations are cut: a database of a scene with a ledger of its own, whose rows are exchanged for the next one. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openQueue } from "../../../../src/index.ts";
import type { Scene } from "../../../fixtures/scene.ts";
import { audit } from "../../audit.ts";
import { placeOf } from "../../place/place.ts";
import type { Files } from "../operation.ts";

/** Without any table. */
export async function emptyRoom(scene: Scene): Promise<Files> {
  const database = await scene.another();
  const folder = join(scene.folder, placeOf(database).nameOf(database));
  mkdirSync(folder);
  const ledger = join(folder, "ledger.jsonl");
  writeFileSync(ledger, "");
  return { database, ledger };
}

/** With all tables. */
export async function newRoom(scene: Scene): Promise<Files> {
  const room = await emptyRoom(scene);
  const queue = await openQueue(room.database);
  await queue.close();
  await audit(room.database);
  return room;
}

/** Rooms that are used again and again by one who goes through them in order. */
export class Rooms {
  readonly #scene: Scene;
  #free: Files[] = [];

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  /** One with tables, and whatever rows. */
  async take(): Promise<Files> {
    return this.#free.pop() ?? (await newRoom(this.#scene));
  }

  /** One that is not given back stays as it is, to be looked at. */
  giveBack(room: Files): void {
    this.#free.push(room);
  }

  async takeEmpty(): Promise<Files> {
    return await emptyRoom(this.#scene);
  }
}
