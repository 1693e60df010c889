/** Deletes finished tasks by their age, and passes over those that the database keeps. */
import { performance } from "../../base/runtime/timers.ts";
import type { KeptTask, OnKept, Retention } from "../../store.ts";
import type { Batches } from "./batches.ts";
import type { Row } from "./dialect.ts";
import type { MaintenanceOperations, RetentionPlace } from "./maintenance.ts";
import type { Runner } from "./program.ts";
import { int } from "./rows.ts";

export const idsOf = (found: readonly Row[]): number[] => found.map(([id]) => int(id));

/** Milliseconds after which kept tasks are tried again, once all tasks have been looked at. */
const startsAnewAfter = 3_600_000;

/** Kept tasks that one call finds. Each takes up to ten transactions that fail. */
const mostKept = 100;

/** The retention of one store. While the database keeps nothing, a batch is one transaction. */
export class RetentionPruning {
  readonly #runner: Runner;
  readonly #ops: MaintenanceOperations;
  readonly #batches: Batches;
  readonly #places = new Map<string, RetentionPlace>();

  constructor(runner: Runner, ops: MaintenanceOperations, batches: Batches) {
    this.#runner = runner;
    this.#ops = ops;
    this.#batches = batches;
  }

  async prune(retention: Retention, limit: number, onKept: OnKept): Promise<number> {
    for (const [status, { begun, ended }] of this.#places)
      if (ended && performance.now() - begun > startsAnewAfter) this.#places.delete(status);
    const prune = () => this.#runner.write(() => this.#ops.prune(retention, limit, this.#places));
    const removed = await this.#batches.all(prune);
    if (removed !== undefined) {
      if (removed < limit) for (const place of this.#places.values()) place.ended = true;
      return removed;
    }
    let looked = 0;
    for (const status of Object.keys(retention) as (keyof Retention)[])
      looked += await this.#pruneEach(status, retention[status], limit - looked, onKept);
    return looked;
  }

  async #pruneEach(status: keyof Retention, age: number, limit: number, onKept: OnKept): Promise<number> {
    const known = this.#places.get(status);
    const found = await this.#runner.run(() => this.#ops.old(status, age, limit, known));
    const place = known ?? { from: 0, passed: [], begun: performance.now(), ended: false };
    let kept = 0;
    const passOver = (task: KeptTask) => {
      kept += 1;
      const finishedAt = found.get(task.id) as number;
      if (finishedAt !== place.from) [place.from, place.passed] = [finishedAt, []];
      place.passed.push(task.id);
      this.#places.set(status, place);
      onKept(task);
    };
    const each = (ids: readonly number[]) => this.#runner.write(() => this.#ops.removeOld(status, age, ids));
    return (await this.#batches.each([...found.keys()], each, passOver, mostKept)).length + kept;
  }
}
