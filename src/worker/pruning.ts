/** The background work on finished tasks: deletes old ones, and frees unique keys whose time has passed. */
import { performance } from "../base/runtime/timers.ts";
import { DatabaseError } from "../errors.ts";
import type { LimitStore } from "../features/limits/contract.ts";
import type { LookStore } from "../features/look/contract.ts";
import type { PartitionStore } from "../features/partitions/contract.ts";
import type { KeptTask, OnKept, Retention, WorkerStore } from "../store.ts";
import type { Job } from "./periodic-job.ts";

const pruneEvery = 30_000;
/** Tasks that one transaction prunes: other transactions wait that long at most. */
const pruneBatch = 500;

/** Tasks that one transaction moves to partitions. */
const moveBatch = 200;
/** Milliseconds that a finished task stays where awaits look first. */
const moveAfter = 60_000;
const moveEvery = 10_000;
const dropEvery = 600_000;

/** Milliseconds that the actions of people in the dashboard are kept: 90 days. */
export const auditAge = 90 * 86_400_000;
const auditEvery = 3_600_000;

/** Milliseconds: a late start counts as if it had come up to 1.83 days earlier, for the longest `per` of a rate (`rate.ts`). */
export const limitAge = 2 * 86_400_000;
const limitsEvery = 3_600_000;

/** These jobs can wait: what the database refuses them is reported once a minute. */
const afterFailure = 60_000;

/** Milliseconds between two reports of tasks that the database refuses to delete or to change. */
const reportEvery = 60_000;

interface PruningHost {
  readonly store: Pick<WorkerStore, "prune" | "freeKeys">;
  readonly retention: Retention;
  report(error: unknown, where: string): void;
}

/** Reports the tasks that the database keeps as they are: the first one with the reason, and how many there are. */
export class KeptTasks {
  readonly #report: (error: Error) => void;
  readonly #refused: string;
  #first: KeptTask | undefined;
  #others = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;

  /** @param refused what the database refuses to do to them */
  constructor(report: (error: Error) => void, refused = "delete") {
    this.#report = report;
    this.#refused = refused;
  }

  readonly add: OnKept = (kept) => {
    if (this.#first) this.#others += 1;
    else this.#first = kept;
  };

  /** Reports what was added since the last report, unless that was less than a minute ago. */
  tell(): void {
    if (!this.#first || performance.now() - this.#reportedAt < reportEvery) return;
    this.#report(keptError(this.#first, this.#others, this.#refused));
    [this.#first, this.#others, this.#reportedAt] = [undefined, 0, performance.now()];
  }
}

/**
 * @param others how many other tasks are kept
 * @param refused what the database refuses to do to them
 */
export function keptError({ id, error }: KeptTask, others: number, refused = "delete"): DatabaseError {
  const also = others === 0 ? "" : `, and ${others} others`;
  return new DatabaseError(`the database refuses to ${refused} task ${id}${also}: ${error.message}`, {
    cause: error,
  });
}

/**
 * Each run also looks at some unique keys. That they are freed in time does not depend on it: an enqueue frees the key that
 * it wants. It keeps the column right for programs that insert tasks by SQL.
 */
export const pruning = ({ store, retention, report }: PruningHost): Job => {
  const name = "pruning finished tasks";
  const kept = new KeptTasks((error) => report(error, name));
  let key = "";
  return {
    name,
    afterFailure,
    async run() {
      const looked = await store.prune(retention, pruneBatch, kept.add);
      kept.tell();
      key = (await store.freeKeys(key, pruneBatch)).last ?? "";
      return looked < pruneBatch ? pruneEvery : 0;
    },
  };
};

/** A role that may not delete them keeps them: that is reported, and stops nothing else. */
export const auditPruning = (look: Pick<LookStore, "pruneAudits">): Job => ({
  name: "deleting old rows of dbq_audit",
  afterFailure,
  run: async () => ((await look.pruneAudits(auditAge, pruneBatch)) < pruneBatch ? auditEvery : 0),
});

/** A rate or a throttle of groups leaves a row for each: of tenants that are gone, too. */
export const limitPruning = (limits: Pick<LimitStore, "prune">): Job => ({
  name: "deleting rows of dbq_limits that have no effect",
  afterFailure,
  run: async () => ((await limits.prune(limitAge, pruneBatch)) < pruneBatch ? limitsEvery : 0),
});

/**
 * The jobs for tables of finished tasks by day. Old tables are dropped also where tasks do not move any more, since `prune` deletes
 * nothing in them.
 */
export function partitionJobs(
  { partitions }: { partitions?: PartitionStore | undefined },
  { retention, partitionFinished = false }: { retention: Retention; partitionFinished?: boolean },
): Job[] {
  if (!partitions) return [];
  const moving: Job = {
    name: "moving finished tasks to partitions",
    afterFailure,
    run: async () => ((await partitions.move(retention, moveBatch, moveAfter)) < moveBatch ? moveEvery : 0),
  };
  const dropping: Job = {
    name: "dropping old partitions of finished tasks",
    afterFailure,
    async run() {
      await partitions.drop(retention);
      return dropEvery;
    },
  };
  return partitionFinished ? [moving, dropping] : [dropping];
}
