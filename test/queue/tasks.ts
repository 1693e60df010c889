/** The tasks of these tests, the same in each process that imports them. */
import { currentTask, task } from "../../src/index.ts";

export const echo = task("echo", async (value: unknown) => value);

export const add = task("add", (a: number, b: number) => a + b);

/** Takes keyword arguments. */
export const greet = task("greet", (name: unknown, options?: object) => [name, options]);

/** Fails with this message, without a retry. */
export const boom = task(
  "boom",
  async (message: string) => {
    throw new RangeError(message);
  },
  { maxRetries: 0 },
);

/** Runs until its signal is aborted, and then throws the reason. */
export const untilAborted = task("untilAborted", async () => {
  const { signal } = currentTask();
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  throw signal.reason;
});
