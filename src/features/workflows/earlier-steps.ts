/** The steps of a task that has run before are read before its function is called, so that a stored start of a child costs little. */
import type { TaskRecord } from "../../task.ts";
import type { PartOf } from "../../worker/attempt-part.ts";
import { WorkflowRun } from "./run.ts";

/** The generation of a task's first attempt. A child that has not run before has no steps. */
const firstAttempt = 2;

/** The first step of the function rejects with what goes wrong here. */
export function stepsBefore({ generationId }: TaskRecord, part: PartOf): Promise<void> | undefined {
  if (generationId <= firstAttempt) return undefined;
  return part((port) => new WorkflowRun(port))
    .load()
    .catch(() => undefined);
}
