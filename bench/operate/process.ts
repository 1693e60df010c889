/** A process with a queue, which drains tasks, acts on many of them, or meets what the others do to it. */
import { type EncryptionOptions, openQueue, task, Worker } from "dbq-ts";
import type { Synchronous } from "../benchmark.ts";
import { sharedNow } from "../processes/clock.ts";
import { LoopMeter } from "../processes/loop-meter.ts";
import { configOf, serve } from "../processes/served.ts";
import { Parts } from "./parts.ts";

export interface ProcessConfig {
  location: string;
  synchronous: Synchronous;
  /** The ids of keys, the first of which encrypts. Absent: nothing is encrypted. */
  keys?: readonly string[] | undefined;
}

/** What a process that asks a little has met. */
export interface Met {
  /** Milliseconds: the longest time in which its event loop was blocked. */
  block: number;
  /** Milliseconds: the longest enqueue of one task, or read of it. */
  wait: number;
}

/** What a part of an action on many tasks has done. */
export interface Acted {
  changed: number;
  /** When it began and ended, on the shared clock. */
  from: number;
  until: number;
}

const { location, synchronous, keys } = configOf<ProcessConfig>();

/** The same in each process of a measurement. */
const keyOf = (id: string) => ({ id, key: Buffer.alloc(32, id) });
const encryption = keys && ({ keys: keys.map(keyOf) as never } satisfies EncryptionOptions);
const queue = await openQueue(location, { synchronous, ...(encryption && { encryption }) });

/** 1 KiB of JSON. */
const text = "x".repeat(1_000);

let [ran, added] = [0, 0];
task("step", () => {
  ran += 1;
});
const kept = task("kept", (_n: number, _text: string) => undefined);
const step = task("encrypted-step", (_n: number, _text: string) => {
  ran += 1;
});
const glance = task("glance", (_n: number) => undefined);

const worker = new Worker(queue, { concurrency: 100 });
let meter: LoopMeter | undefined;
let longestWait = 0;

async function timed<T>(act: () => Promise<T>): Promise<T> {
  const from = performance.now();
  const answer = await act();
  longestWait = Math.max(longestWait, performance.now() - from);
  return answer;
}

async function acted(parts: Parts, count: number): Promise<Acted> {
  const from = sharedNow();
  const changed = await parts.next(count);
  return { changed, from, until: sharedNow() };
}

const retry = new Parts((options) => queue.retryTasks({ status: "failed", func: "charge" }, options));
const reencrypt = new Parts((options) => queue.reencrypt(options));

const commands = {
  /** Adds encrypted tasks: `kept` ones, which no worker takes, or some to drain. */
  async fill(what: "kept" | "drained", count: number): Promise<void> {
    const call = what === "kept" ? kept.with({ queueName: "kept" }) : step;
    for (let n = 0; n < count; n += 500)
      await queue.enqueueTasks(Array.from({ length: 500 }, (_, i) => [call, n + i, text] as const));
  },

  work: () => worker.start(),

  rest: () => worker.stop(),

  /** So many tasks more are there to drain. */
  added(count: number): void {
    added += count;
  },

  /** How many of them are left. */
  ran: () => ({ left: added - ran, at: sharedNow() }),

  /** Enqueues a task and reads it, again and again, with 2 ms between. */
  look(): void {
    meter = new LoopMeter();
    const call = glance.with({ queueName: "glances" });
    const again = async () => {
      const id = await timed(() => queue.enqueueTask(call, 1));
      await timed(() => queue.getTask(id));
      setTimeout(() => void again(), 2);
    };
    void again();
  },

  /** Since the last call. */
  met(): Met {
    const met = { block: meter?.read().max ?? 0, wait: longestWait };
    longestWait = 0;
    meter?.reset();
    return met;
  },

  /** The next part of an action, which changes so many tasks. */
  act: (action: "retry" | "reencrypt", count: number) => acted(action === "retry" ? retry : reencrypt, count),
};

export type ProcessCommands = typeof commands;

serve(commands);
