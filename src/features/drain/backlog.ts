/** What a drain knows of the pending tasks of its queue: their functions, and how many to claim at once. */
import { performance } from "../../base/runtime/timers.ts";
import type { TaskRecord } from "../../task.ts";
import type { DrainStore } from "./contract.ts";

/** Milliseconds after which the functions are looked up again, under load. */
const funcsFor = 1_000;

/** Bytes of payload that one claim is to bring, by what the last claims brought: it bounds the memory of a drain. */
const claimBytes = 8 * 2 ** 20;

/** Tasks of the first claim, whose size is not known, and of a claim that tries whether the target can be used again. */
const fewTasks = { first: 50, probe: 10 };

/** The generation of a task after its first claim. A task that still has it was never retried by hand. */
const firstClaim = 2;

export class Backlog {
  readonly #store: DrainStore;
  readonly #queueName: string;
  readonly #batch: number;
  #limit: number;
  #funcs: readonly string[] = [];
  #readAt = Number.NEGATIVE_INFINITY;
  /** Whether the functions were looked up for the claim that is under way. */
  #isFresh = false;
  /** Whether to claim again: set by a wake-up, a poll, or a claim that may have left tasks behind. */
  mayHaveWork = true;

  constructor(store: DrainStore, queueName: string, batch: number) {
    this.#store = store;
    this.#queueName = queueName;
    this.#batch = batch;
    this.#limit = Math.min(batch, fewTasks.first);
  }

  /** How many tasks to claim. */
  get limit(): number {
    return this.#limit;
  }

  get probe(): number {
    return Math.min(this.#batch, fewTasks.probe);
  }

  /** Whether the last look found no pending task. */
  get isEmpty(): boolean {
    return this.#isFresh && this.#funcs.length === 0;
  }

  /** The functions that have pending tasks, whether this process knows them or not. None: there is nothing to claim. */
  async funcs(): Promise<readonly string[]> {
    this.mayHaveWork = false;
    this.#isFresh = performance.now() - this.#readAt > funcsFor;
    if (this.#isFresh) {
      this.#funcs = await this.#store.funcs(this.#queueName);
      this.#readAt = performance.now();
    }
    if (this.#funcs.length === 0) this.#readAt = Number.NEGATIVE_INFINITY;
    return this.#funcs;
  }

  /** A claim of `limit` tasks has brought these. */
  note(claimed: readonly TaskRecord[], limit: number, more: boolean): void {
    if (more) this.mayHaveWork = true;
    if (claimed.length < limit) {
      // There may be tasks of functions that had none at the last look.
      if (!this.#isFresh) this.mayHaveWork = true;
      this.#readAt = Number.NEGATIVE_INFINITY;
    }
    if (claimed.length === 0) return;
    const bytes = claimed.reduce(
      (sum, { args, kwargs, meta }) => sum + args.length + kwargs.length + meta.length,
      0,
    );
    const affordable = Math.floor(claimBytes / Math.max(1, bytes / claimed.length));
    this.#limit = Math.max(1, Math.min(this.#batch, affordable, this.#limit * 2));
  }

  /** How often each of these tasks was retried by hand; most need no look. */
  async manualRetries(claimed: readonly TaskRecord[]): Promise<ReadonlyMap<number, number>> {
    const ids = claimed.filter(({ generationId }) => generationId !== firstClaim).map(({ id }) => id);
    return ids.length === 0 ? new Map() : await this.#store.manualRetries(ids);
  }
}
