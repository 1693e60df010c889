/**
 * Invariant: while the disk is full, enqueues are refused and nothing acknowledged is lost; once it has room again, all
 * workers go on by themselves.
 */
import { deepStrictEqual, match, ok, rejects } from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openQueue } from "../../../src/index.ts";
import { Scene } from "../../fixtures/scene.ts";
import { demand } from "../checker.ts";
import { Crowd, pidOf } from "../crowd.ts";
import type { History } from "../history.ts";
import { openFile } from "../place/sqlite.ts";
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
interface Drought {
  from: number;
  to: number;
  /** Whether enqueues must have been refused: otherwise the write-ahead log may have had room within itself. */
  bites: boolean;
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
    const disk = new SmallDisk(join(trial.scene.folder, "disk"), size);
    try {
      return await onDisk(disk, trial);
    } catch (error) {
      disk.save(join(trial.scene.folder, "saved"));
      throw error;
    } finally {
      disk.unmount();
    }
  },
};

/** Runs the trial with the event log on another disk. */
async function onDisk(
  disk: SmallDisk,
  { scene: { folder }, random, amount, progress }: Trial,
): Promise<Figure[]> {
  await using scene = await Scene.open(join(folder, "scene"), join(disk.folder, "dbq.db"));
  // It is removed with the trial's folder, which stays after a failure.
  scene.keep();
  const crowd = await Crowd.start(scene, {
    workers: 3,
    enqueuers: 2,
    worker: { concurrency: 10, lease },
    enqueuing: { pause: 150, longest: 500 },
  });
  const droughts: Drought[] = [];
  for (let round = 0; round < amount; round += 1) {
    await sleep(500 * random());
    droughts.push(await drought(disk, scene, crowd, round, random));
    progress(round + 1);
  }
  const history = await crowd.rest();
  demand(history, {
    allowed: ({ what, note }) => what !== "died" && tellsOfFullDisk(note),
    // A handler's own writes fail like all others.
    mayFail: ({ error }) => tellsOfFullDisk(error),
    mayDie: (worker) => crowd.killed.has(processOf(worker)),
  });
  crowd.demandInnocent(history);
  demandAsAcknowledged(history);
  for (const each of droughts) demandTold(history, each);
  return figures(history, droughts);
}

/** Fills the disk for one round, frees it, and waits until all workers run tasks again. */
async function drought(
  disk: SmallDisk,
  scene: Scene,
  crowd: Crowd,
  round: number,
  random: () => number,
): Promise<Drought> {
  const bites = round === 0 || random() < 0.75;
  if (bites) cutLog(scene);
  disk.fill(random() < 0.5 ? 0 : 65_536 * random());
  const from = Date.now();
  // An enqueuer notices at its next enqueue, a worker at its next write.
  if (bites)
    await Promise.all(["refused", "error"].map((what) => scene.ledger.until(what, ({ at }) => at >= from)));
  if (random() < 0.5) await demandClear(disk);
  const killed = round % 3 === 1 ? await crowd.killWorker(random) : undefined;
  await sleep(round % 3 === 0 ? 1.2 * lease : lease * random());
  disk.clear();
  const to = Date.now();
  const workers = crowd.workers.map(({ pid }) => pid);
  const atWork = (worker: number) =>
    scene.ledger.until("start", (entry) => entry.pid === worker && entry.at > to);
  await Promise.all(workers.map(atWork));
  if (killed) await crowd.addWorker();
  return { from, to, bites, workers };
}

/** Truncates the write-ahead log. A log that has grown once reuses its pages, and would need no more disk. */
function cutLog({ database }: Scene): void {
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
const tellsOfFullDisk = (note: unknown) => /database or disk is full/.test(String(note));

/** No enqueuer was killed, so a task without an acknowledgement must not exist. */
function demandAsAcknowledged({ entries, tasks }: History): void {
  const acknowledged = new Set(
    entries.filter(({ what }) => what === "acknowledged").map(({ task }) => task as number),
  );
  const unasked = tasks.filter(({ id }) => !acknowledged.has(id));
  deepStrictEqual(unasked, [], "a refused task does not exist");
}

function demandTold({ entries }: History, { from, to, bites }: Drought): void {
  const told = entries.filter(({ what, at }) => what === "error" && at >= from && at <= to);
  ok(!bites || told.length > 0, "workers report a full disk");
}

function figures({ entries, moves, tasks }: History, droughts: readonly Drought[]): Figure[] {
  const count = (what: string) => entries.filter((entry) => entry.what === what).length;
  const outlasting = droughts.flatMap(({ from, to }) => {
    const begun = new Set(moves.filter(({ at, status }) => status === "running" && at < from).map(key));
    return moves.filter(
      (move) => move.at >= to && move.wasStatus === "running" && begun.has(keyOfEnded(move)),
    );
  });
  return [
    { name: "rounds", value: droughts.length },
    { name: "tasks", value: tasks.length },
    { name: "refused", value: count("refused") },
    { name: "reported errors", value: count("error") },
    { name: "attempts that outlasted a full disk", value: outlasting.length },
    ...spread(
      "from free space to work",
      droughts.flatMap((each) => backAtWork(moves, each)),
      { max: patience },
    ),
  ];
}

/** For each worker, the milliseconds from free space to its first change of a task. */
function backAtWork(moves: History["moves"], { to, workers }: Drought): number[] {
  const after = moves.filter(({ at }) => at > to);
  return workers.map((worker) => (after.find((move) => pidOf(move) === worker)?.at ?? Infinity) - to);
}
