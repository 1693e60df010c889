/** Calls of a step's function, or of its undo. */
import { type CurrentTask, runAs, runningAttempt } from "../../worker/task-context.ts";
import type { WorkflowRun } from "./run.ts";

/** Calls `fn` so that `currentTask().stepKey` is that of this step. */
export function asStep<T>(run: WorkflowRun, key: string, fn: () => T): () => T {
  const attempt = runningAttempt() as CurrentTask;
  const { id, createdAt } = run.port.record;
  // With the time, since the first task of another database has the same id.
  const stepKey = `dbq-${id}-${createdAt.toString(36)}-${encodeURIComponent(key)}${run.placeOf(key)}`;
  const inStep: CurrentTask = {
    get current() {
      return Object.create(attempt.current, { stepKey: { value: stepKey, enumerable: true } });
    },
    ...(attempt.part && { part: attempt.part }),
    step: key,
  };
  return () => runAs(inStep, fn);
}
