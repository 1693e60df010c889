/**
 * Invariant: while the disk is full, enqueues are refused and nothing acknowledged is lost; once it has room again, all
 * workers go on by themselves.
 */
import { deepStrictEqual, match, ok, rejects } from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openQueue } from "../../../src/index.ts";
import { Harness } from "../../fixtures/harness.ts";
import { openFile } from "../backends/sqlite.ts";
import { demand } from "../checker.ts";
import type { History } from "../history.ts";
import { Load, pidOf } from "../load.ts";
import { key, keyOfEnded, processOf } from "../promises/finder.ts";
import { type Figure, type Scenario, spread, type Trial } from "../scenario.ts";
import { SmallDisk } from "../small-disk.ts";

/** Bytes: the write-ahead log alone takes 16 MiB before it is reset. */
const size = 48 * 2 ** 20;

/** Milliseconds. In one of three rounds the disk stays full for longer. */
const lease = 3_000;

/** Milliseconds within which every worker must run tasks again. */
const patience = 8_000;

/** A time in which the disk was full. */
interface FullPhase {
  from: number;
  to: number;
  /** Whether enqueues must have been refused: otherwise the write-ahead log may have had room within itself. */
  refuses: boolean;
  /** The processes of the workers that survived it. */
  workers: number[];
}

export const diskfull: Scenario = {
  name: "diskfull",
  about:
    "The disk is full now and then: enqueues are refused, nothing acknowledged is lost, and all workers go on by themselves.",
  unit: "rounds",
  amounts: { test: 1, sample: 4, chaos: 10 },
  only: {
    kinds: ["sqlite"],
    why: "a server's disk is not the file's, and the server reports it in its own way",
  },
  unable: SmallDisk.unable,
  async run(trial) {
    const disk = new SmallDisk(join(trial.harness.folder, "disk"), size);
    try {
      return await onDisk(disk, trial);
    } catch (error) {
      disk.save(join(trial.harness.folder, "saved"));
      throw error;
    } finally {
      disk.unmount();
    }
  },
};

/** Runs the trial with the event log on another disk. */
async function onDisk(
  disk: SmallDisk,
  { harness: { folder }, random, amount, progress }: Trial,
): Promise<Figure[]> {
  await using harness = await Harness.open(join(folder, "harness"), join(disk.folder, "dbq.db"));
  // It is removed with the trial's folder, which stays after a failure.
  harness.keep();
  const load = await Load.start(harness, {
    workers: 3,
    enqueuers: 2,
    worker: { concurrency: 10, lease },
    enqueuing: { pause: 150, longest: 500 },
  });
  const phases: FullPhase[] = [];
  for (let round = 0; round < amount; round += 1) {
    await sleep(500 * random());
    phases.push(await fillForAWhile(disk, harness, load, round, random));
    progress(round + 1);
  }
  const history = await load.drain();
  demand(history, {
    allowed: ({ what, note }) => what !== "died" && reportsFullDisk(note),
    // A handler's own writes fail like all others.
    mayFail: ({ error }) => reportsFullDisk(error),
    mayDie: (worker) => load.killed.has(processOf(worker)),
  });
  load.demandNoFalseRescue(history);
  demandAsAcknowledged(history);
  for (const each of phases) demandReported(history, each);
  return figures(history, phases);
}

/** Fills the disk for one round, frees it, and waits until all workers run tasks again. */
async function fillForAWhile(
  disk: SmallDisk,
  harness: Harness,
  load: Load,
  round: number,
  random: () => number,
): Promise<FullPhase> {
  const refuses = round === 0 || random() < 0.75;
  if (refuses) cutLog(harness);
  disk.fill(random() < 0.5 ? 0 : 65_536 * random());
  const from = Date.now();
  // An enqueuer notices at its next enqueue, a worker at its next write.
  if (refuses)
    await Promise.all(
      ["refused", "error"].map((what) => harness.eventLog.until(what, ({ at }) => at >= from)),
    );
  if (random() < 0.5) await demandClear(disk);
  const killed = round % 3 === 1 ? await load.killWorker(random) : undefined;
  await sleep(round % 3 === 0 ? 1.2 * lease : lease * random());
  disk.clear();
  const to = Date.now();
  const workers = load.workers.map(({ pid }) => pid);
  const atWork = (worker: number) =>
    harness.eventLog.until("start", (entry) => entry.pid === worker && entry.at > to);
  await Promise.all(workers.map(atWork));
  if (killed) await load.addWorker();
  return { from, to, refuses, workers };
}

/** Truncates the write-ahead log. A log that has grown once reuses its pages, and would need no more disk. */
function cutLog({ database }: Harness): void {
  using raw = openFile(database);
  raw.client.pragma("wal_checkpoint(truncate)");
}

/** Opening a new database must fail with a clear error, since a new file needs space. */
async function demandClear(disk: SmallDisk): Promise<void> {
  disk.fill(0);
  const database = join(disk.folder, "new.db");
  const clear = (error: unknown) => {
    const { code, message } = error as Error & { code: string };
    match(`${code} ${message}`, /^DBQ_DATABASE .*new\.db: .*full/);
    return true;
  };
  await rejects(openQueue(database), clear, "a queue cannot be opened on a full disk");
  for (const file of [database, `${database}-wal`, `${database}-shm`]) rmSync(file, { force: true });
}

/** Reported by a worker, to an enqueuer, or by a statement of the app. */
const reportsFullDisk = (note: unknown) => /database or disk is full/.test(String(note));

/** No enqueuer was killed, so a task without an acknowledgement must not exist. */
function demandAsAcknowledged({ entries, tasks }: History): void {
  const acknowledged = new Set(
    entries.filter(({ what }) => what === "acknowledged").map(({ task }) => task as number),
  );
  const unasked = tasks.filter(({ id }) => !acknowledged.has(id));
  deepStrictEqual(unasked, [], "a refused task does not exist");
}

function demandReported({ entries }: History, { from, to, refuses }: FullPhase): void {
  const reports = entries.filter(({ what, at }) => what === "error" && at >= from && at <= to);
  ok(!refuses || reports.length > 0, "workers report a full disk");
}

function figures({ entries, moves, tasks }: History, phases: readonly FullPhase[]): Figure[] {
  const count = (what: string) => entries.filter((entry) => entry.what === what).length;
  const outlasting = phases.flatMap(({ from, to }) => {
    const begun = new Set(moves.filter(({ at, status }) => status === "running" && at < from).map(key));
    return moves.filter(
      (move) => move.at >= to && move.wasStatus === "running" && begun.has(keyOfEnded(move)),
    );
  });
  return [
    { name: "rounds", value: phases.length },
    { name: "tasks", value: tasks.length },
    { name: "refused", value: count("refused") },
    { name: "reported errors", value: count("error") },
    { name: "attempts that outlasted a full disk", value: outlasting.length },
    ...spread(
      "from free space to work",
      phases.flatMap((each) => backAtWork(moves, each)),
      { max: patience },
    ),
  ];
}

/** For each worker, the milliseconds from free space to its first change of a task. */
function backAtWork(moves: History["moves"], { to, workers }: FullPhase): number[] {
  const after = moves.filter(({ at }) => at > to);
  return workers.map((worker) => (after.find((move) => pidOf(move) === worker)?.at ?? Infinity) - to);
}
