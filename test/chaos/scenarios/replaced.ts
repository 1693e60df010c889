/**
 * Invariant: when the database file is deleted, renamed or replaced under its queues, every queue stops with an error
 * that says so, and none writes to the new file.
 */
import { deepStrictEqual, match, ok } from "node:assert/strict";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openQueue, type Queue } from "../../../src/index.ts";
import type { Entry } from "../../fixtures/event-log.ts";
import { type Child, Harness, startScript } from "../../fixtures/harness.ts";
import { chore } from "../../fixtures/tasks.ts";
import { openFile } from "../backends/sqlite.ts";
import { Load } from "../load.ts";
import { type Figure, type Scenario, spread } from "../scenario.ts";

/** Short, so that an unnoticed heartbeat would show. */
const lease = 1_000;

/** Milliseconds within which every process must notice. */
const soon = 3_000;

const tasks = 5;

const suffixes = ["", "-wal", "-shm"];

function move(from: string, to: string): void {
  for (const suffix of suffixes) {
    rmSync(to + suffix, { force: true });
    if (existsSync(from + suffix)) renameSync(from + suffix, to + suffix);
  }
}

/** Puts another database with a few pending tasks at the path, and returns a queue that has it open. */
type Way = (database: string) => Promise<Queue>;

const ways: Readonly<Record<string, Way>> = {
  "moved another database over it": async (database) => {
    const other = `${database}.other`;
    const queue = await filled(other);
    await queue.close();
    move(other, database);
    return await openQueue(database);
  },
  "deleted and recreated": async (database) => {
    for (const suffix of suffixes) rmSync(database + suffix, { force: true });
    return await filled(database);
  },
  "renamed and recreated": async (database) => {
    move(database, `${database}.old`);
    return await filled(database);
  },
  "folder renamed and recreated": async (database) => {
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

/** The measurements of one round, in milliseconds since the file was replaced. */
interface Round {
  reported: number[];
  refused: number;
  /** The last change of a task in the old file, and the last enqueue acknowledged from it. */
  lastMove: number;
  lastAcknowledged: number;
  exit: number;
}

export const replaced: Scenario = {
  name: "replaced",
  about:
    "The file is deleted, renamed or replaced under its queues: all of them stop with an error that says so, and leave the new file alone.",
  unit: "rounds",
  amounts: { test: 1, sample: 4, chaos: 8 },
  only: { kinds: ["sqlite"], why: "a database on a server is not renamed while the server has it open" },
  async run({ harness, random, amount, progress }) {
    const rounds: Round[] = [];
    const names = Object.keys(ways);
    const first = Math.floor(names.length * random());
    for (let n = 0; n < amount; n += 1) {
      const way = ways[names[(first + n) % names.length] as string] as Way;
      rounds.push(await oneRound(join(harness.folder, `round-${n}`), way, random));
      progress(n + 1);
    }
    return figures(rounds);
  },
};

async function oneRound(folder: string, way: Way, random: () => number): Promise<Round> {
  mkdirSync(join(folder, "home"), { recursive: true });
  await using harness = await Harness.open(folder, join(folder, "home", "dbq.db"));
  // It is removed with the trial's folder, which stays after a failure.
  harness.keep();
  const load = await Load.start(harness, { workers: 2, enqueuers: 1, worker: { lease } });
  const command = startCommand(harness);
  await ready(command);
  await sleep(300 * random());
  using old = openFile(harness.database);
  // After its first read, a connection keeps the files that it has opened.
  writtenIn(old);
  await using queue = await way(harness.database);
  const at = Date.now();
  const exit = demandFailure(command).then(() => Date.now() - at);
  const reported = await Promise.all(load.workers.map(({ pid }) => reportedBy(harness, "error", pid, at)));
  const refused = await Promise.all(load.enqueuers.map(({ pid }) => reportedBy(harness, "refused", pid, at)));
  // Each process notices by itself. After the last one has, nothing more may be written.
  const exited = await exit;
  await demandUntouched(old, lease);
  const round = { reported, refused: Math.max(...refused), exit: exited, ...lastWrites(old, harness, at) };
  await leave(harness, load, random);
  await demandOwn(harness, queue);
  return round;
}

/** Starts `dbq worker` on another queue: it runs no tasks, and still has to notice. */
function startCommand({ database }: Harness): Child {
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

/** The exit code must be a failure, so that a supervisor starts the command again. */
async function demandFailure({ ended, output }: Child): Promise<void> {
  deepStrictEqual(await ended, 1, `dbq worker exits with a failure: ${output()}`);
  match(output(), /deleted, renamed or replaced/);
}

/** Milliseconds from the replacement until a process reported it, in words that name the file and say what to do. */
async function reportedBy(
  { eventLog, database }: Harness,
  what: string,
  pid: number,
  at: number,
): Promise<number> {
  const entry = await eventLog.until(what, (each: Entry) => each.pid === pid && each.at >= at - 1_000);
  match(String(entry.note), /DatabaseMovedError: .*deleted, renamed or replaced.* open it anew/);
  ok(String(entry.note).includes(database), `the error names the file: ${entry.note}`);
  return entry.at - at;
}

type Raw = ReturnType<typeof openFile>;

/** Everything that a queue writes, read by a connection that has the old file open. */
const writtenIn = ({ client }: Raw) => ({
  tasks: client.prepare("select id, status, generation_id, progress from dbq_tasks").all(),
  workers: client.prepare("select id, beat from dbq_workers").all(),
});

/** @throws Error when anything is written within this many milliseconds */
async function demandUntouched(old: Raw, ms: number): Promise<void> {
  const before = writtenIn(old);
  await sleep(ms);
  deepStrictEqual(writtenIn(old), before, "nothing more is written to the old file");
}

function lastWrites({ client }: Raw, { eventLog }: Harness, at: number) {
  const lastMove = client.prepare<[], number>("select max(at) from audit").pluck().get() ?? 0;
  const lastAcknowledged = eventLog.entries("acknowledged").at(-1)?.at ?? 0;
  return { lastMove: lastMove - at, lastAcknowledged: lastAcknowledged - at };
}

/** Closing a queue whose file is gone must not touch what is at its path now, nor its write-ahead log. */
async function leave({ queue }: Harness, { workers, enqueuers }: Load, random: () => number): Promise<void> {
  const stopped = [...enqueuers, ...workers.filter(() => random() < 0.3)];
  for (const worker of workers) worker.signal(stopped.includes(worker) ? "SIGTERM" : "SIGKILL");
  for (const enqueuer of enqueuers) enqueuer.signal("SIGTERM");
  for (const { ended, output } of stopped) deepStrictEqual(await ended, 0, output());
  await Promise.all(workers.map(({ ended }) => ended));
  await queue.close();
}

/** The new database holds its own tasks unchanged; a worker on it completes them. */
async function demandOwn(harness: Harness, queue: Queue): Promise<void> {
  using raw = openFile(harness.database);
  const found = raw.client.prepare("select status, generation_id from dbq_tasks").raw().all();
  deepStrictEqual(found, Array(tasks).fill(["pending", 1]), "the new file is untouched");
  deepStrictEqual(await queue.listWorkers(), []);
  deepStrictEqual(raw.client.pragma("integrity_check", { simple: true }), "ok");
  const worker = await harness.worker();
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
      "from replacement to a worker's error",
      rounds.flatMap(({ reported }) => reported),
      { max: soon },
    ),
    most(
      "from replacement to a refused enqueue",
      rounds.map(({ refused }) => refused),
      soon,
    ),
    most(
      "from replacement to the last acknowledgement",
      rounds.map(({ lastAcknowledged }) => lastAcknowledged),
      500,
    ),
    most(
      "from replacement to the last change of a task",
      rounds.map(({ lastMove }) => lastMove),
      500,
    ),
    most(
      "from replacement to the exit of dbq worker",
      rounds.map(({ exit }) => exit),
      10_000,
    ),
  ];
}
