/** What a queue does about limits and pauses: validates, writes, wakes the workers of this process and reports. */

import type { LimitScope } from "../base/options/limits.ts";
import {
  type Limit,
  type LimitTarget,
  type PauseTarget,
  readLimit,
  readLimitTarget,
  readPauseTarget,
} from "../base/options/limits.ts";
import { limitChannel } from "../events.ts";
import type { LimitRecord, LimitState } from "../features/limits/contract.ts";
import type { Pause } from "./health.ts";
import type { QueueInternals } from "./internals.ts";

/** A limit, a pause or a throttle, and what it is about at this moment. */
export interface LimitInfo {
  /** What it is about, as `setLimit` and `pause` take it. */
  target: LimitTarget;
  /** Whether its values come from the function's option `limit`, and not from `setLimit`. */
  fromCode: boolean;
  /** How many tasks may run at once; `null`: no limit. */
  concurrency: number | null;
  /** How often tasks may start, with `per` in milliseconds; `null`: no limit. */
  rate: { limit: number; per: number; burst: number } | null;
  /** How many tasks run that it is about. Of a function: in all groups together. */
  running: number;
  /**
   * How many `pending` tasks it is about, also those that wait for other reasons, counted up to 10,000. `null` for a shared
   * name: those of its functions are not counted. Tasks that a rate has put off are `scheduled`: `putOff` counts them.
   */
  waiting: number | null;
  /**
   * How many `scheduled` tasks its rate has put off to their turns, counted up to 10,000; a task with a delay of its own is none
   * of them. Of a function: in all groups together; `null`: not known, since rates of others have put off more than 10,000.
   */
  putOff: number | null;
  /** When the rate put off the one of them that waits longest; `null`: there is none, or it is not known. */
  putOffSince: Date | null;
  /**
   * Whether pending or running tasks of the function have a group: its values then hold for each group by itself, and for the
   * tasks without one. False for all that is no function.
   */
  hasGroups: boolean;
  /** When the rate or a throttle lets the next task start; `null`: they let one start now. Of a function: without its groups. */
  nextFreeAt: Date | null;
  /** Since when it is paused; `null`: it is not. */
  pausedAt: Date | null;
}

const targetOf = ({ kind, name, group }: LimitScope): LimitTarget => {
  if (kind === "name") return name;
  if (kind === "queue") return { queueName: name };
  return kind === "group" && group !== "" ? { func: name, group } : { func: name };
};

const dateOf = (time: number | null) => (time === null ? null : new Date(time));

const infoOf = ({ concurrency, rate, running, waiting, putOff, ...state }: LimitState): LimitInfo => ({
  target: targetOf(state),
  fromCode: state.kind === "code",
  ...{ concurrency, rate, running, waiting, putOff },
  putOffSince: dateOf(state.putOffSince),
  hasGroups: state.hasGroups,
  nextFreeAt: dateOf(state.nextFreeAt),
  pausedAt: dateOf(state.pausedAt),
});

export async function setLimit(
  { store, wakeups }: QueueInternals,
  target: LimitTarget,
  limit: Limit | null,
): Promise<void> {
  const scope = readLimitTarget(target, "setLimit");
  const values = limit === null ? null : readLimit(limit, "setLimit: limit");
  await store.limits.set(scope, values);
  wakeups.workAdded();
  limitChannel.publish({ change: "limited", target: targetOf(scope), limit: values });
}

/** The pauses among these, the oldest first. */
export function pausesAmong(records: readonly LimitRecord[]): Pause[] {
  return records
    .flatMap(({ pausedAt, ...scope }) =>
      pausedAt === null ? [] : [{ target: targetOf(scope) as PauseTarget, pausedAt: new Date(pausedAt) }],
    )
    .sort((a, b) => a.pausedAt.getTime() - b.pausedAt.getTime());
}

export async function listLimits({ store }: QueueInternals): Promise<LimitInfo[]> {
  return (await (store.requests ?? store).limits.list()).map(infoOf);
}

export async function pause({ store }: QueueInternals, target: PauseTarget): Promise<boolean> {
  const scope = readPauseTarget(target, "pause");
  const changed = await store.limits.pause(scope);
  if (changed) limitChannel.publish({ change: "paused", target: targetOf(scope) });
  return changed;
}

export async function resume({ store, wakeups }: QueueInternals, target: PauseTarget): Promise<boolean> {
  const scope = readPauseTarget(target, "resume");
  const changed = await store.limits.resume(scope);
  wakeups.workAdded();
  if (changed) limitChannel.publish({ change: "resumed", target: targetOf(scope) });
  return changed;
}
