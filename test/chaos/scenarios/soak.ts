/**
 * Invariant: at a steady rate each task is done once, and neither memory nor the write-ahead log grows with time. There
 * is no audit here, since it would grow too; triggers count instead.
 */
import { deepStrictEqual } from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Harness } from "../../fixtures/harness.ts";
import { openFile } from "../backends/sqlite.ts";
import { stopAll } from "../drain.ts";
import { type Figure, percentile, type Scenario, type Trial } from "../scenario.ts";

/** Tasks per second. */
const rate = 200;

/** Seconds between samples, at most. */
const between = 5;

/** Seconds from which a slope counts: before, memory that is not yet reused looks like growth. */
const longEnough = 1_800;

const mebibyte = 2 ** 20;
const walLimit = 64 * mebibyte;

/** Counters that triggers keep: tasks inserted, completed, and deleted after completion. */
interface Counts {
  inserted: number;
  completed: number;
  deleted: number;
}

const counting = `
  create table soak (inserted integer not null, completed integer not null, deleted integer not null);
  insert into soak values (0, 0, 0);
  create trigger soak_insert after insert on dbq_tasks begin
    update soak set inserted = inserted + 1;
  end;
  create trigger soak_complete after update of status on dbq_tasks
    when old.status = 'running' and new.status = 'completed'
  begin
    update soak set completed = completed + 1;
  end;
  create trigger soak_delete after delete on dbq_tasks when old.status = 'completed' begin
    update soak set deleted = deleted + 1;
  end;`;

/** Seconds since the beginning, and bytes. */
interface Sample {
  at: number;
  resident: number[];
  wal: number;
}

export const soak: Scenario = {
  name: "soak",
  about:
    "Tasks at a steady rate: memory and the write-ahead log stay within bounds, and each task is done once.",
  unit: "seconds",
  amounts: { test: 3, sample: 15, chaos: 30 },
  only: {
    kinds: ["sqlite"],
    why: "it reads the size of the write-ahead log beside the file, and its counters need a single writer",
  },
  unable: () => (process.platform === "linux" ? undefined : "it reads /proc"),
  async run(trial) {
    const { harness } = trial;
    count(harness);
    const workers = [1, 2].map(() => harness.start("soak.ts", ["worker"]));
    const enqueuer = harness.start("soak.ts", ["enqueuer", String(rate)]);
    await harness.eventLog.count("ready", 3);
    const samples = await sampleAll(trial, [...workers, enqueuer]);
    await stopAll([enqueuer]);
    await done(harness);
    await stopAll(workers);
    return judged(trial, samples);
  },
};

function count({ database }: Harness): void {
  using raw = openFile(database);
  raw.client.exec(counting);
}

function countsOf({ database }: Harness): Counts & { left: number } {
  using raw = openFile(database);
  const left = raw.client.prepare("select count(*) from dbq_tasks").pluck().get() as number;
  return { ...(raw.client.prepare("select * from soak").get() as Counts), left };
}

async function sampleAll(trial: Trial, children: readonly Child[]): Promise<Sample[]> {
  const { amount, progress, harness } = trial;
  const samples: Sample[] = [];
  const begun = performance.now();
  const every = Math.min(between, amount / 6);
  for (let at = 0; at < amount; ) {
    await sleep(every * 1_000);
    at = (performance.now() - begun) / 1_000;
    const resident = children.map(residentOf);
    samples.push({ at, resident, wal: statSync(`${harness.database}-wal`).size });
    progress(Math.min(amount, Math.floor(at)));
  }
  return samples;
}

/** Bytes of resident memory, from proc_pid_status(5). */
function residentOf({ pid }: Child): number {
  const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  if (kibibytes === undefined) throw new Error(`process ${pid} has ended`);
  return Number(kibibytes) * 1_024;
}

async function done(harness: Harness): Promise<void> {
  while (!(await isIdle(harness))) await sleep(50);
}

async function isIdle({ queue }: Harness): Promise<boolean> {
  const { pending, scheduled, running } = await queue.countTasks();
  return pending + scheduled + running === 0;
}

function judged({ harness, amount }: Trial, samples: readonly Sample[]): Figure[] {
  const troubles = harness.eventLog.entries().filter(({ what }) => what === "error" || what === "died");
  deepStrictEqual(troubles, [], "no process reports an error");
  const acknowledged = harness.eventLog.entries("enqueued")[0]?.note as number;
  const waits = harness.eventLog.entries("ran").flatMap(({ note }) => note as [number, number][]);
  const { left, deleted, ...counts } = countsOf(harness);
  const ran = waits.reduce((sum, [, often]) => sum + often, 0);
  const same = { inserted: acknowledged, completed: acknowledged, ran: acknowledged, kept: acknowledged };
  deepStrictEqual(
    { ...counts, ran, kept: left + deleted },
    same,
    "each task is done once, and kept for its retention",
  );
  return [
    { name: "tasks", value: acknowledged },
    { name: "rate", value: acknowledged / (samples.at(-1)?.at ?? amount), unit: "tasks/s" },
    ...slopes(samples, amount),
    { name: "largest write-ahead log", value: largestLog(samples), unit: "MiB", most: walLimit / mebibyte },
    ...waiting(waits),
  ];
}

const largestLog = (samples: readonly Sample[]) => Math.max(...samples.map(({ wal }) => wal)) / mebibyte;

/** The growth of a process's memory, without the first third of the run. */
function slopes(samples: readonly Sample[], amount: number): Figure[] {
  const settled = samples.slice(Math.floor(samples.length / 3));
  return ["first worker", "second worker", "enqueuer"].map((who, n) => ({
    name: `memory of the ${who}`,
    value: slopeOf(settled.map(({ at, resident }) => [at / 3_600, (resident[n] ?? 0) / mebibyte])),
    unit: "MiB/h",
    ...(amount >= longEnough ? { most: 10 } : {}),
  }));
}

/** The slope by least squares. */
function slopeOf(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(points.map(([x]) => x)), mean(points.map(([, y]) => y))];
  const rise = points.reduce((sum, [px, py]) => sum + (px - x) * (py - y), 0);
  const run = points.reduce((sum, [px]) => sum + (px - x) ** 2, 0);
  return rise / run;
}

/** From the call of `enqueueTask` to the start of the handler. */
function waiting(waits: readonly (readonly [ms: number, often: number])[]): Figure[] {
  const all = waits.flatMap(([ms, often]) => Array<number>(often).fill(ms));
  return [0.5, 0.99].map((part) => ({
    name: `from enqueue to start p${part * 100}`,
    value: percentile(all, part),
    unit: "ms",
  }));
}
