/**
 * The health of a queue, for `doctor`, `stats`, metrics and the dashboard: facts about its database, its workers, and the
 * tasks that no worker takes. Reads the database and changes nothing.
 */
import { readOptions, wrong } from "../../base/options/validators.ts";
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import type { Diagnosis } from "../../store.ts";
import { checkWorkers, type WorkerHealth } from "../../worker/liveness.ts";
import { findUnclaimed, type UnclaimedTasks } from "./unclaimed.ts";

/** Options of `inspectQueue`. */
export interface InspectOptions {
  /**
   * Names of all functions that the workers register. With them, a task of any other function is reported at once; without
   * them, only what workers with free slots have left pending is.
   */
  functions?: readonly string[];
}

/** What `inspectQueue` found. */
export interface QueueHealth {
  /** Facts about the database, with a warning where something is wrong. */
  database: Diagnosis[];
  /** All registered workers, oldest first. */
  workers: WorkerHealth[];
  /** The error that writers get while `dbq move` has frozen this database; `null`: it takes tasks. */
  frozen: string | null;
  /** Tasks that wait for something other than their turn; none while the database is `frozen`. */
  unclaimed: UnclaimedTasks[];
}

/**
 * Inspects a queue: its database, its workers, and the tasks that no worker takes.
 * @throws DatabaseError; TypeError for wrong options
 */
export async function inspectQueue(queue: Queue, options?: InspectOptions): Promise<QueueHealth> {
  const { functions } = readOptions<InspectOptions>(options, "inspectQueue", { functions: names });
  const { store } = internalsOf(queue);
  const database = await queue.diagnose();
  const workers = await checkWorkers(store);
  const frozen = database.find(({ name }) => name === "move")?.warning ?? null;
  const unclaimed = frozen === null ? await findUnclaimed(queue, workers, functions) : [];
  return { database, workers, frozen, unclaimed };
}

function names(value: unknown, name: string): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value;
  throw wrong(name, "an array of function names", value);
}
