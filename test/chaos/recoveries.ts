/** How long the tasks of killed workers took to be freed, and to start in another process. */
import { deepStrictEqual } from "node:assert/strict";
import type { History } from "./history.ts";
import { isCrash, pidOf } from "./load.ts";
import { type Figure, type Limits, spread } from "./scenario.ts";

/**
 * The figures of all killed attempts. `killed`: the time of each kill by process id.
 * @throws Error when a task of a killed worker has not started again
 */
export function recoveries(
  { moves, entries }: History,
  killed: ReadonlyMap<number, number>,
  most: Limits,
): Figure[] {
  const rescues = moves.filter((move) => isCrash(move) && killed.has(pidOf(move)));
  const starts = new Map<number, { generation: number; at: number }[]>();
  for (const { what, task, generation = 0, at } of entries) {
    if (what !== "start" || task === undefined) continue;
    const known = starts.get(task);
    if (known) known.push({ generation, at });
    else starts.set(task, [{ generation, at }]);
  }
  // On a server a worker may claim the task ahead and hand it back, because it had no slot in time.
  const restarts = rescues.map(({ task, generation }) =>
    starts.get(task)?.find((start) => start.generation > (generation ?? 0)),
  );
  const stuck = rescues.filter((_, n) => restarts[n] === undefined);
  deepStrictEqual(stuck, [], "each task of a killed worker has started again");
  const killedAt = (n: number) => killed.get(pidOf(rescues[n] as (typeof rescues)[number])) ?? 0;
  const freed = rescues.map(({ at }, n) => at - killedAt(n));
  const took = restarts.map((start, n) => (start?.at ?? 0) - killedAt(n));
  return [
    { name: "killed attempts", value: rescues.length },
    ...spread("from kill to freed", freed),
    ...spread("from kill to start", took, most),
  ];
}
