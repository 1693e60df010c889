/** What a database does for workflows: steps, waits and events, children and groups. */
import { Part } from "../../base/tasks/part.ts";
import type { Inserted, MaybePromise, NewTask, Operated, TaskVersion } from "../../store.ts";
import type { TaskRecord, TaskStatus } from "../../task.ts";

export { groupFunction } from "../../base/tasks/registry.ts";

/** The query for due work tells the jobs of workflows that tasks wait for something. */
export const waitsDue = new Part<true>("waits");
/** And in how many milliseconds the next of these waits ends because its time is over. */
export const nextWaitDue = new Part<number>("next wait");

/** Whether a step was undone. `unknown`: the function did not come to it any more. */
export type UndoState = "wanted" | "done" | "failed" | "unknown";

/** A stored step. It has returned a value, has failed with an error, or has started a child. JSON is text. */
export interface StoredStep {
  name: string;
  /** The order in which the steps of a task were stored. */
  seq: number;
  /** `null`: nothing. */
  value: string | null;
  error: string | null;
  childId: number | null;
  /** Whether it is undone when its task does not complete; `null`: it has nothing to undo. */
  undo: UndoState | null;
  /** With what its undo has failed. */
  undoError: string | null;
  /** Milliseconds since 1970; `null`: it is not known. */
  startedAt: number | null;
  endedAt: number;
  /** The bytes of each text of which only the beginning is there. @default none */
  cut?: Readonly<Partial<Record<StepJson, number>>>;
}

/** The fields of a step that are JSON, in the order of their columns. */
export const stepJson = ["value", "error", "undoError"] as const;

export type StepJson = (typeof stepJson)[number];

/** A step to store. */
export interface NewStep extends Pick<StoredStep, "name" | "seq" | "value" | "error" | "startedAt"> {
  /** Whether it is to be undone when its task does not complete. */
  undoes?: boolean;
  /** Whether a step of this name was undone, in whose place it comes. */
  again?: boolean;
}

/** A child to start, and the step that does so. */
export interface NewChild {
  name: string;
  seq: number;
  /** The store sets its parent and its root. */
  task: NewTask;
}

/** How a child has ended whose end its parent has met. JSON is text. */
export interface EndedChild {
  /** The name of the step that started it. */
  name: string;
  /** Its result; with an `error`, its status. */
  value: string | null;
  /** `null`: it has completed. */
  error: string | null;
}

/** What a task waits for. */
export interface Wait {
  /** The name of the step that waits. */
  name: string;
  kind: "event" | "child" | "time";
  /** The name of the event, or the id of the child. */
  target: string | null;
  /** When the wait is over in any case, in milliseconds since 1970, or from now; `null`: never. */
  until: { at: number } | { after: number } | null;
  /**
   * What the end of a child means: `null`, it wakes the task; `all:N`, only if it is the last of the waits with this text, or has not
   * completed; `settled:N`, only if it is the last.
   */
  mode: string | null;
}

/**
 * A wait as it is stored. Very many children that belong together are one wait, whose target is the last of them that has not ended:
 * its name and its mode are the store's.
 */
export interface StoredWait extends Omit<Wait, "until"> {
  taskId: number;
  deadline: number | null;
}

/** What became of waits. */
export interface Waited {
  /** The steps of events and times that are over, as they are stored now. */
  steps: StoredStep[];
  /** The children that have completed, of which a task may have many. */
  completed: Pick<TaskRecord, "id" | "result">[];
  /** The others that have ended. */
  ended: TaskRecord[];
  /** The ids of children that no longer exist. */
  gone: number[];
  /** The task is `waiting` now: the attempt is over. */
  parked: boolean;
}

/** How many of the tasks that wait do so for something of one kind. One that waits for several counts with each. */
export interface CountedWaits {
  kind: Wait["kind"];
  tasks: number;
  /** Milliseconds since the first of them has begun to wait. */
  oldestAge: number;
}

/** Tasks that stored a step last. */
export interface LastActive {
  /** Each once, with the id of its newest step. */
  tasks: { taskId: number; stepId: number }[];
  /** The id of the last step that was looked at; undefined: there are no older ones. */
  last: number | undefined;
}

export interface TasksOfQueue {
  queueName: string;
  tasks: number;
}

/** A group to insert. */
export interface NewGroup {
  members: readonly NewTask[];
  /** Runs when all members have ended; `undefined`: nothing does. */
  next: NewTask | undefined;
  /** Whether the first failure cancels the members that have not started, and the task behind the group. */
  cancels: boolean;
}

/** The ids of a new group: its own, those of its members, and that of the task behind it. */
export interface InsertedGroup {
  id: number;
  members: Inserted[];
  nextId: number | undefined;
}

/** Writes that can be part of a transaction of the app's. */
export interface WorkflowWrites {
  /** Stores a step of a running task. False: the task has moved on, and nothing was stored. */
  storeStep(task: TaskVersion, step: NewStep): MaybePromise<boolean>;

  /** Writes what became of the undo of a step of a running task. False: the task has moved on, and nothing was written. */
  storeUndo(task: TaskVersion, name: string, state: UndoState, error: string | null): MaybePromise<boolean>;

  /** Stores an event and makes the tasks pending that wait for it. False: there is one of this name already, which stays. */
  emit(name: string, payload: string): MaybePromise<boolean>;

  /** Inserts the tasks of a group, and the group, which ends when they have. */
  insertGroup(group: NewGroup): MaybePromise<InsertedGroup>;

  /** Inserts tasks of which each waits for the one before. */
  insertChain(tasks: readonly NewTask[]): MaybePromise<Inserted[]>;
}

export interface WorkflowStore {
  readonly writes: WorkflowWrites;

  /** All steps of a task, in the order in which they were stored. */
  steps(taskId: number): Promise<StoredStep[]>;

  /**
   * The first `limit` of them, without those that started children.
   * @param characters of each text, from its begin @default all
   */
  firstSteps(taskId: number, limit: number, characters?: number): Promise<StoredStep[]>;

  /** One step of a task; undefined: it has none of this name. */
  step(taskId: number, name: string): Promise<StoredStep | undefined>;

  /** The names of the first `limit` steps of a task, also of those that started children. */
  stepNames(taskId: number, limit: number): Promise<string[]>;

  /** How many steps a task has stored, without those that started children. */
  countSteps(taskId: number): Promise<number>;

  /** The tasks that stored a step last, newest first. Looks at `steps` steps: those with ids below `before`. */
  lastActive(steps: number, before?: number): Promise<LastActive>;

  /** What these tasks wait for, as it is stored. */
  waits(taskIds: readonly number[]): Promise<StoredWait[]>;

  /** What these tasks wait for, each child by itself: of those that are stored as one wait, `limit` at most. */
  openWaits(taskIds: readonly number[], limit: number): Promise<StoredWait[]>;

  /** The same, `limit` of each task at most. */
  firstWaits(taskIds: readonly number[], limit: number): Promise<StoredWait[]>;

  /** The ids of the newest tasks that have waits, newest first, each once: those below `before`. Looks at `waits` waits. */
  lastWaiting(waits: number, before?: number): Promise<number[]>;

  /** Looks at the `most` oldest waits, and counts their tasks by kind of wait and by queue. `more`: there may be more waits. */
  countWaits(most: number): Promise<{ kinds: CountedWaits[]; queues: TasksOfQueue[]; more: boolean }>;

  /** The ids of unfinished tasks that wait for the event of this name, or for the task with this id, oldest first: those above `after`. */
  waitingFor(target: string, limit: number, after?: number): Promise<number[]>;

  /**
   * Stores steps of a running task, and starts children of it, all or none. Returns the ids of the children, in order; `undefined`:
   * the task has moved on, and nothing was written.
   */
  write(
    task: TaskVersion,
    steps: readonly NewStep[],
    children: readonly NewChild[],
  ): Promise<Inserted[] | undefined>;

  /** Deletes steps of a running task. */
  forget(task: TaskVersion, names: readonly string[]): Promise<void>;

  /** Writes into the steps that started these children how they ended. The step of such a child has a `startedAt`. */
  keepEnds(task: TaskVersion, ends: readonly EndedChild[]): Promise<void>;

  /**
   * Writes those of these waits that are not written yet, and says which are over. With `park`, and if none of them has to wake
   * the task, the task becomes `waiting`. `undefined`: the task has moved on, and nothing was written.
   */
  wait(task: TaskVersion, waits: readonly Wait[], park: boolean): Promise<Waited | undefined>;

  /** Ends waits whose time is over, at most `limit`. Returns how many. */
  endDue(limit: number): Promise<number>;

  /**
   * Ends waits whose child another program has ended or deleted, or whose event it has written. Looks at `limit` waits behind the id
   * `after`. `last`: the id to go on from; undefined: these were the last.
   */
  repair(after: number, limit: number): Promise<{ woken: number; last: number | undefined }>;

  /** Deletes events that are older than `age` milliseconds, at most `limit`. Returns how many. */
  pruneEvents(age: number, limit: number): Promise<number>;

  /** The ids of the first `limit` children of a task, oldest first. */
  children(taskId: number, limit: number): Promise<number[]>;

  /** Deletes a step and those that were stored after it, and makes the task pending. `undefined`: it has no such step. */
  retryFrom(taskId: number, step: string): Promise<Operated>;

  /** Whether the task has stored steps that are to be undone if it does not complete. */
  hasUndos(taskId: number): Promise<boolean>;

  /** How often an attempt to undo the steps of this task has begun. */
  undoRuns(taskId: number): Promise<number>;

  /** The ids of tasks of these functions whose steps are to be undone now, at most `limit`. */
  undoable(runs: (queueName: string, func: string) => boolean, limit: number): Promise<number[]>;

  /**
   * Claims those of these tasks for a registered worker whose steps may be undone now, `most` of them, whatever is paused or limited.
   * The others, whose function still runs or whose children come first, are looked at again later.
   */
  takeUndoable(taskIds: readonly number[], workerId: string, most: number): Promise<TaskRecord[]>;

  /** Says that the attempt of this generation has stopped, so that steps may be undone. False: no undo waits for it. */
  letUndo(task: TaskVersion & { workerId: string | null }): Promise<boolean>;

  /** Marks the steps of a failed task as to be undone whose undo has failed or is unknown. `changed: false`: it has none. */
  undoAgain(taskId: number): Promise<Operated>;

  /** How many members of a group, or children of another task, are in each status. */
  groupCounts(groupId: number): Promise<{ status: TaskStatus; count: number }[]>;

  /** The group of which the task is a member, or for whose end it has waited; `undefined`: none. */
  groupOf(taskId: number): Promise<number | undefined>;

  /** Members of a group with ids above `after`, by id. */
  members(groupId: number, after: number, limit: number): Promise<TaskRecord[]>;

  /** Adds members to a group that has not ended. `undefined`: it has. */
  addToGroup(groupId: number, members: readonly NewTask[]): Promise<Inserted[] | undefined>;
}

/** The waits that a look counts. */
export const mostCountedWaits = 10_000;
