/** How long the tasks of killed workers took to be freed, and to start in another process. */
import { deepStrictEqual } from "node:assert/strict";
import { isCrash, pidOf } from "./crowd.ts";
import type { History } from "./history.ts";
import { type Figure, type Limits, spread } from "./scenario.ts";

/**
 * The figures of all attempts that kills have cut off. `killed`: the time of each kill by process id.
 * @throws when a task that was cut off has not started again
 */
export function recoveries(
  { moves, entries }: History,
  killed: ReadonlyMap<number, number>,
  most: Limits,
): Figure[] {
  const cutOff = moves.filter((move) => isCrash(move) && killed.has(pidOf(move)));
  const starts = new Map<number, { generation: number; at: number }[]>();
  for (const { what, task, generation = 0, at } of entries) {
    if (what !== "start" || task === undefined) continue;
    const known = starts.get(task);
    if (known) known.push({ generation, at });
    else starts.set(task, [{ generation, at }]);
  }
  // On a server a worker may claim the task ahead and hand it back, because it had no slot in time.
  const restarts = cutOff.map(({ task, generation }) =>
    starts.get(task)?.find((start) => start.generation > (generation ?? 0)),
  );
  const stuck = cutOff.filter((_, n) => restarts[n] === undefined);
  deepStrictEqual(stuck, [], "each task that was cut off has started again");
  const killedAt = (n: number) => killed.get(pidOf(cutOff[n] as (typeof cutOff)[number])) ?? 0;
  const freed = cutOff.map(({ at }, n) => at - killedAt(n));
  const took = restarts.map((start, n) => (start?.at ?? 0) - killedAt(n));
  return [
    { name: "attempts cut off", value: cutOff.length },
    ...spread("from kill to freed", freed),
    ...spread("from kill to start", took, most),
  ];
}
