/**
 * The reference for a store on a server, where the interface leaves it free: which id a row gets, which of several that are
 * due at once come within a limit, and, where a look for work begins behind what was claimed last, what it passes over.
 * There the reference does as the store did. In all else it knows what has to happen.
 */
import type { ClaimRequest, Inserted, Outcome } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { Reference } from "./reference.ts";

/** Where a store is free. */
export interface Freedom {
  /** Its ids have gaps, and those of equal moments are in no order. */
  readonly ids: boolean;
  /** A look for work may begin behind what was claimed last of each function. */
  readonly heads: boolean;
  /** It asks for no worker when it sees nothing, though it has settled something. */
  readonly seesFirst: boolean;
}

export const noFreedom: Freedom = { ids: false, heads: false, seesFirst: false };

type Claimed = Pick<TaskRecord, "id" | "queueName" | "func" | "priority">;

const groupOf = ({ queueName, func, priority }: Claimed) => JSON.stringify([queueName, func, priority]);

/** What a store has done. */
export interface Deeds {
  inserted: readonly Inserted[];
  claimed: readonly Claimed[];
  /** A turn has seen nothing, and says that there may be more: it has not looked at all. */
  passedOver: boolean;
  /** Its rows after it. */
  rows: readonly { id?: unknown; generationId?: unknown }[];
}

/** Of all that a store ever claimed, the last id of each function, queue and priority. */
export type Heads = Map<string, number>;

export class Following extends Reference {
  readonly #freedom: Freedom;
  readonly #heads: Heads;
  #newIds: number[] = [];
  #moved: ReadonlySet<number> = new Set();
  #claimed: ReadonlySet<number> = new Set();
  #passedOver = false;

  constructor(now: () => number, freedom: Freedom, heads: Heads) {
    super(now);
    this.#freedom = freedom;
    this.#heads = heads;
  }

  /** What comes next, the store has done already. */
  follow({ inserted, claimed, passedOver, rows }: Deeds): void {
    if (!this.#freedom.ids) return;
    this.#newIds = inserted.filter(({ duplicate }) => !duplicate).map(({ id }) => id);
    const found = new Map(rows.map(({ id, generationId }) => [Number(id), generationId]));
    this.#moved = new Set(this.ids().filter((id) => found.get(id) !== this.tasks.get(id)?.generationId));
    this.#claimed = new Set(claimed.map(({ id }) => id));
    this.#passedOver = passedOver;
  }

  /** What was claimed counts for the next look. */
  noteHeads(claimed: readonly Claimed[]): void {
    for (const task of claimed) {
      const group = groupOf(task);
      this.#heads.set(group, Math.max(task.id, this.#heads.get(group) ?? task.id));
    }
  }

  ids(): number[] {
    return [...this.tasks.keys()];
  }

  /** How many there are to claim. */
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

  /** A look that finds nothing has looked at all, unless it says otherwise; another one may have passed over what is behind the heads. */
  protected override claimable(claim: ClaimRequest): TaskRecord[] {
    const looksBehind = this.#claimed.size === 0 && !this.#passedOver;
    if (!this.#freedom.heads || looksBehind) return super.claimable(claim);
    const all = super.claimable({ ...claim, limit: Number.POSITIVE_INFINITY });
    return all.filter((task) => this.#claimed.has(task.id) || !this.#isBehind(task)).slice(0, claim.limit);
  }

  #isBehind(task: TaskRecord): boolean {
    // What was claimed last itself too, should it be pending again.
    return task.id <= (this.#heads.get(groupOf(task)) ?? Number.NEGATIVE_INFINITY);
  }
}
