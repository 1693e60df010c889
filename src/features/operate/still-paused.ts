/** Finds the pauses that remain after a queue, a function or a group was resumed. */
import { isDeepStrictEqual } from "node:util";
import type { PauseTarget } from "../../base/options/limits.ts";
import { internalsOf, type Queue } from "../queue.ts";
import { pausesAmong } from "./pauses.ts";

/**
 * The pauses that may still hold tasks of this target back, the oldest first. Of a queue: all paused functions and groups, since
 * any of them may have tasks in it. Of a function or a group: the function, its groups, and the paused queues in which it has
 * pending tasks.
 * @throws DatabaseError
 */
export async function stillPaused(queue: Queue, target: PauseTarget): Promise<PauseTarget[]> {
  const { store } = internalsOf(queue);
  const paused = pausesAmong(await store.limits.records()).map((pause) => pause.target);
  const others = paused.filter((other) => !isDeepStrictEqual(other, target));
  if ("queueName" in target) return others.filter((other) => "func" in other);
  const { func, group } = target;
  const queues = others.some((other) => "queueName" in other) ? await store.health.backlog(1, 1) : [];
  return others.filter((other) =>
    "queueName" in other
      ? queues.some((each) => each.func === func && each.queueName === other.queueName)
      : other.func === func && (group === undefined || other.group === undefined),
  );
}
