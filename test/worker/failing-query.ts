/** Runs a task whose Drizzle query fails in the database. */
import { expect } from "vitest";
import { type Queue, type TaskError, type TaskFailedError, task } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { next, rejection } from "./setup.ts";

/** The errors of the task, outermost first, as its row, its attempt, its event, its hook and `awaitTaskResult` have them. */
export async function chainOfFailure(
  queue: Queue,
  query: () => unknown,
): Promise<Pick<TaskError, "name" | "message">[]> {
  const hooked: (TaskError | null)[] = [];
  const failing = task(uniqueName("query"), async () => void (await query()), {
    maxRetries: 0,
    onFailure: ({ error }) => void hooked.push(error),
  });
  const worker = await startedWorker(queue);
  const failed = next(worker, "failed");
  const id = await queue.enqueueTask(failing);
  const { error } = await failed;
  expect(hooked).toEqual([error]);
  expect((await queue.getTask(id))?.error).toEqual(error);
  const [attempt] = await queue.listAttempts(id);
  expect(chainOf(attempt?.error as TaskError)).toEqual(chainOf(error as TaskError));
  const rejected = await rejection(queue.awaitTaskResult(id));
  expect(chainOf((rejected as TaskFailedError).cause as Error)).toEqual(chainOf(error as TaskError));
  return chainOf(error as TaskError);
}

function chainOf(error: TaskError | Error): Pick<TaskError, "name" | "message">[] {
  const { name, message } = error;
  const cause = error.cause as TaskError | undefined;
  return [{ name, message }, ...(cause === undefined ? [] : chainOf(cause))];
}
