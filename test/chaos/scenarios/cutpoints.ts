/**
 * Invariant: a process that is killed with SIGKILL before a statement is sent to a server, while it is in flight, or
 * after its answer, leaves its operation done or not begun, and the queue heals.
 */
import { chunks, evenly, inLanes, report } from "../crash/batches.ts";
import type { Files } from "../crash/operation.ts";
import { type Fate, kill } from "../crash/server/kill.ts";
import { operations } from "../crash/server/operations.ts";
import { Sandboxes } from "../crash/server/sandbox.ts";
import { type Kill, killsOf, populatedSandbox, type Trace, tracesOf } from "../crash/server/trace.ts";
import type { Figure, Scenario, Trial } from "../scenario.ts";
import { schemaOf } from "../schema.ts";

/** The number of cuts for one process: each uses some connections. */
const together = 8;

/** The same on machines with more processors: a lane uses about 20 of the 100 connections that a server allows. */
const lanes = 2;

export const cutpoints: Scenario = {
  name: "cutpoints",
  about:
    "A process is killed before, during and after each statement that it sends to a server: the operation is done or not begun, and the queue heals.",
  unit: "points",
  amounts: { test: 6, sample: 60, chaos: 10_000 },
  only: {
    kinds: ["postgres", "mysql"],
    why: "crashpoints does this on a file: it stops a synchronous driver",
  },
  async run(trial) {
    const sandboxes = Array.from({ length: lanes }, () => new Sandboxes(trial.harness));
    const populated = await populatedSandbox(sandboxes[0] as Sandboxes);
    const { digest } = await schemaOf(populated.database);
    const traces = await findTraces(trial, sandboxes, populated);
    const all = traces.flatMap(killsOf);
    const batches = batchesOf(evenly(all, trial));
    const [fates, broken] = [[] as Fate[], [] as unknown[]];
    await inLanes(lanes, batches, async (kills, lane) => {
      for (const fate of await kill(kills, sandboxes[lane] as Sandboxes, digest)) {
        if (typeof fate === "string") fates.push(fate);
        else broken.push(fate.broken);
        trial.progress(fates.length + broken.length);
      }
    });
    if (broken.length > 0) throw new Error(report(broken, fates.length + broken.length));
    return figures(traces.length, all.length, fates, batches.length);
  },
};

function figures(operations: number, all: number, fates: readonly Fate[], processes: number): Figure[] {
  const count = (fate: Fate) => fates.filter((each) => each === fate).length;
  const killed = fates.length - count("spared");
  return [
    { name: "operations", value: operations },
    { name: "points in total", value: all },
    { name: "points", value: killed },
    { name: "points survived", value: killed },
    // Cuts in a worker's life, which its timers make a few statements longer or shorter each time.
    { name: "points not reached", value: count("spared") },
    // Statements that change something, in flight when their process was killed.
    { name: "changes in flight that the server committed", value: count("sent and committed") },
    { name: "changes in flight that it rolled back", value: count("sent and rolled back") },
    { name: "processes killed", value: processes },
  ];
}

/** Records the operations one after the other until they have this many points. Each lane has its own databases. */
async function findTraces(
  { kind, amount, random }: Trial,
  sandboxes: readonly Sandboxes[],
  populated: Files,
): Promise<Trace[]> {
  const possible = operations.filter(({ only = kind }) => only === kind);
  const some = evenly(possible, { amount: Math.ceil(amount / 3), random });
  const found = await inLanes(lanes, chunks(some, together), (few, lane) =>
    tracesOf(few, sandboxes[lane] as Sandboxes, populated),
  );
  return found.flat();
}

/**
 * Operations whose statements vary have processes of their own: after a cut they try again, which would delay the
 * others. So do operations that open a queue: they hold a lock that all databases of a server share.
 */
function batchesOf(kills: readonly Kill[]): Kill[][] {
  const varying = kills.filter(({ trace }) => trace.operation.commits === undefined);
  const opening = kills.filter(({ trace }) => trace.source === undefined);
  const others = kills.filter((one) => !varying.includes(one) && !opening.includes(one));
  return [...chunks(varying, together / 2), ...chunks(opening, 1), ...chunks(others, together)];
}
