/** The rows of limits as an app knows them: their targets, and the pauses among them. */
import type { LimitScope, LimitTarget, PauseTarget } from "../../base/options/limits.ts";
import type { Pause } from "../inspect/methods.ts";
import type { LimitRecord, LimitState } from "../limits/contract.ts";
import type { LimitInfo } from "../limits/methods.ts";

export const targetOf = ({ kind, name, group }: LimitScope): LimitTarget => {
  if (kind === "name") return name;
  if (kind === "queue") return { queueName: name };
  return kind === "group" && group !== "" ? { func: name, group } : { func: name };
};

/** The pauses among these, the oldest first. */
export function pausesAmong(records: readonly LimitRecord[]): Pause[] {
  return records
    .flatMap(({ pausedAt, ...scope }) =>
      pausedAt === null ? [] : [{ target: targetOf(scope) as PauseTarget, pausedAt: new Date(pausedAt) }],
    )
    .sort((a, b) => a.pausedAt.getTime() - b.pausedAt.getTime());
}

const dateOf = (time: number | null) => (time === null ? null : new Date(time));

export const limitInfoOf = ({
  concurrency,
  rate,
  running,
  waiting,
  putOff,
  ...state
}: LimitState): LimitInfo => ({
  target: targetOf(state),
  fromCode: state.kind === "code",
  ...{ concurrency, rate, running, waiting, putOff },
  putOffSince: dateOf(state.putOffSince),
  hasGroups: state.hasGroups,
  nextFreeAt: dateOf(state.nextFreeAt),
  pausedAt: dateOf(state.pausedAt),
});
