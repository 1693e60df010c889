/** What the tests of workflows share. */
import { type Queue, type Task, type TaskFunction, type TaskOptions, task } from "../../../src/index.ts";
import { uniqueName } from "../../support/queue.ts";

/** Less than a test may take. */
export const patience = { timeout: 20_000 };

/** A retry without a pause. */
export const atOnce = { backoff: () => 0 };

// biome-ignore lint/suspicious/noExplicitAny: any function
type Any = (...args: any[]) => unknown;

/** A task of a name of its own. */
export const named = <F extends Any>(fn: F, options: TaskOptions = {}) =>
  task(uniqueName("flow"), fn as never, options) as unknown as TaskFunction<Parameters<F>, ReturnType<F>>;

export async function end(queue: Queue, id: number): Promise<Task> {
  return await queue.awaitTaskCompletion(id, patience);
}

export async function until(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await new Promise((resolve) => setTimeout(resolve, 5));
}
