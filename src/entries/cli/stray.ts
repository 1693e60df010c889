/** Rejections and exceptions that no code handles. */
import { logError } from "./database.ts";
import type { Library } from "./modules.ts";

/**
 * Logs unhandled rejections, also of modules that are being imported. The worker and all tasks, including the one that
 * caused the rejection, continue.
 */
export async function surviveRejections(asJson: boolean | undefined): Promise<void> {
  const library = await import("../../index.ts");
  process.on("unhandledRejection", (reason) => {
    log(reason, "unhandled rejection", taskHere(library), asJson);
  });
}

/** Logs uncaught exceptions. Calls `then` with the task whose code has thrown, where that is known. */
export function onExceptions(
  library: Library,
  asJson: boolean | undefined,
  then: (taskId: number | undefined) => void,
): void {
  process.on("uncaughtException", (error) => {
    const taskId = taskHere(library);
    log(error, "uncaught exception", taskId, asJson);
    then(taskId);
  });
}

function log(error: unknown, what: string, taskId: number | undefined, asJson: boolean | undefined): void {
  if (taskId === undefined) logError(error, what, asJson);
  else logError(error, `${what} in task ${taskId}`, asJson, { taskId });
}

/** Node keeps the asynchronous context of the code that has thrown. */
function taskHere({ currentTask }: Library): number | undefined {
  try {
    return currentTask().id;
  } catch {
    return undefined;
  }
}
