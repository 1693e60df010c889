/** A process of a test: runs the command in its first argument after the start signal. */
import { inspect } from "node:util";
import { DbqError, enqueueTask, openQueue, Worker } from "../../src/index.ts";
import type { Answer } from "./processes.ts";
import { echo } from "./tasks.ts";

const path = (value: string | undefined): string => {
  if (value === undefined) throw new TypeError("expected a path");
  return value;
};

const commands = {
  /** Opens, enqueues this many tasks, and closes; returns the ids. */
  async enqueue(file?: string, count = "1") {
    await using queue = await openQueue(path(file));
    return await Promise.all(Array.from({ length: Number(count) }, (_, i) => queue.enqueueTask(echo, i)));
  },

  /** Enqueues this many tasks with one key; returns the ids, or the holder's ids of the errors. */
  async unique(file?: string, onDuplicate = "return", count = "20") {
    await using queue = await openQueue(path(file));
    const unique = echo.with({ uniqueKey: "k", onDuplicate: onDuplicate as "return" | "error" });
    const asked = Array.from({ length: Number(count) }, async (_, i) => {
      // Some in one tick, some in the next: each tick is its own transaction.
      if (i % 2 === 1) await new Promise((resolve) => setImmediate(resolve));
      return await queue.enqueueTask(unique, i).then(
        (id) => ({ id }),
        (error) => ({ code: error.code as string, holder: error.taskId as number }),
      );
    });
    return await Promise.all(asked);
  },

  /** Runs tasks until none is left. */
  async work(file?: string) {
    await using queue = await openQueue(path(file));
    const worker = new Worker(queue, { tasks: [echo] });
    await worker.start();
    await worker.idle();
    await worker.stop();
    return process.pid;
  },

  /** Deletes every task. */
  async purge(file?: string) {
    await using queue = await openQueue(path(file));
    return await queue.purgeTasks();
  },

  /** Tries to open; returns the error. */
  async open(file?: string) {
    try {
      await (await openQueue(path(file))).close();
      return { opened: true };
    } catch (error) {
      return error instanceof DbqError
        ? { code: error.code, message: error.message }
        : { other: String(error) };
    }
  },

  /** Enqueues on the default queue; returns its place. */
  async default() {
    return await enqueueTask(echo, 1);
  },
};

export type Command = keyof typeof commands;

async function answer(): Promise<Answer<unknown>> {
  const [command, ...args] = process.argv.slice(2);
  try {
    return { given: await commands[command as Command](...(args as [string?, string?, string?])) };
  } catch (error) {
    return { thrown: inspect(error) };
  }
}

if (process.send) {
  process.once("message", async () => {
    const answered = await answer();
    process.send?.(answered, () => process.disconnect());
  });
  process.send("ready");
} else {
  const answered = await answer();
  console.log(JSON.stringify(answered));
}
