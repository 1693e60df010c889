/** What a handler's code throws where nobody waits for it. */
import { logError } from "./database.ts";
import type { Library } from "./modules.ts";

/** Logs rejections that nobody awaits, and goes on: neither the task that caused one is hurt by it, nor any other. */
export function surviveRejections(library: Library, asJson: boolean | undefined): void {
  process.on("unhandledRejection", (reason) => {
    tell(reason, "un-awaited rejection", taskHere(library), asJson);
  });
}

/** Logs exceptions that nobody catches; `then` is given the task whose code threw, where that is known. */
export function onExceptions(
  library: Library,
  asJson: boolean | undefined,
  then: (taskId: number | undefined) => void,
): void {
  process.on("uncaughtException", (error) => {
    const taskId = taskHere(library);
    tell(error, "uncaught exception", taskId, asJson);
    then(taskId);
  });
}

function tell(error: unknown, what: string, taskId: number | undefined, asJson: boolean | undefined): void {
  if (taskId === undefined) logError(error, what, asJson);
  else logError(error, `${what} in task ${taskId}`, asJson, { taskId });
}

/** Node keeps the asynchronous context of what was thrown. */
function taskHere({ currentTask }: Library): number | undefined {
  try {
    return currentTask().id;
  } catch {
    return undefined;
  }
}
