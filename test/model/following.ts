/**
 * A reference for servers, where the interface leaves choices: the id of a row, which of several tasks due at the same
 * time come within a limit, and which tasks a scan from the claim cursor skips. In these it follows the store;
 * everything else it decides itself.
 */
import type { ClaimRequest, Inserted, Outcome } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { Reference } from "./reference.ts";

/** The choices of a store. */
export interface Freedom {
  /** Ids may have gaps, and equal times have no order. */
  readonly ids: boolean;
  /** A scan may begin at the claim cursor of each function. */
  readonly cursors: boolean;
  /** A call that finds no task does not read the worker's row, even if it has settled something. */
  readonly seesFirst: boolean;
}

export const noFreedom: Freedom = { ids: false, cursors: false, seesFirst: false };

type Claimed = Pick<TaskRecord, "id" | "queueName" | "func" | "priority">;

const groupOf = ({ queueName, func, priority }: Claimed) => JSON.stringify([queueName, func, priority]);

/** What a store has done. */
export interface Effects {
  inserted: readonly Inserted[];
  claimed: readonly Claimed[];
  /** A call found nothing and reports that there may be more: it has not scanned everything. */
  skipped: boolean;
  /** Its rows afterwards. */
  rows: readonly { id?: unknown; generationId?: unknown }[];
}

/** For each function, queue and priority, the last id that the store claimed. */
export type ClaimCursors = Map<string, number>;

export class Following extends Reference {
  readonly #freedom: Freedom;
  readonly #cursors: ClaimCursors;
  #newIds: number[] = [];
  #moved: ReadonlySet<number> = new Set();
  #claimed: ReadonlySet<number> = new Set();
  #skipped = false;

  constructor(now: () => number, freedom: Freedom, cursors: ClaimCursors) {
    super(now);
    this.#freedom = freedom;
    this.#cursors = cursors;
  }

  /** The next call is one that the store has already done. */
  follow({ inserted, claimed, skipped, rows }: Effects): void {
    if (!this.#freedom.ids) return;
    this.#newIds = inserted.filter(({ duplicate }) => !duplicate).map(({ id }) => id);
    const found = new Map(rows.map(({ id, generationId }) => [Number(id), generationId]));
    this.#moved = new Set(this.ids().filter((id) => found.get(id) !== this.tasks.get(id)?.generationId));
    this.#claimed = new Set(claimed.map(({ id }) => id));
    this.#skipped = skipped;
  }

  /** Moves the cursors behind the claimed tasks. */
  moveCursors(claimed: readonly Claimed[]): void {
    for (const task of claimed) {
      const group = groupOf(task);
      this.#cursors.set(group, Math.max(task.id, this.#cursors.get(group) ?? task.id));
    }
  }

  ids(): number[] {
    return [...this.tasks.keys()];
  }

  /** How many tasks there are to claim. */
  left(claim: ClaimRequest): number {
    return super.claimable({ ...claim, limit: Number.POSITIVE_INFINITY }).length;
  }

  protected override newId(): number {
    return this.#newIds.shift() ?? super.newId();
  }

  protected override between(a: TaskRecord, b: TaskRecord): number {
    return Number(this.#moved.has(b.id)) - Number(this.#moved.has(a.id)) || super.between(a, b);
  }

  protected override asksForWorker(outcomes: readonly Outcome[], found: readonly TaskRecord[]): boolean {
    return this.#freedom.seesFirst ? found.length > 0 : super.asksForWorker(outcomes, found);
  }

  /**
   * A scan that finds nothing has scanned everything unless it says otherwise; any other may have skipped tasks in
   * front of its cursors.
   */
  protected override claimable(claim: ClaimRequest): TaskRecord[] {
    const looksBehind = this.#claimed.size === 0 && !this.#skipped;
    if (!this.#freedom.cursors || looksBehind) return super.claimable(claim);
    const all = super.claimable({ ...claim, limit: Number.POSITIVE_INFINITY });
    return all.filter((task) => this.#claimed.has(task.id) || !this.#isBehind(task)).slice(0, claim.limit);
  }

  #isBehind(task: TaskRecord): boolean {
    // The cursor's own task may be pending again.
    return task.id <= (this.#cursors.get(groupOf(task)) ?? Number.NEGATIVE_INFINITY);
  }
}
