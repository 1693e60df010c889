/** What a database does for the hooks that crashes owe. */
import { Part } from "../../base/tasks/part.ts";

/** The query for due work tells the job that runs owed hooks that there are some. */
export const hooksDue = new Part<true>("hooks");

/** The `onFailure` of an attempt that ended with its worker. No process was left to call it. */
export interface OwedHook {
  id: number;
  taskId: number;
  /** The task's generation while the attempt ran. */
  generationId: number;
  queueName: string;
  func: string;
  /** What the crash made of the task: `scheduled` if it runs again. */
  status: "scheduled" | "failed";
  /** The retries charged, with that of this crash. */
  retryCount: number;
  /** How many workers have begun to run it, with this one. */
  tries: number;
}

/** The hooks that crashes owe. A rescue writes them in its own transaction. */
export interface HookStore {
  /**
   * Makes this worker the one that runs some hooks, the oldest first of each function, at most `limit`. Passes over those that
   * another registered worker runs, and over those of `except`, which this worker runs already.
   * @param runs whether the worker runs the tasks of this function in this queue
   */
  take(
    workerId: string,
    runs: (queueName: string, func: string) => boolean,
    limit: number,
    except: readonly number[],
  ): Promise<OwedHook[]>;

  /** Deletes a hook that has run. False: another worker has begun to run it since. */
  remove(hook: Pick<OwedHook, "id" | "tries">): Promise<boolean>;

  /** Deletes the hooks that are owed for more than `age` milliseconds. Returns how many. */
  prune(age: number): Promise<number>;
}
