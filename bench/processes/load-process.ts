/** One of many processes on a queue: it works, enqueues, or only watches its own event loop. */
import { setTimeout as sleepUntil } from "node:timers/promises";
import { sharedNow, sleep, type Window } from "./clock.ts";
import { type Blocks, LoopMeter } from "./loop-meter.ts";
import { openPeer, type Peer, type QueueLocation } from "./peer.ts";
import { configOf, serve } from "./served.ts";

export interface LoadConfig {
  /** Absent: the process only watches its event loop. */
  target?: QueueLocation;
  role: "worker" | "enqueuer" | "bystander";
  /** Milliseconds that a handler waits; 0: it returns at once. */
  wait: number;
}

export interface LoadReport {
  /** The tasks that its handlers finished, or that it enqueued, within the window. */
  done: number;
  blocks: Blocks;
  /** Errors that the peer threw or reported. */
  errors: string[];
  /** Milliseconds of each enqueue. */
  enqueues: Float64Array;
}

/** Milliseconds between two enqueues of one process. */
const gap = 5;

const { target, role, wait } = configOf<LoadConfig>();
const peer = target && (await openPeer(target));
const meter = new LoopMeter();
const errors: string[] = [];
const enqueues: number[] = [];
let done = 0;

function note(error: unknown): void {
  errors.push(error instanceof Error ? `${error.name}: ${error.message}` : String(error));
}

const commands = {
  /** Joins the measurement from now on. */
  async join(window: Window): Promise<LoadReport> {
    if (peer && role === "worker") await peer.work(counting(window), note);
    if (peer && role === "enqueuer") void enqueueUntil(peer, window);
    await sleepUntil(window.from - sharedNow());
    // plainjob's worker yields to the event loop only when it is out of work, which may be after the window.
    if (sharedNow() < window.until) meter.reset();
    await sleepUntil(window.until - sharedNow());
    return { done, blocks: meter.read(), errors, enqueues: Float64Array.from(enqueues) };
  },
};

export type LoadCommands = typeof commands;

function counting({ from, until }: Window) {
  return (): void | Promise<void> => {
    const now = sharedNow();
    // Never resolves: the process is killed, and its event loop stays free to answer whatever the peer does.
    if (now >= until) return new Promise(() => undefined);
    if (wait > 0) return waited(from);
    if (now >= from) done += 1;
  };
}

async function waited(from: number): Promise<void> {
  await sleep(wait);
  if (sharedNow() >= from) done += 1;
}

async function enqueueUntil(peer: Peer, { from, until }: Window): Promise<void> {
  for (let n = 0; sharedNow() < until; n += 1) {
    const called = sharedNow();
    await peer.enqueue(n).catch(note);
    if (called >= from) {
      done += 1;
      enqueues.push(sharedNow() - called);
    }
    await sleep(gap);
  }
}

serve(commands);
