/** What features add to an attempt: each attempt keeps one part, which hears of the end of its function. */
import type { TaskDefinition } from "../base/tasks/registry.ts";
import type { CoreQueue } from "../queue/queue.ts";
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
  /** A write has found that the task is not this attempt's any more: it ends as one that has lost its task. */
  lost(): void;
  /** Ends the attempt as if its function had thrown this, which no `catch` of the function's sees: it is left alone. */
  fail(error: Error): void;
  report(error: unknown, where: string): void;
}

/** What a feature keeps for an attempt. */
export interface AttemptPart {
  /** The function has settled; `error`: what it threw. Its outcome waits for what this returns. */
  ending(threw: boolean, error: unknown): Promise<void> | undefined;
}

/** Gives the part of an attempt, which the first call makes. */
export type PartOf = <T extends AttemptPart>(make: (port: AttemptPort) => T) => T;

/** What a feature has for attempts. */
export interface AttemptMethods {
  /**
   * What is read before the function is called of a task that may have a part of a feature already; undefined: nothing. Never rejects.
   */
  before(record: TaskRecord, part: PartOf): Promise<void> | undefined;
  groupOf(record: TaskRecord): TaskGroup;
  /** Whether a feature holds the end of this task up, if it fails now or is cancelled. Never rejects. */
  holdsUp(record: TaskRecord): Promise<boolean>;
  /** What runs in place of this function, which the worker knows, for a task whose end is held up. */
  ending(definition: TaskDefinition): TaskDefinition;
  /** Another program ends this task while its function runs: that does not run any more. Never throws. */
  hasStopped(record: TaskRecord): void;
}

/** What an attempt with a database has for features, and what they have for it. */
export interface AttemptFeatures extends AttemptMethods {
  readonly queue: CoreQueue;
  /** Milliseconds that the attempt may wait in a slot that no other task needs. */
  readonly patience: number;
  /** Whether another task could start beside this one. */
  hasFreeSlot(): boolean;
}
