/** Carries out what a `ThrottleTask` asks for. */
import type { TaskRecord } from "../task.ts";
import type { ClaimPolicy, ThrottledTask } from "./claim-policy.ts";
import type { HeldStarts } from "./held-starts.ts";

/** Whether a throttle by the first task is about the other one, too. */
const isThrottledWith = (first: ThrottledTask, other: ThrottledTask): boolean =>
  first.func === other.func && (first.groupKey === null || first.groupKey === other.groupKey);

/**
 * Reports an error, and never rejects. Tasks that wait here for their turn do not start while the throttle is written, and are
 * handed back after that.
 */
export async function throttleHolding(
  held: HeldStarts,
  claims: Pick<ClaimPolicy, "throttle">,
  record: Pick<TaskRecord, "id" | "func" | "groupKey">,
  delay: number,
  report: (error: unknown, where: string) => void,
): Promise<void> {
  const stopped = held.take((other) => isThrottledWith(record, other));
  try {
    await claims.throttle(record, delay);
  } catch (error) {
    report(error, `throttling the task "${record.func}" (${record.id})`);
  }
  for (const attempt of stopped) attempt.interrupt();
}
