/** What features add to an attempt: each attempt keeps one part, which hears of the end of its function. */
import type { Queue } from "../queue/queue.ts";
import type { TaskRecord } from "../task.ts";
import type { TaskGroup } from "./task-group.ts";

/** What an attempt gives to a feature. */
export interface AttemptPort extends Pick<AttemptFeatures, "queue" | "patience" | "hasFreeSlot"> {
  readonly record: TaskRecord;
  readonly signal: AbortSignal;
  /** Resolves when the lines are written that the function has logged; after a while in any case. */
  logWritten(): Promise<void>;
  /** Ends the attempt without an outcome: the task does not run any more, and its function is left alone. */
  leave(): void;
  report(error: unknown, where: string): void;
}

/** What a feature keeps for an attempt. */
export interface AttemptPart {
  /** The function has settled; `error`: what it threw. Its outcome waits for what this returns. */
  ending(threw: boolean, error: unknown): Promise<void> | undefined;
}

/** Gives the part of an attempt, which the first call makes. */
export type PartOf = <T extends AttemptPart>(make: (port: AttemptPort) => T) => T;

/** What an attempt with a database has for features. */
export interface AttemptFeatures {
  readonly queue: Queue;
  /** Milliseconds that the attempt may wait in a slot that no other task needs. */
  readonly patience: number;
  /** Whether another task could start beside this one. */
  hasFreeSlot(): boolean;
  groupOf(record: TaskRecord): TaskGroup;
}
