/** Other programs use the file: they read, write, copy and rebuild it, and some take their time. */
import { deepStrictEqual, ok } from "node:assert/strict";
import { statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Act } from "../../fixtures/foreigner.ts";
import { write } from "../../fixtures/ledger.ts";
import type { Scene } from "../../fixtures/scene.ts";
import { chore } from "../../fixtures/tasks.ts";
import { demand } from "../checker.ts";
import { Crowd } from "../crowd.ts";
import type { History } from "../history.ts";
import type { Figure, Scenario } from "../scenario.ts";

const lease = 1_000;

/** What is done, and for how many milliseconds, where that is up to who does it. */
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

/** While these are there, nobody else can write. */
const locks: ReadonlySet<Act> = new Set(["writer", "exclusive", "vacuum"]);

/** How long somebody was there. */
interface Visit {
  act: Act;
  from: number;
  to: number;
}

const mebibyte = 2 ** 20;

/** Bytes of the write-ahead log that are kept, and the milliseconds after which it is cut back to that. */
const most = 64 * mebibyte;
const soon = 3_000;

/** What is written while somebody reads: three times as much, since a claim and a completion write it again. */
const ballast = { tasks: 60, text: "x".repeat(mebibyte / 2) };

export const foreign: Scenario = {
  name: "foreign",
  about:
    "Other programs read, lock, copy and rebuild the file: no worker minds, and nobody is told that it is busy.",
  unit: "visits",
  amounts: { test: 2, sample: 10, chaos: 30 },
  only: {
    kinds: ["sqlite"],
    why: "what other programs do to a file that they share with a queue is no matter on a server",
  },
  async run({ scene, random, amount, progress }) {
    const crowd = await Crowd.start(scene, {
      workers: 3,
      enqueuers: 2,
      worker: { lease, concurrency: 10 },
      enqueuing: { pause: 150 },
    });
    using log = new Log(scene.database);
    const made: Visit[] = [];
    let left: (readonly [Act, number])[] = [];
    while (made.length < amount) {
      if (left.length === 0) left = [...visits];
      const [next] = left.splice(Math.floor(left.length * random()), 1) as [readonly [Act, number]];
      await sleep(200 * random());
      made.push(await visit(scene, ...next, !made.some(({ act }) => act === next[0])));
      progress(made.length);
    }
    const history = await crowd.rest();
    demand(history, { mayDie: () => false });
    crowd.demandInnocent(history);
    return figures(history, made, log);
  },
};

async function visit(scene: Scene, act: Act, length: number, first: boolean): Promise<Visit> {
  const visitor = scene.start("foreigner.ts", [act, String(length)]);
  const isHis = ({ pid }: { pid: number }) => pid === visitor.pid;
  const early = visitor.ended.then((end) => Promise.reject(new Error(`${act}: ${end}: ${visitor.output()}`)));
  early.catch(() => undefined);
  const { at: from } = await Promise.race([scene.ledger.until("came", isHis), early]);
  const isBurdened = first && act === "reader";
  if (isBurdened) await burden(scene);
  deepStrictEqual(await visitor.ended, 0, `${act}: ${visitor.output()}`);
  const { at: to } = await scene.ledger.until("went", isHis);
  if (isBurdened) await cutBack(scene);
  return { act, from, to };
}

/** More than the write-ahead log is to keep in the end: it cannot begin anew before the reader has gone. */
async function burden({ queue, ledger }: Scene): Promise<void> {
  const heavy = chore.with({ meta: { ballast: ballast.text } });
  for (let n = 0; n < ballast.tasks; n += 1)
    write(ledger.path, "acknowledged", { task: await queue.enqueueTask(heavy, 0, "return"), note: "heavy" });
}

/** By whoever writes next, and the one after: all of them go on. */
async function cutBack({ database }: Scene): Promise<void> {
  for (const begun = performance.now(); logSize(database) > most; await sleep(20))
    ok(performance.now() - begun < soon, `the write-ahead log still has ${logSize(database)} bytes`);
}

const logSize = (database: string) => statSync(`${database}-wal`, { throwIfNoEntry: false })?.size ?? 0;

/** The largest size of the write-ahead log, as far as looks can tell. */
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
    { name: "write-ahead log in the end", value: wal / mebibyte, unit: "MiB", most: most / mebibyte },
  ];
}
