/**
 * What encryption costs: tasks with 1 KiB of arguments, without a result (with --result: of 1 KiB, too), enqueued and then drained by one worker, with and without
 * the option, by turns.
 *
 *     npx tsx scripts/measure-encryption.ts [--db URL] [--tasks 20000] [--rounds 5] [--concurrency 100] [--result]
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openQueue, type QueueOptions, task, Worker } from "../src/index.ts";

const { values } = parseArgs({
  options: {
    db: { type: "string" },
    tasks: { type: "string", default: "20000" },
    rounds: { type: "string", default: "5" },
    concurrency: { type: "string", default: "100" },
    result: { type: "boolean", default: false },
  },
});
const [tasks, rounds, concurrency] = [values.tasks, values.rounds, values.concurrency].map(Number) as [
  number,
  number,
  number,
];
const lines = Array.from({ length: 9 }, (_, n) => ({
  sku: `SKU-${n}`,
  title: `article ${n}`,
  quantity: n,
  price: 9.99,
}));
const payload = { customer: { name: "A", newsletter: true }, lines, note: "x".repeat(350) };
const kinds: Record<string, QueueOptions> = {
  clear: {},
  encrypted: { encryption: { keys: [{ id: "a", key: randomBytes(32) }] } },
};

let ended = 0;
let allEnded = () => {};
const echo = task("measure-encryption", (order: typeof payload) => {
  ended += 1;
  if (ended === tasks) allEnded();
  return values.result ? order : undefined;
});

interface Measured {
  /** Tasks a second. */
  enqueue: number;
  drain: number;
  /** Microseconds of this process's CPU for each task: it hardly depends on what else the machine does. */
  enqueueCpu: number;
  drainCpu: number;
}

/** Microseconds of CPU that this process has used. */
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

async function measure(options: QueueOptions): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), "dbq-measure-"));
  const queue = await openQueue(values.db ?? join(folder, "dbq.db"), options);
  await queue.purgeTasks();
  const [begun, begunCpu] = [performance.now(), cpu()];
  for (let i = 0; i < tasks; i += 500)
    await queue.enqueueTasks(
      Array.from({ length: Math.min(500, tasks - i) }, () => [echo, payload] as const),
    );
  const [enqueued, enqueuedCpu] = [performance.now(), cpu()];
  ended = 0;
  const done = new Promise<void>((resolve) => {
    allEnded = resolve;
  });
  const worker = new Worker(queue, { concurrency });
  await worker.start();
  await done;
  await worker.stop();
  const [drained, drainedCpu] = [performance.now(), cpu()];
  await queue.close();
  rmSync(folder, { recursive: true });
  const perSecond = (ms: number) => Math.round((tasks / ms) * 1_000);
  return {
    enqueue: perSecond(enqueued - begun),
    drain: perSecond(drained - enqueued),
    enqueueCpu: (enqueuedCpu - begunCpu) / tasks,
    drainCpu: (drainedCpu - enqueuedCpu) / tasks,
  };
}

const found: Record<string, Measured[]> = { clear: [], encrypted: [] };
for (let round = 0; round <= rounds; round += 1)
  for (const [kind, options] of Object.entries(kinds)) {
    const one = await measure(options);
    // The first round warms up.
    if (round > 0) found[kind]?.push(one);
    console.log(`round ${round} ${kind}: enqueue ${one.enqueue}/s, drain ${one.drain}/s`);
  }
const median = (numbers: number[]) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)] as number;
const medians = (what: keyof Measured) =>
  ["clear", "encrypted"].map((kind) => median((found[kind] ?? []).map((one) => one[what]))) as [
    number,
    number,
  ];
for (const what of ["enqueue", "drain"] as const) {
  const [clear, encrypted] = medians(what);
  const [clearCpu, encryptedCpu] = medians(`${what}Cpu`);
  console.log(
    `${what}: ${clear}/s in clear, ${encrypted}/s encrypted: ${Math.round((1 - encrypted / clear) * 100)} % less; ` +
      `CPU ${clearCpu.toFixed(1)} and ${encryptedCpu.toFixed(1)} µs a task`,
  );
}
