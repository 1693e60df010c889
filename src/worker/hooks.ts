/** Runs a task's hook: with a time limit, and where needed without an attempt. */
import { after, type Timer } from "../base/runtime/timers.ts";
import { toTask } from "../base/values/records.ts";
import { LostGenerationError } from "../errors.ts";
import type { TaskRecord } from "../task.ts";
import { runAs, runningTask } from "./task-context.ts";

/** Milliseconds that a hook may take; then the attempt goes on without it. */
const hookTimeoutMs = 30_000;

/** Resolves when the hook has settled, has taken too long, or `skipped` resolves. Errors of the hook are reported. */
export async function runHook(
  where: string,
  call: () => unknown,
  skipped: Promise<void>,
  report: (error: unknown, where: string) => void,
): Promise<void> {
  let timer: Timer | undefined;
  const late = new Promise<void>((resolve) => {
    timer = after(hookTimeoutMs, () => {
      report(new Error(`it has not settled within ${hookTimeoutMs} ms`), where);
      resolve();
    });
  });
  try {
    await Promise.race([call(), late, skipped]);
  } catch (error) {
    report(error, where);
  } finally {
    timer?.clear();
  }
}

/** Calls a hook without an attempt. `currentTask()` works there; it writes nothing, since the attempt is over. */
export function asTask<T>(record: TaskRecord, context: unknown, signal: AbortSignal, fn: () => T): T {
  const { id, generationId } = record;
  const current = runningTask({
    ...{ record, context, kwargs: toTask(record).kwargs },
    signal: () => signal,
    noteProgress: () => undefined,
    log: () => undefined,
    completeWithin: () => {
      throw new LostGenerationError(id, generationId);
    },
  });
  return runAs({ current }, fn);
}
