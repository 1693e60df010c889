/** A worker in a separate process, which prunes by its queue's retention. Its claims are timed. */
import { openQueue } from "dbq-ts";
import { percentile } from "../processes/percentile.ts";
import { configOf, serve } from "../processes/served.ts";
import { clockTurns } from "./turn-clock.ts";
import { UrgentWorker } from "./urgent.ts";

export interface RetentionConfig {
  url: string;
  /** Milliseconds that finished tasks are kept. */
  keep: number;
}

/** What the worker has done since the last sample. */
export interface WorkerSample {
  ran: number;
  claims: number;
  /** Milliseconds. */
  p50: number;
  p99: number;
}

const { url, keep } = configOf<RetentionConfig>();
const times = clockTurns();
const worker = new UrgentWorker(await openQueue(url, { retention: { completed: keep } }));
let sampled = 0;

const commands = {
  start: () => worker.start(),
  stop: () => worker.stop(),

  sample(): WorkerSample {
    const claims = times.claims.splice(0);
    times.turns.length = 0;
    const ran = worker.ran - sampled;
    sampled += ran;
    return { ran, claims: claims.length, p50: percentile(claims, 0.5), p99: percentile(claims, 0.99) };
  },
};

export type RetentionCommands = typeof commands;

serve(commands);
