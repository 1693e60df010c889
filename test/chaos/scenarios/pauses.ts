/**
 * Invariant: a worker that SIGSTOP pauses for longer than its lease has lost its tasks when SIGCONT wakes it. It
 * notices, and none of its outcomes is accepted.
 */
import { deepStrictEqual } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Entry } from "../../fixtures/event-log.ts";
import type { Child, Harness } from "../../fixtures/harness.ts";
import { hangOnce } from "../../fixtures/tasks.ts";
import type { Move, WorkerMove } from "../audit.ts";
import { backendOf, openRaw } from "../backends/backend.ts";
import { demand } from "../checker.ts";
import type { History } from "../history.ts";
import { isCrash, Load, pidOf } from "../load.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";

const lease = 1_000;
const length = 1.5 * lease;

/** The number of workers that are paused at a time, and the number of all workers. */
const lanes = 4;
const workers = 7;

/** Milliseconds before a pause, at most. */
const before = 600;
/** Milliseconds after waking, so that the next pause does not hide the effects of this one. */
const after = 700;

/** A worker checks its tasks at each heartbeat and every 400 ms; the rest is for the schedulers. */
const abortedWithin = Math.max(lease / 3, 400) + 300;

/** Milliseconds within which a worker must have a row again. */
const patience = 10_000;

/** A pause of one process, in milliseconds since 1970. */
interface Pause {
  pid: number;
  from: number;
  to: number;
}

export const pauses: Scenario = {
  name: "pauses",
  about:
    "Workers are paused for longer than their lease, several at a time: none of their outcomes is accepted after they wake.",
  unit: "pauses",
  amounts: { test: 3, sample: 15, chaos: 60 },
  async run(trial) {
    const { harness } = trial;
    const load = await Load.start(harness, {
      workers,
      enqueuers: 1,
      worker: { concurrency: 8, lease },
      // Some handlers end during the pause, so that they return as soon as the worker wakes; others continue after it.
      enqueuing: {
        pause: 500,
        longest: 1_600,
        plans: ["return", "within", "throwOnce", "within", "return", "snoozeOnce", "within", "fail"],
      },
    });
    const hanging: number[] = [];
    const made = await pauseMany(load.workers, trial, hanging);
    await goOn(harness, load.workers, made);
    for (const id of hanging) await harness.queue.cancelTask(id);
    const history = await load.drain();
    demand(history, { mayDie: () => false });
    return figures(history, made);
  },
};

/**
 * `hanging`: tasks that end only by their signal. A worker that does not pass the signal on would hold them for ever.
 */
async function pauseMany(
  all: readonly Child[],
  { harness, amount, random, progress }: Trial,
  hanging: number[],
): Promise<Pause[]> {
  const made: Pause[] = [];
  const awake = [...all];
  let begun = 0;
  const lane = async (_: unknown, n: number) => {
    while (begun < amount) {
      begun += 1;
      hanging.push(await harness.queue.enqueueTask(hangOnce.with({ priority: 9 })));
      await sleep(before * random());
      const [victim] = awake.splice(Math.floor(awake.length * random()), 1) as [Child];
      const narrowly = n === 0;
      made.push(await (narrowly ? pauseNarrowly(victim, harness.database, random) : pause(victim, idle)));
      progress(made.length);
      await sleep(after);
      awake.push(victim);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return made;
}

const idle = async () => undefined;

async function pause({ pid, signal }: Child, meanwhile: () => Promise<void>): Promise<Pause> {
  const from = Date.now();
  signal("SIGSTOP");
  await meanwhile();
  await sleep(from + length - Date.now());
  const to = Date.now();
  signal("SIGCONT");
  return { pid, from, to };
}

/** Milliseconds after its lease in which a silent worker may still send a heartbeat. */
const lastChance = 120;

/**
 * Ends the pause when another worker has decided that this one is dead and cannot write it yet. After waking, both want
 * to write; if the heartbeat comes first, the worker lives.
 */
async function pauseNarrowly(child: Child, database: string, random: () => number): Promise<Pause> {
  // Do not wait for the lock: its holder may be paused too. The transaction is rolled back in the end.
  await using raw = await openRaw(database, 10);
  const { audit, lockWorker } = backendOf(database);
  const silence = `select ${audit.now} - ${audit.millis("heartbeat_at")} as silent from dbq_workers where pid = ${child.pid}`;
  const made = await pause(child, async () => {
    const [found] = await raw.all<{ silent: number }>(silence);
    await sleep(lease + lastChance - (found?.silent ?? 0));
    // If the lock was not taken, this is a pause like any other.
    for (const statement of lockWorker(child.pid)) await raw.run(statement).catch(() => undefined);
  });
  await sleep(20 * random());
  return made;
}

/** Waits until each worker claims again, and has a row again: a rescue may have deleted its old one. */
async function goOn(
  { eventLog, queue }: Harness,
  all: readonly Child[],
  made: readonly Pause[],
): Promise<void> {
  const woken = new Map(made.map(({ pid, to }) => [pid, to]));
  await Promise.all(
    [...woken].map(([pid, to]) => eventLog.until("start", (entry) => entry.pid === pid && entry.at > to)),
  );
  const wanted = new Set(all.map(({ pid }) => pid));
  const found = async () => new Set((await queue.listWorkers()).map(({ pid }) => pid));
  // On a busy machine a worker that was not paused may lose its row too, and comes back soon.
  const end = performance.now() + patience;
  while (performance.now() < end && !isDeepStrictEqual(await found(), wanted)) await sleep(20);
  deepStrictEqual(await found(), wanted, "each worker has one row");
}

/** What happened to the handler of an attempt that was taken from a worker. */
interface Loss {
  move: Move;
  reported: boolean;
  /** Milliseconds from waking to the handler's return, or to its signal. */
  returned?: number;
  aborted?: number;
}

function figures(history: History, made: readonly Pause[]): Figure[] {
  const { moves, tasks, entries } = history;
  const lost = moves.filter(isCrash);
  const asleep = lost.flatMap((move) => {
    const since = made.find((one) => isSince(one, move, history));
    return since === undefined ? [] : [lossOf(move, since, entries)];
  });
  const unsignalled = asleep.filter(
    ({ returned, aborted }) => returned === undefined && aborted === undefined,
  );
  deepStrictEqual(
    unsignalled,
    [],
    "a handler whose task was lost gets the abort signal, unless it has returned",
  );
  const unreported = asleep.filter(({ reported }) => !reported);
  deepStrictEqual(unreported, [], "a worker reports each task that it has lost");
  const returned = asleep.filter(({ aborted }) => aborted === undefined);
  const late = returned.flatMap(({ returned: after = 0 }) => (after > abortedWithin ? [after] : []));
  const aborted = asleep.flatMap(({ aborted: after }) => (after === undefined ? [] : [after]));
  return [
    { name: "pauses", value: made.length },
    { name: "tasks", value: tasks.length },
    { name: "rescued workers", value: entries.filter(({ what }) => what === "rescued").length },
    { name: "lost attempts", value: lost.length },
    { name: "lost attempts of running workers", value: lost.length - asleep.length, most: 0 },
    { name: "handlers that returned too late", value: returned.length },
    ...spread("from waking to abort signal", [...aborted, ...late], { max: abortedWithin }),
  ];
}

/** Whether a worker lost a task after this pause began, and before its next heartbeat. */
function isSince({ pid, from, to }: Pause, move: Move, { workerMoves }: History): boolean {
  if (pid !== pidOf(move) || move.at < from) return false;
  // The transaction that takes a worker's tasks deletes its row, before or after that: the clock may go on in between.
  const distance = ({ at }: WorkerMove) => Math.abs(at - move.at);
  const [gone] = workerMoves
    .filter(({ worker, came }) => worker === move.worker && !came)
    .sort((a, b) => distance(a) - distance(b));
  return gone !== undefined && gone.at - gone.silent <= to;
}

function lossOf(move: Move, { to }: Pause, entries: readonly Entry[]): Loss {
  const about = entries.filter(
    ({ task, generation, pid }) =>
      task === move.task && generation === move.wasGeneration && pid === pidOf(move),
  );
  const since = Math.max(to, move.at);
  const ended = about.find(({ what }) => what === "end");
  // The signal of a lost task, not the one of a worker that stops much later.
  const aborted = about.find(({ what, note }) => what === "aborted" && note === "DBQ_LOST_GENERATION");
  return {
    move,
    reported: about.some(({ what }) => what === "lost"),
    ...(ended ? { returned: ended.at - since } : {}),
    ...(aborted ? { aborted: Math.max(0, aborted.at - since) } : {}),
  };
}
