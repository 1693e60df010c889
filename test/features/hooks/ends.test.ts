/** The table of docs/tasks-and-retries.md that says which hooks run for which end: each of its rows happens here. */

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { expect, test, vi } from "vitest";
import {
  CancelTask,
  currentTask,
  type Queue,
  SnoozeTask,
  type Task,
  type TaskOptions,
  ThrottleTask,
  task,
  type Worker,
} from "../../../src/index.ts";
import { readPage } from "../../docs/pages.ts";
import { start } from "../../fixtures/processes.ts";
import { deferred, startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { Broker, newDrain, sentBy } from "../drain/broker.ts";
import { owed, paid, soon } from "./cases.ts";

interface Row {
  end: string;
  hooks: string[];
  status: string | undefined;
  event: string | undefined;
}

const quoted = (cell: string | undefined) =>
  [...(cell ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => name ?? "");

/** Without links and backticks. */
const plain = (cell: string | undefined) =>
  (cell ?? "")
    .replace(/\[(.*?)\]\(.*?\)/g, "$1")
    .replaceAll("`", "")
    .trim();

function documented(): Row[] {
  const { lines } = readPage("docs/tasks-and-retries.md");
  const from = lines.findIndex((line) => line.startsWith("| how the attempt, or the task, ends |"));
  const rows = lines.slice(
    from + 2,
    lines.findIndex((line, i) => i > from && !line.startsWith("|")),
  );
  return rows.map((line) => {
    const [, end, hooks, status, event] = line.split("|");
    return { end: plain(end), hooks: quoted(hooks), status: quoted(status)[0], event: quoted(event)[0] };
  });
}

/** What an end needs: a queue, a worker that is not started yet, and a function with hooks that are noted. */
interface Scene {
  queue: Queue;
  url: string;
  /** The hooks that were called. */
  called: string[];
  /** Starts the worker that runs the function. */
  work(): Promise<Worker>;
  hooked(fn: () => unknown, options?: TaskOptions): ReturnType<typeof task<[], unknown>>;
}

const never = () => new Promise(() => undefined);

/** Runs a function that waits for its abort; `act` once it runs. */
async function whileItRuns(
  { queue, work, hooked }: Scene,
  act: (id: number, worker: Worker) => Promise<unknown>,
) {
  const began = deferred();
  const fn = hooked(async () => {
    began.resolve();
    await sleep(60_000, undefined, { signal: currentTask().signal }).catch(() => undefined);
  });
  const worker = await work();
  const id = await queue.enqueueTask(fn);
  await began.promise;
  await act(id, worker);
}

const run = (fn: () => unknown, options?: TaskOptions) => async (scene: Scene) => {
  await scene.queue.enqueueTask(scene.hooked(fn, options));
  await scene.work();
};

const fails = () => {
  throw new Error("no luck");
};

const crashes =
  (maxRetries: number) =>
  async ({ queue, url, work, hooked, called }: Scene) => {
    const fn = hooked(never, { maxRetries });
    await queue.enqueueTask(fn);
    const child = start("exiting-worker.ts", url, fn.taskName, "function");
    expect(await child.ended).toBe(9);
    called.push(...child.output().trim().split("\n"));
    // The retry, which is due at once, does not run here.
    await queue.pause({ func: fn.taskName });
    await work();
    await paid(queue);
  };

async function drained({ queue, hooked, work }: Scene): Promise<void> {
  const broker = new Broker();
  const { carrier } = newDrain(queue, { to: broker, queueName: "out", results: true, resultsWithin: 300 });
  const both = sentBy(carrier, 2);
  await carrier.start();
  const fn = hooked(never, { queueName: "out", maxRetries: 0 });
  const ids = await queue.enqueueTasks([[fn], [fn]]);
  const [first] = await both;
  await queue.settleDrained(first as string, { error: new Error("there") });
  for (const id of ids)
    expect((await queue.awaitTaskCompletion(id, { timeout: "20s" })).status).toBe("failed");
  expect(await owed(queue)).toBe(false);
  await work();
}

const endsItsProcess = pathToFileURL(
  join(process.env.DBQ_COMPILED ?? "", "test/fixtures/hooked-child.js"),
).href;

const ends: Record<string, (scene: Scene) => Promise<void>> = {
  "the function returns": run(() => "done"),
  "the function throws, and a retry is left": run(fails, { maxRetries: 1, backoff: () => "1h" }),
  "the function throws, and none is left": run(fails, { maxRetries: 0 }),
  "its timeout passes, and no retry is left": run(
    () => sleep(60_000, undefined, { signal: currentTask().signal }),
    { maxRetries: 0, timeout: 20 },
  ),
  "its thread or process (runIn) dies, and no retry is left": run(fails, {
    maxRetries: 0,
    runIn: "process",
    module: endsItsProcess,
  }),
  "its worker dies or loses its lease, and a retry is left": crashes(1),
  "its worker dies or loses its lease, and no retry is left": crashes(0),
  "the function completes it by within(tx).complete(result)": async (scene) =>
    run(() =>
      scene.queue.transaction((tx) => {
        currentTask().within(tx).complete("done");
      }),
    )(scene),
  "the function throws CancelTask": run(() => {
    throw new CancelTask("no");
  }),
  "the function throws SnoozeTask or ThrottleTask": async (scene) => {
    await run(() => {
      throw currentTask().id % 2 === 0 ? new SnoozeTask("1h") : new ThrottleTask("1h");
    })(scene);
  },
  "cancelTask while it runs": (scene) => whileItRuns(scene, (id) => scene.queue.cancelTask(id)),
  "cancelTask while it waits": async ({ queue, hooked, work }) => {
    await queue.cancelTask(await queue.enqueueTask(hooked(never)));
    await work();
  },
  "purgeTasks or deleteTasks while it runs": (scene) =>
    whileItRuns(scene, () => scene.queue.purgeTasks({ includeRunning: true })),
  "its worker stops, and hands it back": (scene) =>
    whileItRuns(scene, (_, worker) => worker.stop({ grace: 0 })),
  "a drain has sent it, and it fails there or has no result in time": drained,
};

const events = ["completed", "failed", "retrying", "cancelled", "snoozed", "interrupted", "lost"] as const;

test("each row of the table has its test", () => {
  expect(documented().map(({ end }) => end)).toEqual(Object.keys(ends));
});

test.each(documented())("$end: $hooks, $event", async ({ end, hooks, status, event }) => {
  const url = join(temporaryFolder(), "dbq.db");
  const queue = await temporaryQueue({}, url);
  const called: string[] = [];
  const statuses: string[] = [];
  const heard: string[] = [];
  const hooked: Scene["hooked"] = (fn, options) =>
    task(end.includes("runIn") ? "ends-its-process" : uniqueName(), fn, {
      ...options,
      beforeRun: () => void called.push("beforeRun"),
      onSuccess: () => void called.push("onSuccess"),
      onFailure: (failed: Task) => {
        called.push("onFailure");
        statuses.push(failed.status);
      },
    });
  const work = async () => {
    const worker = await startedWorker(queue);
    for (const each of events)
      worker.on(each, () => {
        heard.push(each);
      });
    return worker;
  };
  await ends[end]?.({ queue, url, called, work, hooked });
  await vi.waitFor(() => expect([called, heard]).toEqual([hooks, event === undefined ? [] : [event]]), soon);
  expect(statuses).toEqual(status === undefined ? [] : [status]);
});
