/** The database's file is deleted, renamed or replaced while workers and enqueuers have it open. */
import { deepStrictEqual, match, ok } from "node:assert/strict";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openQueue, type Queue } from "../../../src/index.ts";
import type { Entry } from "../../fixtures/ledger.ts";
import { type Child, Scene, startScript } from "../../fixtures/scene.ts";
import { chore } from "../../fixtures/tasks.ts";
import { Crowd } from "../crowd.ts";
import { openFile } from "../place/sqlite.ts";
import { type Figure, type Scenario, spread } from "../scenario.ts";

/** Short: a heartbeat must not go on unseen. */
const lease = 1_000;

/** Milliseconds after which everybody has to have noticed. */
const soon = 3_000;

const tasks = 5;

const suffixes = ["", "-wal", "-shm"];

function move(from: string, to: string): void {
  for (const suffix of suffixes) {
    rmSync(to + suffix, { force: true });
    if (existsSync(from + suffix)) renameSync(from + suffix, to + suffix);
  }
}

/** Puts another database at a path, with a few tasks that nobody runs yet, and gives the queue that holds it open. */
type Way = (database: string) => Promise<Queue>;

const ways: Readonly<Record<string, Way>> = {
  "another one moved over it": async (database) => {
    const other = `${database}.other`;
    const queue = await filled(other);
    await queue.close();
    move(other, database);
    return await openQueue(database);
  },
  "deleted, and made anew": async (database) => {
    for (const suffix of suffixes) rmSync(database + suffix, { force: true });
    return await filled(database);
  },
  "renamed, and made anew": async (database) => {
    move(database, `${database}.old`);
    return await filled(database);
  },
  "its folder renamed, and made anew": async (database) => {
    renameSync(dirname(database), `${dirname(database)}.old`);
    mkdirSync(dirname(database));
    return await filled(database);
  },
};

async function filled(database: string): Promise<Queue> {
  const queue = await openQueue(database);
  await queue.enqueueTasks(Array.from({ length: tasks }, () => [chore, 0, "return"] as const));
  return queue;
}

/** What one round has measured, in milliseconds after the file was replaced. */
interface Round {
  told: number[];
  refused: number;
  /** The last change of a task on the old file, and the last enqueue that was acknowledged there. */
  lastMove: number;
  lastAcknowledged: number;
  exit: number;
}

export const replaced: Scenario = {
  name: "replaced",
  about:
    "The file is deleted, renamed or replaced under its queues: all of them stop and say so, and leave the new one alone.",
  unit: "rounds",
  amounts: { test: 1, sample: 4, chaos: 8 },
  only: { kinds: ["sqlite"], why: "nobody renames a database while a server has it open" },
  async run({ scene, random, amount, progress }) {
    const rounds: Round[] = [];
    const names = Object.keys(ways);
    const first = Math.floor(names.length * random());
    for (let n = 0; n < amount; n += 1) {
      const way = ways[names[(first + n) % names.length] as string] as Way;
      rounds.push(await oneRound(join(scene.folder, `round-${n}`), way, random));
      progress(n + 1);
    }
    return figures(rounds);
  },
};

async function oneRound(folder: string, way: Way, random: () => number): Promise<Round> {
  mkdirSync(join(folder, "home"), { recursive: true });
  await using scene = await Scene.open(folder, join(folder, "home", "dbq.db"));
  // It goes with the trial's own folder, which stays when it fails.
  scene.keep();
  const crowd = await Crowd.start(scene, { workers: 2, enqueuers: 1, worker: { lease } });
  const command = startCommand(scene);
  await ready(command);
  await sleep(300 * random());
  using old = openFile(scene.database);
  // From its first read on a connection stays with the files that it has found.
  writtenIn(old);
  await using queue = await way(scene.database);
  const at = Date.now();
  const exit = demandFailure(command).then(() => Date.now() - at);
  const told = await Promise.all(crowd.workers.map(({ pid }) => toldOf(scene, "error", pid, at)));
  const refused = await Promise.all(crowd.enqueuers.map(({ pid }) => toldOf(scene, "refused", pid, at)));
  // Each of them notices by itself: from when the last has done so, nothing more is written.
  const exited = await exit;
  await demandUntouched(old, lease);
  const round = { told, refused: Math.max(...refused), exit: exited, ...lastWrites(old, scene, at) };
  await leave(scene, crowd, random);
  await demandOwn(scene, queue);
  return round;
}

/** `dbq worker`, of another queue: it only has to notice. */
function startCommand({ database }: Scene): Child {
  const compiled = process.env.DBQ_COMPILED;
  const here = fileURLToPath(new URL("../../fixtures/tasks.ts", import.meta.url));
  const module = compiled === undefined ? here : join(compiled, "test/fixtures/tasks.js");
  return startScript("../../src/entries/cli/main.ts", [
    "worker",
    module,
    "--db",
    database,
    "--queue",
    "other",
  ]);
}

async function ready({ output, ended }: Child): Promise<void> {
  const early = ended.then((end) => Promise.reject(new Error(`dbq worker: ${end}: ${output()}`)));
  early.catch(() => undefined);
  while (!output().includes("ready")) await Promise.race([sleep(10), early]);
}

/** Whoever has started it starts it anew, when it says that it has failed. */
async function demandFailure({ ended, output }: Child): Promise<void> {
  deepStrictEqual(await ended, 1, `dbq worker ends with a failure: ${output()}`);
  match(output(), /deleted, renamed or replaced/);
}

/** How long after the replacement somebody told of it, in words that name the file and say what to do. */
async function toldOf({ ledger, database }: Scene, what: string, pid: number, at: number): Promise<number> {
  const entry = await ledger.until(what, (told: Entry) => told.pid === pid && told.at >= at - 1_000);
  match(String(entry.note), /DatabaseMovedError: .*deleted, renamed or replaced.* open it anew/);
  ok(String(entry.note).includes(database), `it names the file: ${entry.note}`);
  return entry.at - at;
}

type Raw = ReturnType<typeof openFile>;

/** All that a queue writes, seen by a connection that has the old file open. */
const writtenIn = ({ client }: Raw) => ({
  tasks: client.prepare("select id, status, generation_id, progress from dbq_tasks").all(),
  workers: client.prepare("select id, beat from dbq_workers").all(),
});

/** @throws when something is written in so many milliseconds */
async function demandUntouched(old: Raw, ms: number): Promise<void> {
  const before = writtenIn(old);
  await sleep(ms);
  deepStrictEqual(writtenIn(old), before, "nothing more is written to the old file");
}

function lastWrites({ client }: Raw, { ledger }: Scene, at: number) {
  const lastMove = client.prepare<[], number>("select max(at) from audit").pluck().get() ?? 0;
  const lastAcknowledged = ledger.entries("acknowledged").at(-1)?.at ?? 0;
  return { lastMove: lastMove - at, lastAcknowledged: lastAcknowledged - at };
}

/** Those who close a file that is not there any more leave alone what is at its path, the write-ahead log too. */
async function leave({ queue }: Scene, { workers, enqueuers }: Crowd, random: () => number): Promise<void> {
  const stopped = [...enqueuers, ...workers.filter(() => random() < 0.3)];
  for (const worker of workers) worker.signal(stopped.includes(worker) ? "SIGTERM" : "SIGKILL");
  for (const enqueuer of enqueuers) enqueuer.signal("SIGTERM");
  for (const { ended, output } of stopped) deepStrictEqual(await ended, 0, output());
  await Promise.all(workers.map(({ ended }) => ended));
  await queue.close();
}

/** The new one holds its own tasks as they were enqueued; and once it has a worker, they are done. */
async function demandOwn(scene: Scene, queue: Queue): Promise<void> {
  using raw = openFile(scene.database);
  const found = raw.client.prepare("select status, generation_id from dbq_tasks").raw().all();
  deepStrictEqual(found, Array(tasks).fill(["pending", 1]), "nobody has touched the new file");
  deepStrictEqual(await queue.listWorkers(), []);
  deepStrictEqual(raw.client.pragma("integrity_check", { simple: true }), "ok");
  const worker = await scene.worker();
  for (let id = 1; id <= tasks; id += 1) {
    const { status } = await queue.awaitTaskCompletion(id, { timeout: "30s" });
    deepStrictEqual(status, "completed");
  }
  worker.signal("SIGTERM");
  deepStrictEqual(await worker.ended, 0, worker.output());
}

function figures(rounds: readonly Round[]): Figure[] {
  const most = (name: string, values: readonly number[], limit: number): Figure => {
    return { name: `${name} max`, value: Math.max(0, ...values), unit: "ms", most: limit };
  };
  return [
    { name: "rounds", value: rounds.length },
    ...spread(
      "from replaced to told by a worker",
      rounds.flatMap(({ told }) => told),
      { max: soon },
    ),
    most(
      "from replaced to refused",
      rounds.map(({ refused }) => refused),
      soon,
    ),
    most(
      "from replaced to the last acknowledgement",
      rounds.map(({ lastAcknowledged }) => lastAcknowledged),
      500,
    ),
    most(
      "from replaced to the last move",
      rounds.map(({ lastMove }) => lastMove),
      500,
    ),
    most(
      "from replaced to the end of dbq worker",
      rounds.map(({ exit }) => exit),
      10_000,
    ),
  ];
}
