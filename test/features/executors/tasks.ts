/** Tasks that run in threads and processes. Compiled before the tests (`test/fixtures/tsconfig.json`), a child starts fast. */
import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readlinkSync, writeFileSync, writeSync } from "node:fs";
import { extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { parentPort, threadId } from "node:worker_threads";
import {
  type AnyFunction,
  CancelTask,
  currentTask,
  openQueue,
  SnoozeTask,
  type TaskOptions,
  task,
} from "../../../src/index.ts";
import { schemaOf } from "../../support/schemas.ts";

/** A module of this folder, compiled where the tests have done that. */
export function moduleNamed(name: string): string {
  const compiled = process.env.DBQ_COMPILED;
  if (compiled === undefined) return new URL(`./${name}${extname(import.meta.url)}`, import.meta.url).href;
  return pathToFileURL(join(compiled, `test/features/executors/${name}.js`)).href;
}

export const places = ["thread", "process"] as const;
export type Place = (typeof places)[number];

/** The same function as a task in a thread and as one in a process. */
function inBoth<F extends AnyFunction>(name: string, fn: F, options: TaskOptions = {}) {
  const inPlace = (runIn: Place) =>
    task(`${name}-${runIn}`, fn as (...args: Parameters<F>) => ReturnType<F>, {
      maxRetries: 0,
      ...options,
      runIn,
      module: moduleNamed("tasks"),
    });
  return { thread: inPlace("thread"), process: inPlace("process") };
}

/** A task with schemas: of a date that JSON does not have, and of a result that is wrong for an odd year. */
const yearIn = (runIn: Place) =>
  task(`year-${runIn}`, (day: Date) => ({ year: day.getUTCFullYear(), secret: 1 }), {
    input: schemaOf<string, Date>(async (value) =>
      Number.isNaN(Date.parse(String(value)))
        ? { issues: [{ message: "expected a date", path: [] }] }
        : { value: new Date(String(value)) },
    ),
    output: schemaOf<{ year: number }, { year: number }>((value) => {
      const { year } = value as { year: number };
      return year % 2 === 0 ? { value: { year } } : { issues: [{ message: "odd", path: ["year"] }] };
    }),
    maxRetries: 1,
    backoff: () => 1,
    runIn,
    module: moduleNamed("tasks"),
  });
export const yearOf = { thread: yearIn("thread"), process: yearIn("process") };

class Temporary extends Error {
  override readonly name = "Temporary";
}

function startAnother(): number | undefined {
  return spawn(process.execPath, ["-e", "setInterval(() => undefined, 1000)"], { stdio: "ignore" }).pid;
}

let calls = 0;

/** Blocks the event loop for a minute, which is for good: a process that a fault has left behind ends all the same. */
function block(): never {
  const end = performance.now() + 60_000;
  while (performance.now() < end);
  throw new Error("nobody has ended the process of this task");
}

export const echo = inBoth("echo", (...args: unknown[]) => ({ args }));

/** Where it runs, and how many calls this thread or process has had. */
export const whereAmI = inBoth("where", () => {
  calls += 1;
  return { pid: process.pid, threadId, calls };
});

export const looksAround = inBoth("looks", async () => {
  const { id, generationId, retryCount, kwargs, signal, progress, log } = currentTask();
  progress(1, "begun");
  log("one line");
  progress(2, "half");
  const errors = [() => currentTask().context, () => currentTask().within({}).complete()].map((read) => {
    try {
      return String(read());
    } catch (error) {
      return (error as Error).message;
    }
  });
  return { id, generationId, retryCount, kwargs, aborted: signal.aborted, errors };
});

export const chatters = inBoth("chatters", (lines: number) => {
  for (let i = 0; i < lines; i += 1) {
    currentTask().log(`line ${i}`);
    currentTask().progress(i);
  }
});

export const throws = inBoth("throws", (what: string) => {
  if (what === "text") throw "a text";
  if (what === "long") throw new Error("x".repeat(12_345));
  if (what === "cancel") throw new CancelTask("no longer wanted");
  if (what === "snooze") throw new SnoozeTask("1h");
  throw Object.assign(new TypeError("outer", { cause: new RangeError("inner") }), { code: "E_OUTER" });
});

/** Whether it is tried again is decided by the class of its error, which is another class in the worker. */
export const retriesTemporary = inBoth(
  "retries",
  (temporary: boolean) => {
    throw temporary ? new Temporary("later") : new Error("never");
  },
  { retryOn: Temporary, maxRetries: 1, backoff: () => 3_600_000 },
);

export const returns = inBoth("returns", (what: string) =>
  what === "date" ? { when: new Date(0) } : "x".repeat(2_000),
);

/** The files that this process has open. */
export const openFiles = inBoth("files", () =>
  readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return [];
    }
  }),
);

export const opens = inBoth("opens", async () => await openQueue(":memory:"));

/** The errors of `blocks`, in the worker's process. */
export const failures: unknown[] = [];

/** Writes its pid, and blocks the event loop. */
export const blocks = inBoth(
  "blocks",
  (file: string) => {
    writeFileSync(file, String(process.pid));
    block();
  },
  { onFailure: (_, error) => failures.push(error) },
);

/** The same, with another process whose pid it writes. */
export const blocksWithAnother = inBoth("blocks-with", (file: string) => {
  writeFileSync(file, `${process.pid} ${startAnother()}`);
  block();
});

export const ignoresSigterm = inBoth("ignores", (file: string) => {
  process.on("SIGTERM", () => console.error("not yet"));
  console.error("I do not care");
  writeFileSync(file, String(process.pid));
  return new Promise(() => setInterval(() => undefined, 1_000));
});

/** Answers when SIGTERM comes, and goes on. */
export const answersLate = inBoth("answers-late", () => {
  setInterval(() => undefined, 1_000);
  return new Promise((resolve) => process.on("SIGTERM", () => resolve("late")));
});

/** Forks a program, and returns its first message. */
export const forks = inBoth("forks", async (file: string) => {
  const [message] = await once(fork(file), "message");
  return message as string;
});

/** Ends as soon as it is told to. */
export const obeys = inBoth("obeys", async (file: string) => {
  const { signal } = currentTask();
  writeFileSync(file, String(process.pid));
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  throw signal.reason;
});

/** Writes to the first file that it runs, and to the second one why it was aborted. */
export const writesItsReason = inBoth("reason", async (begun: string, why: string) => {
  const { signal } = currentTask();
  writeFileSync(begun, "begun");
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  writeFileSync(why, (signal.reason as Error).message);
});

/** Writes the pid of a process that it has started, and ignores its signal. */
export const startsOthers = inBoth("starts", (file: string) => {
  writeFileSync(file, String(startAnother()));
  return new Promise(() => undefined);
});

export const exits = inBoth("exits", (code: number) => {
  console.error("on my way out");
  process.exit(code);
});

export const aborts = inBoth("aborts", () => process.abort());

export const eatsMemory = inBoth(
  "eats",
  () => {
    const kept: unknown[] = [];
    for (;;) kept.push(new Array(10_000).fill(kept.length));
  },
  { memory: "64MB" },
);

/** Leaves an exception for the moment after its answer. */
export const leavesAnException = inBoth("leaves", () => {
  setImmediate(() => {
    throw new Error("nobody has waited for this");
  });
});

export const leavesARejection = inBoth("rejects", () => {
  setTimeout(() => void Promise.reject(new Error("nobody has waited for this")), 1);
});

export const waitsFor = inBoth("waits", async (file: string) => {
  while (!existsSync(file)) await new Promise((resolve) => setTimeout(resolve, 5));
  return "seen";
});

/** Writes to the channel to its worker. */
export const writesGarbage = task(
  "garbage",
  async (text: string) => {
    writeSync(3, text);
    await new Promise((resolve) => setTimeout(resolve, 100));
    return "answered";
  },
  { runIn: "process", module: moduleNamed("tasks"), maxRetries: 0 },
);

/** Talks to its worker's process as threads and forked processes do. */
export const talksToItsParent = inBoth("talks", () => {
  parentPort?.postMessage({ kind: "returned", call: 1, result: "1" });
  process.send?.({ kind: "returned", call: 1, result: "1" });
  return "answered";
});

export const writesToStderr = inBoth("stderr", async (megabytes: number) => {
  const write = (data: Buffer | string) => new Promise((resolve) => process.stderr.write(data, resolve));
  const chunk = Buffer.alloc(1_048_576, "x");
  for (let i = 0; i < megabytes; i += 1) await write(chunk);
  await write("the end");
  process.exit(3);
});
