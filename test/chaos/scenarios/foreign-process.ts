/**
 * Invariant: other programs may read, lock, copy and rebuild the database file; every worker continues, and no caller
 * gets a "busy" error.
 */
import { deepStrictEqual, ok } from "node:assert/strict";
import { statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { write } from "../../fixtures/event-log.ts";
import type { Act } from "../../fixtures/foreign-process.ts";
import type { Harness } from "../../fixtures/harness.ts";
import { chore } from "../../fixtures/tasks.ts";
import { demand } from "../checker.ts";
import type { History } from "../history.ts";
import { Load } from "../load.ts";
import type { Figure, Scenario } from "../scenario.ts";

const lease = 1_000;

/** What the other program does, and for how many milliseconds where that is its choice. */
const visits: readonly (readonly [Act, number])[] = [
  ["reader", 2_000],
  ["writer", 700],
  ["writer", 2.5 * lease],
  ["exclusive", 2.5 * lease],
  ["vacuum", 0],
  ["checkpoint", 0],
  ["vacuumInto", 0],
  ["backup", 0],
  ["journalMode", 0],
  ["exclusiveMode", 0],
];

/** While one of these runs, no other process can write. */
const locks: ReadonlySet<Act> = new Set(["writer", "exclusive", "vacuum"]);

/** When the other program had the file. */
interface Visit {
  act: Act;
  from: number;
  to: number;
}

const mebibyte = 2 ** 20;

/** Bytes to which the write-ahead log must shrink again, and within how many milliseconds. */
const most = 64 * mebibyte;
const soon = 3_000;

/**
 * Written during a read. The log grows by three times as much, since the claim and the completion write each row again.
 */
const ballast = { tasks: 60, text: "x".repeat(mebibyte / 2) };

export const foreignProcess: Scenario = {
  name: "foreign-process",
  about:
    'Other programs read, lock, copy and rebuild the file: every worker continues, and no caller gets a "busy" error.',
  unit: "visits",
  amounts: { test: 2, sample: 10, chaos: 30 },
  only: {
    kinds: ["sqlite"],
    why: "on a server, programs do not share a file with the queue",
  },
  async run({ harness, random, amount, progress }) {
    const load = await Load.start(harness, {
      workers: 3,
      enqueuers: 2,
      worker: { lease, concurrency: 10 },
      enqueuing: { pause: 150 },
    });
    using log = new Log(harness.database);
    const made: Visit[] = [];
    let left: (readonly [Act, number])[] = [];
    while (made.length < amount) {
      if (left.length === 0) left = [...visits];
      const [next] = left.splice(Math.floor(left.length * random()), 1) as [readonly [Act, number]];
      await sleep(200 * random());
      made.push(await visit(harness, ...next, !made.some(({ act }) => act === next[0])));
      progress(made.length);
    }
    const history = await load.drain();
    demand(history, { mayDie: () => false });
    load.demandNoFalseRescue(history);
    return figures(history, made, log);
  },
};

async function visit(harness: Harness, act: Act, length: number, first: boolean): Promise<Visit> {
  const visitor = harness.start("foreign-process.ts", [act, String(length)]);
  const isHis = ({ pid }: { pid: number }) => pid === visitor.pid;
  const early = visitor.ended.then((end) => Promise.reject(new Error(`${act}: ${end}: ${visitor.output()}`)));
  early.catch(() => undefined);
  const { at: from } = await Promise.race([harness.eventLog.until("came", isHis), early]);
  const isBurdened = first && act === "reader";
  if (isBurdened) await burden(harness);
  deepStrictEqual(await visitor.ended, 0, `${act}: ${visitor.output()}`);
  const { at: to } = await harness.eventLog.until("went", isHis);
  if (isBurdened) await cutBack(harness);
  return { act, from, to };
}

/** Writes more than the write-ahead log may keep: it cannot be reset before the reader has gone. */
async function burden({ queue, eventLog }: Harness): Promise<void> {
  const heavy = chore.with({ meta: { ballast: ballast.text } });
  for (let n = 0; n < ballast.tasks; n += 1)
    write(eventLog.path, "acknowledged", {
      task: await queue.enqueueTask(heavy, 0, "return"),
      note: "heavy",
    });
}

/** The next writers shrink the log, and the workers write all the time. */
async function cutBack({ database }: Harness): Promise<void> {
  for (const begun = performance.now(); logSize(database) > most; await sleep(20))
    ok(performance.now() - begun < soon, `the write-ahead log still has ${logSize(database)} bytes`);
}

const logSize = (database: string) => statSync(`${database}-wal`, { throwIfNoEntry: false })?.size ?? 0;

/** Samples the size of the write-ahead log and keeps the largest. */
class Log implements Disposable {
  readonly #timer: NodeJS.Timeout;
  largest = 0;

  constructor(database: string) {
    this.#timer = setInterval(() => {
      this.largest = Math.max(this.largest, logSize(database));
    }, 50);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

function figures({ tasks, wal }: History, made: readonly Visit[], log: Log): Figure[] {
  const longest = Math.max(...made.filter(({ act }) => locks.has(act)).map(({ from, to }) => to - from), 0);
  return [
    { name: "visits", value: made.length },
    { name: "longest lock", value: longest, unit: "ms" },
    { name: "tasks", value: tasks.length },
    { name: "largest write-ahead log", value: log.largest / mebibyte, unit: "MiB" },
    { name: "final write-ahead log", value: wal / mebibyte, unit: "MiB", most: most / mebibyte },
  ];
}
