/** The methods of a queue that are about workflows, groups and chains. A feature provides them. */
import type { AwaitOptions } from "../base/options/options.ts";
import type { Enqueueable } from "../base/tasks/enqueueable.ts";
import type { MaybePromise, Operated } from "../store.ts";
import type { Task, TaskError, TaskId, TaskStatus } from "../task.ts";

/** A call of any function, as `enqueueGroup` and `enqueueChain` take it. */
export type AnyEntry = readonly [fn: Enqueueable, ...args: unknown[]];

export interface GroupOptions {
  /** A task that runs once, when all members have ended; it reads how by `currentTask().group.results()`. @default none */
  // biome-ignore lint/suspicious/noExplicitAny: a function that can be called without arguments
  then?: Enqueueable & ((...args: any[]) => unknown);
  /**
   * What the first member that fails for good, or is cancelled, does. `cancel`: the group is cancelled, with `then` and the members
   * that have not started. `continue`: nothing; `then` runs in any case.
   * @default "cancel"
   */
  onFailure?: "cancel" | "continue";
}

/** A group of tasks. */
export interface Group {
  /** Of the group's own task, which is `waiting` until its members have ended. */
  id: TaskId<undefined>;
  /** Of its members, in the order of the entries. */
  ids: TaskId[];
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
  /** Whether steps or children were left out. */
  more: boolean;
}

export interface GetRunOptions {
  /** How many levels: 1 is the task alone. @default 10 */
  depth?: number;
  /** How many steps, and how many children, of each task. @default 1_000 */
  limit?: number;
}

/** Options of `listWaiting`. */
export interface WaitingOptions {
  /** The number of tasks, from 1 to 1,000. @default 50 */
  limit?: number;
}

/** What the feature writes, on the queue's own connection or inside of a transaction. */
export interface WorkflowActions {
  emitEvent(name: string, payload: unknown): MaybePromise<boolean>;
  enqueueGroup(entries: readonly AnyEntry[], options: GroupOptions | undefined): MaybePromise<Group>;
  enqueueChain(entries: readonly AnyEntry[]): MaybePromise<{ ids: TaskId[] }>;
}

/** The methods of these actions, which may be destructured. `synchronous`: they return values and throw, not promises. */
export function workflowMethodsOf(actions: WorkflowActions, synchronous: boolean): WorkflowActions {
  const act = <T>(action: () => MaybePromise<T>): MaybePromise<T> =>
    synchronous ? action() : (async () => await action())();
  return {
    emitEvent: (name, payload) => act(() => actions.emitEvent(name, payload)),
    enqueueGroup: (entries, options) => act(() => actions.enqueueGroup(entries, options)),
    enqueueChain: (entries) => act(() => actions.enqueueChain(entries)),
  };
}

export interface WorkflowFeature {
  /** @param inside the store's transaction in which to write. @default in transactions of their own */
  over(
    settings: { maxPayload: number; synchronous: boolean; wake: () => void },
    inside?: object,
  ): WorkflowActions;
  getRun(id: number, options: GetRunOptions | undefined): Promise<Run | undefined>;
  listWaiting(target: string, options: WaitingOptions | undefined): Promise<Task[]>;
  awaitGroup(id: number, options: AwaitOptions | undefined): Promise<GroupCounts>;
  /** `undefined`: the task has no such step. */
  retryFrom(id: number, step: string): Promise<Operated>;
  undoAgain(id: number): Promise<Operated>;
}
