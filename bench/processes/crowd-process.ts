/** One of many processes on one queue: it works, or enqueues, or only watches its own event loop. */
import { setTimeout as sleepUntil } from "node:timers/promises";
import { sharedNow, sleep, type Window } from "./clock.ts";
import { type Blocks, LoopMeter } from "./loop-meter.ts";
import { openPeer, type Peer, type Place } from "./peer.ts";
import { configOf, serve } from "./served.ts";

export interface CrowdConfig {
  /** Absent: it only watches. */
  place?: Place;
  role: "worker" | "enqueuer" | "bystander";
  /** Milliseconds that a handler waits; 0: it does nothing at all. */
  wait: number;
}

export interface CrowdReport {
  /** Tasks that its handlers have ended, or that it has enqueued, within the window. */
  done: number;
  blocks: Blocks;
  /** What the peer threw, or told of. */
  errors: string[];
  /** Milliseconds that each enqueue took. */
  enqueues: Float64Array;
}

/** Milliseconds between two enqueues of one process. */
const gap = 5;

const { place, role, wait } = configOf<CrowdConfig>();
const peer = place && (await openPeer(place));
const meter = new LoopMeter();
const errors: string[] = [];
const enqueues: number[] = [];
let done = 0;

function note(error: unknown): void {
  errors.push(error instanceof Error ? `${error.name}: ${error.message}` : String(error));
}

const commands = {
  /** Takes part in the window, from now on. */
  async join(window: Window): Promise<CrowdReport> {
    if (peer && role === "worker") await peer.work(counting(window), note);
    if (peer && role === "enqueuer") void enqueueUntil(peer, window);
    await sleepUntil(window.from - sharedNow());
    // plainjob's worker lets its event loop turn only when it runs out of work: by then the window is over.
    if (sharedNow() < window.until) meter.reset();
    await sleepUntil(window.until - sharedNow());
    return { done, blocks: meter.read(), errors, enqueues: Float64Array.from(enqueues) };
  },
};

export type CrowdCommands = typeof commands;

function counting({ from, until }: Window) {
  return (): void | Promise<void> => {
    const now = sharedNow();
    // Held until the process is ended: so its event loop is free to answer, whatever the peer does.
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
