/**
 * Invariant: a worker that gets SIGTERM at any instant (starting, claiming, settling or idle, with long handlers and
 * short ones) exits in time, hands back what it runs, and charges nothing.
 */
import { deepStrictEqual } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Harness } from "../../fixtures/harness.ts";
import type { Move } from "../audit.ts";
import { demand } from "../checker.ts";
import type { History } from "../history.ts";
import { Load, pidOf } from "../load.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";

/** Milliseconds that a worker waits for its running tasks. */
const grace = 300;

/** The number of workers that live for a moment at a time. Two more run throughout, to take what is handed back. */
const lanes = 4;

/** Milliseconds from a worker's first line to its SIGTERM, at most. */
const life = 1_000;

const options = { concurrency: 6, grace };

/** How a stopped process exited. */
interface Ending {
  pid: number;
  how: number | string;
  /** When it exited, in milliseconds since 1970. */
  at: number;
  took: number;
}

export const sigterm: Scenario = {
  name: "sigterm",
  about:
    "Workers get SIGTERM at random instants: each exits in time, hands back its tasks, and charges nothing.",
  unit: "SIGTERMs",
  amounts: { test: 8, sample: 16, chaos: 150 },
  async run(trial) {
    const { harness } = trial;
    const load = await Load.start(harness, {
      workers: 2,
      enqueuers: 1,
      worker: { concurrency: 12 },
      // Most handlers outlast the grace, and some outlast the exit limit. None listens to its signal, and none throws.
      enqueuing: { pause: 400, longest: 6 * grace, plans: ["return", "within", "snoozeOnce", "within"] },
    });
    const endings = await stopMany(trial);
    const history = await load.drain();
    demand(history, { mayDie: () => false });
    demandUncharged(history);
    const failed = endings.filter(({ how }) => how !== 0);
    deepStrictEqual(failed, [], "a worker that gets SIGTERM exits with success");
    return figures(history, endings);
  },
};

async function stopMany({ harness, amount, random, progress }: Trial): Promise<Ending[]> {
  const endings: Ending[] = [];
  let begun = 0;
  const lane = async () => {
    while (begun < amount) {
      begun += 1;
      const child = harness.start("worker.ts", [options]);
      endings.push(await stopSoon(harness, child, random));
      progress(endings.length);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return endings;
}

/** A process without a signal handler yet is ended by the system: dbq has not begun there. */
async function stopSoon({ eventLog }: Harness, child: Child, random: () => number): Promise<Ending> {
  const { pid } = child;
  await eventLog.until("begun", (entry) => entry.pid === pid);
  // In a quarter of the cases the worker is still starting.
  await sleep(random() < 0.25 ? 40 * random() : life * random());
  const asked = Date.now();
  child.signal("SIGTERM");
  const how = await child.ended;
  const at = Date.now();
  return { pid, how, at, took: at - asked };
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
    { name: "before the worker was ready", value: early.length },
    { name: "tasks", value: tasks.length },
    { name: "tasks handed back", value: handedBack.length },
    ...spread(
      "from SIGTERM to exit",
      endings.map(({ took }) => took),
      { max: grace + 1_000 },
    ),
    ...spread("from exit to claimed elsewhere", elsewhere(history, endings, handedBack), { max: 1_000 }),
  ];
}

/**
 * For each task that was handed back, the milliseconds from its process's exit to the next claim; 0 for a claim before
 * the exit.
 */
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
