/** SIGTERM at random instants: while a worker starts, claims, settles or waits; long handlers and short ones. */
import { deepStrictEqual } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Scene } from "../../fixtures/scene.ts";
import type { Move } from "../audit.ts";
import { demand } from "../checker.ts";
import { Crowd, pidOf } from "../crowd.ts";
import type { History } from "../history.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";

/** Milliseconds that a worker gives to what it runs. */
const grace = 300;

/** So many workers at a time live for a moment; two go on, so that there is somebody to take what is handed back. */
const lanes = 4;

/** Milliseconds from a worker's first line to its SIGTERM, at most. */
const life = 1_000;

const options = { concurrency: 6, grace };

/** How a process has ended that was told to. */
interface Ending {
  pid: number;
  how: number | string;
  /** When it had ended, in milliseconds since 1970. */
  at: number;
  took: number;
}

export const terms: Scenario = {
  name: "terms",
  about:
    "Workers are stopped at random instants: each ends in time, hands back what it ran, and charges nothing.",
  unit: "SIGTERMs",
  amounts: { test: 8, sample: 60, chaos: 150 },
  async run(trial) {
    const { scene } = trial;
    const crowd = await Crowd.start(scene, {
      workers: 2,
      enqueuers: 1,
      worker: { concurrency: 12 },
      // Most take longer than the grace, some than a worker may still live; none heeds its signal, and none ever throws.
      enqueuing: { pause: 400, longest: 6 * grace, plans: ["return", "within", "snoozeOnce", "within"] },
    });
    const endings = await stopMany(trial);
    const history = await crowd.rest();
    demand(history, { mayDie: () => false });
    demandUncharged(history);
    const failed = endings.filter(({ how }) => how !== 0);
    deepStrictEqual(failed, [], "whoever is told to stop ends with success");
    return figures(history, endings);
  },
};

async function stopMany({ scene, amount, random, progress }: Trial): Promise<Ending[]> {
  const endings: Ending[] = [];
  let begun = 0;
  const lane = async () => {
    while (begun < amount) {
      begun += 1;
      const child = scene.start("worker.ts", [options]);
      endings.push(await stopSoon(scene, child, random));
      progress(endings.length);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return endings;
}

/** A process that has no handler for the signal yet is ended by the system: nothing of dbq's has begun. */
async function stopSoon({ ledger }: Scene, child: Child, random: () => number): Promise<Ending> {
  const { pid } = child;
  await ledger.until("begun", (entry) => entry.pid === pid);
  // A quarter is still starting.
  await sleep(random() < 0.25 ? 40 * random() : life * random());
  const told = Date.now();
  child.signal("SIGTERM");
  const how = await child.ended;
  const at = Date.now();
  return { pid, how, at, took: at - told };
}

function demandUncharged({ attempts, tasks }: History): void {
  deepStrictEqual(attempts, [], "no attempt is recorded");
  const charged = tasks.filter(({ retries }) => retries > 0);
  deepStrictEqual(charged, [], "no retry is charged");
}

function figures(history: History, endings: readonly Ending[]): Figure[] {
  const { moves, tasks, entries } = history;
  const handedBack = moves.filter(({ wasStatus, status }) => wasStatus === "running" && status === "pending");
  const readyAt = new Map(entries.filter(({ what }) => what === "ready").map(({ pid, at }) => [pid, at]));
  const early = endings.filter(({ pid, at, took }) => (readyAt.get(pid) ?? at) > at - took);
  return [
    { name: "SIGTERMs", value: endings.length },
    { name: "before it was ready", value: early.length },
    { name: "tasks", value: tasks.length },
    { name: "handed back", value: handedBack.length },
    ...spread(
      "from SIGTERM to exit",
      endings.map(({ took }) => took),
      { max: grace + 1_000 },
    ),
    ...spread("from exit to claimed elsewhere", elsewhere(history, endings, handedBack), { max: 1_000 }),
  ];
}

/** For each task that was handed back, how long after the end of its process another one has claimed it: at once is 0. */
function elsewhere({ moves }: History, endings: readonly Ending[], handedBack: readonly Move[]): number[] {
  const endOf = new Map(endings.map(({ pid, at }) => [pid, at]));
  return handedBack.flatMap((move) => {
    const next = moves.find(
      ({ seq, task, status }) => seq > move.seq && task === move.task && status === "running",
    );
    const ended = endOf.get(pidOf(move));
    return next === undefined || ended === undefined ? [] : [Math.max(0, next.at - ended)];
  });
}
