/** The time from an enqueue in one process to the start of the task in another, over Postgres. */
import type { Benchmark } from "../benchmark.ts";
import { measureBetween } from "../processes/pair.ts";
import type { QueueLocation } from "../processes/peer.ts";
import { measureWake } from "../processes/wake.ts";
import { contenderOn } from "./location.ts";

const contender = (name: string, peer: QueueLocation["peer"]) =>
  contenderOn("postgres", name, peer, (target, settings) => measureBetween(target, settings, measureWake));

export const postgresWake: Benchmark = {
  name: "pg-wake",
  title: "Postgres: start of a task in another process",
  about:
    "One process enqueues a task every 5 to 30 ms (at random); an idle worker in another process runs it. " +
    "Milliseconds from the moment the enqueue resolved to the first line of the handler, on the clock that both processes share: " +
    "negative when the worker is faster than the enqueuer's own await. And from the call of the enqueue, which includes its commit. " +
    "The floor is hand-written node-postgres with LISTEN and NOTIFY; pg-boss listens too, which is not its default.",
  on: "postgres",
  once: true,
  figures: [
    { name: "p50", unit: "ms", better: "lower", goals: [{ must: 2, aim: 1 }] },
    { name: "p99", unit: "ms", better: "lower", goals: [{ must: 6, aim: 3 }] },
    { name: "p50 from the call", unit: "ms", better: "lower" },
    { name: "p99 from the call", unit: "ms", better: "lower" },
  ],
  contenders: [
    contender("dbq", "dbq"),
    contender("floor", "postgresFloor"),
    contender("graphile", "graphile"),
    contender("pg-boss", "pgBoss"),
  ],
};
