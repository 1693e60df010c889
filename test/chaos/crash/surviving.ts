/** Kills of the second order: the process that recovers from a kill is killed as well, at each of its points. */
import { EventLog } from "../../fixtures/event-log.ts";
import { crash } from "./crash.ts";
import { outcome } from "./manual-worker.ts";
import type { Actor, Files, Operation } from "./operation.ts";
import { furnish } from "./populated.ts";

/** The recovery from a kill of `first`, at the first of its points whose name begins with `point`. */
function survivor(first: string, point: string, commits: number): Operation {
  return {
    name: `survive a kill in "${first}" ${point}`,
    commits,
    prepare: (files) => leaveKilled(files, first, point),
    act: survive,
  };
}

async function leaveKilled(files: Files, operation: string, at: string): Promise<void> {
  await furnish(files);
  const { how, output } = await crash([{ ...files, operation, at }]);
  const spared = new EventLog(files.eventLog).entries("spared").length > 0;
  if (how !== "SIGKILL" || spared)
    throw new Error(`${operation}, ${at}: it was not killed: ${how} ${output}`);
}

/** The steps of a worker's start, one by one: timers would change their order each time. */
export async function survive(actor: Actor): Promise<void> {
  const queue = await actor.open();
  const worker = await actor.worker(queue, "survivor");
  actor.arm();
  const { store, id } = worker;
  for (const other of await store.workers()) if (other.id !== id) await store.rescue(other.id, other.beat);
  await store.rescueOrphans(60_000);
  const claimed = await worker.claim(2);
  const outcomes = claimed.map((record, i) => outcome(record, i === 0 ? "retry" : "completed"));
  await worker.turn(outcomes, 1);
}

/** A process that opens the database recovers its journal first. */
function opener(first: string, point: string): Operation {
  return {
    name: `open after a kill in "${first}" ${point}`,
    commits: 0,
    prepare: (files) => leaveKilled(files, first, point),
    async act(actor) {
      actor.arm();
      await actor.open();
    },
  };
}

// Its transactions: one for each dead worker, one for orphans, a claim, a settle.
export const surviving: readonly Operation[] = [
  survivor("claim", "after COMMIT", 5),
  survivor("settle each way, and claim", "before COMMIT", 5),
  survivor("rescue", "before COMMIT", 4),
  survivor("unregister", "before COMMIT", 5),
  opener("enqueue many", "before COMMIT"),
];
