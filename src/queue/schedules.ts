/** The methods of a queue that are about schedules. A feature provides them. */
import type { AnyFunction } from "../base/tasks/registry.ts";
import type {
  Schedule,
  ScheduleChanges,
  ScheduleListOptions,
  ScheduleTiming,
} from "../base/tasks/schedule.ts";
import type { ScheduleWrites } from "../features/schedules/contract.ts";
import type { MaybePromise } from "../store.ts";
import type { TaskId } from "../task.ts";

/** For each function of a tuple or array: a schedule of its tasks, as `queue.schedule` takes it. */
export type ScheduleEntries<F extends readonly AnyFunction[]> = {
  readonly [K in keyof F]: readonly [
    name: string,
    timing: ScheduleTiming,
    fn: F[K],
    ...args: Parameters<F[K]>,
  ];
};

/** One of them, of any function. */
export type ScheduleEntry = readonly [
  name: string,
  timing: ScheduleTiming,
  fn: AnyFunction,
  ...args: unknown[],
];

/** What the feature does, on the queue's own connection or inside of a transaction. */
export interface ScheduleActions {
  schedule(name: string, timing: ScheduleTiming, fn: AnyFunction, ...args: unknown[]): MaybePromise<Schedule>;
  schedules(entries: readonly ScheduleEntry[]): MaybePromise<Schedule[]>;
  getSchedule(name: string): MaybePromise<Schedule | undefined>;
  listSchedules(options?: ScheduleListOptions): MaybePromise<Schedule[]>;
  editSchedule(name: string, changes: ScheduleChanges): MaybePromise<Schedule>;
  pauseSchedule(name: string): MaybePromise<Schedule>;
  resumeSchedule(name: string): MaybePromise<Schedule>;
  triggerSchedule(name: string): MaybePromise<TaskId>;
  backfillSchedule(name: string, from: Date, to: Date): MaybePromise<TaskId[]>;
  removeSchedule(name: string): MaybePromise<void>;
}

export interface ScheduleFeature {
  /** Loads what the actions need. Inside of a transaction there is no time for it: there they load it themselves. */
  load(): Promise<void>;
  over(store: ScheduleWrites, options: ActionOptions): ScheduleActions;
}

export interface ActionOptions {
  maxPayload: number;
  /** Whether the methods return values, not promises. */
  synchronous: boolean;
  /** Called when a task was made, or a schedule may be due sooner than it was. */
  wake: () => void;
}

/** The methods of these actions, which may be destructured. `synchronous`: they return values and throw, not promises. */
export function methodsOf(actions: ScheduleActions, synchronous: boolean): ScheduleActions {
  const act = <T>(action: () => MaybePromise<T>): MaybePromise<T> =>
    synchronous ? action() : (async () => await action())();
  return {
    schedule: (...given) => act(() => actions.schedule(...given)),
    schedules: (entries) => act(() => actions.schedules(entries)),
    getSchedule: (name) => act(() => actions.getSchedule(name)),
    listSchedules: (options) => act(() => actions.listSchedules(options)),
    editSchedule: (name, changes) => act(() => actions.editSchedule(name, changes)),
    pauseSchedule: (name) => act(() => actions.pauseSchedule(name)),
    resumeSchedule: (name) => act(() => actions.resumeSchedule(name)),
    triggerSchedule: (name) => act(() => actions.triggerSchedule(name)),
    backfillSchedule: (name, from, to) => act(() => actions.backfillSchedule(name, from, to)),
    removeSchedule: (name) => act(() => actions.removeSchedule(name)),
  };
}
