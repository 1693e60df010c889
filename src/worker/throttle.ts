/** Writes what a `ThrottleTask` asks for. */
import { limitChannel } from "../events.ts";
import type { LimitStore } from "../features/limits/contract.ts";
import type { TaskRecord } from "../task.ts";
import type { HeldStarts } from "./held-starts.ts";

type Placed = Pick<TaskRecord, "func" | "groupKey">;

/** No task of this one's group, or without a group of its function, starts for `delay` milliseconds. */
export async function throttleGroup(
  limits: Pick<LimitStore, "throttle">,
  { func, groupKey }: Placed,
  delay: number,
): Promise<void> {
  const group = { kind: "group", name: func, group: groupKey ?? "" } as const;
  await limits.throttle(groupKey === null ? { kind: "func", name: func, group: "" } : group, delay);
  limitChannel.publish({ change: "throttled", func, group: groupKey, delay });
}

/** Whether a throttle by the first task is about the other one, too. */
const isThrottledWith = (first: Placed, other: Placed): boolean =>
  first.func === other.func && (first.groupKey === null || first.groupKey === other.groupKey);

/**
 * The same, for a worker: reports an error, and never rejects. Tasks that wait here for their turn do not start while it is
 * written, and are handed back after that.
 */
export async function throttleHolding(
  held: HeldStarts,
  limits: Pick<LimitStore, "throttle">,
  record: Pick<TaskRecord, "id" | "func" | "groupKey">,
  delay: number,
  report: (error: unknown, where: string) => void,
): Promise<void> {
  const stopped = held.take((other) => isThrottledWith(record, other));
  try {
    await throttleGroup(limits, record, delay);
  } catch (error) {
    report(error, `throttling the task "${record.func}" (${record.id})`);
  }
  for (const attempt of stopped) attempt.interrupt();
}
