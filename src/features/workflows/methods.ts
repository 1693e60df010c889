/** What the methods of a queue for workflows, groups and chains take and give. */
import type { AwaitOptions } from "../../base/options/options.ts";
import type { WithinResult } from "../../base/runtime/within-result.ts";
import type { Enqueueable } from "../../base/tasks/enqueueable.ts";
import type { Entries, Ids } from "../../base/tasks/entries.ts";
import type { MaybePromise } from "../../store.ts";
import type { Task, TaskError, TaskId, TaskStatus } from "../../task.ts";

/** A call of any function, as `enqueueGroup` and `enqueueChain` take it. */
export type AnyEntry = readonly [fn: Enqueueable, ...args: unknown[]];

/** The links of a chain: all but the first one get their last argument, the result of the link before, when they run. */
export type Links<F extends readonly Enqueueable[]> = readonly [
  ...{
    readonly [K in keyof F]: K extends "0"
      ? Entries<[F[K]]>[0]
      : readonly [F[K], ...Partial<Parameters<F[K]>>];
  },
];

export interface GroupOptions {
  /**
   * A task that runs once, without arguments, when all members have ended; it reads how by `currentTask().group.results()`.
   * @default none
   */
  then?: Enqueueable & (() => unknown);
  /**
   * What the first member that fails for good, or is cancelled, does. `cancel`: the group is cancelled, with `then` and the members
   * that have not started. `continue`: nothing; `then` runs in any case.
   * @default "cancel"
   */
  onFailure?: "cancel" | "continue";
}

/** A group of tasks. */
export interface Group<MemberIds = TaskId[]> {
  /** Of the group's own task, which is `waiting` until its members have ended. */
  id: TaskId<undefined>;
  /** Of its members, in the order of the entries. */
  ids: MemberIds;
  /** Of the task that runs when all have ended; `undefined`: there is none. */
  thenId: TaskId | undefined;
}

/** How many members a group has, in all and in each status. */
export type GroupCounts = { total: number } & Record<TaskStatus, number>;

/** A step that is stored, or that failed and was caught. */
export interface RunStep {
  name: string;
  value: unknown;
  error: TaskError | null;
  /** `null`: it is not known, as for a wait. */
  startedAt: Date | null;
  endedAt: Date;
  /**
   * Only of a step that has an undo: whether it was undone. `wanted`: it is if the task does not complete; `unknown`: the function
   * did not come to the step any more.
   */
  undo?: "wanted" | "done" | "failed" | "unknown";
  /** With what its undo has failed. */
  undoError?: TaskError;
  /** @internal There when only the beginning of its value is there, as a text: the length of all of it in bytes. */
  cut?: { value: number };
}

/** What a task waits for. */
export interface RunWait {
  kind: "event" | "child" | "time";
  /** The name of the event, the id of the child; `null` for a time. */
  target: string | null;
  /** When the wait is over in any case; `null`: never. */
  deadline: Date | null;
}

/** A task with its steps, what it waits for, and its children. */
export interface Run<R = unknown> {
  task: Task<R>;
  /** In the order in which they were stored. */
  steps: RunStep[];
  waits: RunWait[];
  /** In the order in which they were enqueued. */
  children: Run[];
  /** Whether steps, waits or children were left out. */
  more: boolean;
  /** There when steps or children were left out: how many of this task. */
  leftOut?: { steps: number; children: number };
}

export interface GetRunOptions {
  /** How many levels: 1 is the task alone. @default 10 */
  depth?: number;
  /** How many steps, and how many children, of each task. @default 1_000 */
  limit?: number;
  /** How many steps and tasks below the first one in all: those next to it come first. @default 100_000 */
  total?: number;
}

/** How many waiting tasks wait for something of one kind. A task that waits for several counts with each. */
export interface WaitCount {
  /** `time`: a sleep; `child`: children, the members of a group, or the link before in a chain. */
  kind: "event" | "child" | "time";
  tasks: number;
  /** Milliseconds since the first of them has begun to wait. */
  oldestAge: number;
}

/** What `countWaits` has found. */
export interface WaitCounts {
  /** By kind; none for what nothing waits for. */
  kinds: WaitCount[];
  /** Whether these are lower bounds: the 10,000 oldest waits are looked at. */
  atLeast: boolean;
}

/** Options of `listWaiting`. */
export interface WaitingOptions {
  /** The number of tasks, from 1 to 1,000. @default 50 */
  limit?: number;
  /** Only tasks with a higher id: that of the last one of the page before. */
  after?: TaskId | number;
}

/** What the feature writes, on the queue's own connection or inside of a transaction. */
export interface WorkflowActions {
  emitEvent(name: string, payload: unknown): MaybePromise<boolean>;
  enqueueGroup(entries: readonly AnyEntry[], options: GroupOptions | undefined): MaybePromise<Group>;
  enqueueChain(entries: readonly AnyEntry[]): MaybePromise<{ ids: TaskId[] }>;
}

/** What the feature adds to a queue. */
export interface WorkflowMethods {
  /**
   * Emits an event, for which tasks wait by `waitForEvent`: those that do, and those that will. The first event of a name counts.
   * @param payload what these tasks get; `null` if it is left out
   * @returns `false`: there is an event of this name already, and nothing was written
   * @throws TypeError for a wrong name; NotSerializableError, PayloadTooLargeError, DatabaseError
   */
  emitEvent(name: string, payload?: unknown): Promise<boolean>;

  /**
   * Writes tasks that belong together, all or none, each as `[fn, ...args]`.
   * @returns the id of the group, and the ids of its tasks
   * @throws TypeError for a wrong option, or a call with a `uniqueKey`; as `enqueueTasks`
   */
  enqueueGroup<const F extends readonly Enqueueable[]>(
    entries: Entries<F>,
    options?: GroupOptions,
  ): Promise<Group<Ids<F>>>;

  /**
   * Writes tasks that run one after the other, all or none, each as `[fn, ...args]`: each gets the result of the one before as its
   * last argument. One that fails for good, or is cancelled, cancels the rest.
   * @throws TypeError for a call with a `uniqueKey`; as `enqueueTasks`
   */
  enqueueChain<F extends readonly Enqueueable[]>(entries: Links<F>): Promise<{ ids: Ids<F> }>;

  /**
   * Waits until a group has ended, and counts its members.
   * @param options as those of `awaitTaskCompletion`
   * @throws TypeError when the task is no group; as `awaitTaskCompletion`
   */
  awaitGroup(id: TaskId | number, options?: AwaitOptions): Promise<GroupCounts>;

  /**
   * A task with its steps, what it waits for, and its children, level by level; `undefined` if it does not exist.
   * @throws TypeError for a wrong option; DatabaseError
   */
  getRun<R = unknown>(id: TaskId<R> | number, options?: GetRunOptions): Promise<Run<R> | undefined>;

  /**
   * How many tasks wait for events, children and times, and for how long. Takes as long beside a million tasks as beside a thousand.
   * @throws DatabaseError
   */
  countWaits(): Promise<WaitCounts>;

  /**
   * The unfinished tasks that wait for the event of this name, or for the task with this id, oldest first.
   * @param name the name of the event, or the id as a text
   * @throws TypeError for a wrong name or option; DatabaseError
   */
  listWaiting(name: string, options?: WaitingOptions): Promise<Task[]>;
}

/** Workflows inside of a transaction: what is written counts if and only if the transaction commits. */
export interface WorkflowsWithin<Tx> {
  /** @throws as `Queue.emitEvent` */
  emitEvent(name: string, payload?: unknown): WithinResult<Tx, boolean>;
  /** @throws as `Queue.enqueueGroup` */
  enqueueGroup<const F extends readonly Enqueueable[]>(
    entries: Entries<F>,
    options?: GroupOptions,
  ): WithinResult<Tx, Group<Ids<F>>>;
  /** @throws as `Queue.enqueueChain` */
  enqueueChain<F extends readonly Enqueueable[]>(entries: Links<F>): WithinResult<Tx, { ids: Ids<F> }>;
}
