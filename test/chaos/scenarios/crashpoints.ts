/**
 * Invariant: a process that is killed with SIGKILL before or after any statement leaves its operation done or not
 * begun, and the queue heals.
 */
import { mkdirSync, realpathSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { chunks, evenly, inLanes, report } from "../crash/batches.ts";
import { type Kill, killAt, survives } from "../crash/kill.ts";
import type { Operation } from "../crash/operation.ts";
import { operations } from "../crash/operations.ts";
import { furnish } from "../crash/populated.ts";
import { filesIn, type Trace, tracesOf } from "../crash/trace.ts";
import type { Figure, Scenario } from "../scenario.ts";

/** The number of points at which one process is killed in turn. */
const together = 16;

/** Each lane is a process that is mostly busy. This process judges them all, and takes one more core. */
const lanes = availableParallelism() + 1;

export const crashpoints: Scenario = {
  name: "crashpoints",
  about:
    "A process is killed before and after each statement of each operation: the operation is done or not begun, and the queue heals.",
  unit: "points",
  amounts: { test: 60, sample: 300, chaos: 10_000 },
  only: {
    kinds: ["sqlite"],
    why: "it stops a synchronous driver between statements, and compares copies of the file",
  },
  async run(trial) {
    const traces = await findPoints(join(realpathSync(trial.harness.folder), "crash"));
    const all = traces.flatMap((trace) => trace.points.map((_, at) => ({ trace, at })));
    const [batches, broken] = [batchesOf(evenly(all, trial)), [] as unknown[]];
    let [done, killed, spared] = [0, 0, 0];
    await inLanes(lanes, batches, async (kills) => {
      await killAt(kills);
      for (const kill of kills) {
        try {
          if (await survives(kill)) killed += 1;
          else spared += 1;
        } catch (error) {
          broken.push(error);
        }
        done += 1;
        trial.progress(done);
      }
    });
    if (broken.length > 0) throw new Error(report(broken, killed + broken.length));
    return figures(all.length, killed, spared, batches.length);
  },
};

function figures(all: number, killed: number, spared: number, processes: number): Figure[] {
  return [
    { name: "operations", value: operations.length },
    { name: "points in total", value: all },
    { name: "points", value: killed },
    { name: "points survived", value: killed },
    // Points in a worker's life, which its timers make a few statements longer or shorter each time.
    { name: "points not reached", value: spared },
    { name: "processes killed", value: processes },
  ];
}

async function findPoints(folder: string): Promise<Trace[]> {
  const populated = join(folder, "populated");
  mkdirSync(populated, { recursive: true });
  await furnish(filesIn(populated));
  const folderOf = (operation: Operation) => join(folder, String(operations.indexOf(operation)));
  const found = await inLanes(lanes, chunks(operations, 12), (some) => tracesOf(some, folderOf, populated));
  return found.flat();
}

/**
 * Operations whose statements vary have processes of their own: after a stop they try again, which would delay the
 * others.
 */
function batchesOf(kills: readonly Kill[]): Kill[][] {
  const varies = ({ trace }: Kill) => trace.operation.commits === undefined;
  return [
    ...chunks(kills.filter(varies), together / 2),
    ...chunks(
      kills.filter((kill) => !varies(kill)),
      together,
    ),
  ];
}
