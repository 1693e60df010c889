/** Queues, workers and folders that are removed when their test has ended. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { TestClock } from "../../src/base/runtime/clock.ts";
import { openQueue, type Queue, type QueueOptions, Worker, type WorkerOptions } from "../../src/index.ts";
import { openQueueAt } from "../../src/open.ts";

/** A folder for one test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dbq-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A queue on a new file (or on `target`), closed after the test. */
export async function temporaryQueue(options?: QueueOptions, target?: string | object): Promise<Queue> {
  const queue = await openQueue(target ?? join(temporaryFolder(), "dbq.db"), options);
  onTestFinished(() => queue.close());
  return queue;
}

/** The same, by a clock that stands still until the test advances it: a test that waits for a time need not wait. */
export async function queueByClock(
  target?: string,
  clock = new TestClock(),
): Promise<{ queue: Queue; clock: TestClock }> {
  const queue = await openQueueAt(clock, target ?? join(temporaryFolder(), "dbq.db"));
  onTestFinished(() => queue.close());
  return { queue, clock };
}

/** A running worker, stopped after the test without grace. */
export async function startedWorker<C>(queue: Queue, options?: WorkerOptions<C>): Promise<Worker<C>> {
  const worker = new Worker<C>(queue, options);
  await worker.start();
  onTestFinished(() => worker.stop({ grace: 0 }));
  return worker;
}

/** A promise that a test settles by hand: tests wait for these instead of sleeping. */
export function deferred<T = void>(): {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (error: unknown) => void;
} {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

let names = 0;

/** A name that no other test of this file has used. */
export function uniqueName(prefix = "task"): string {
  names += 1;
  return `${prefix}-${names}`;
}

/** Makes a database on a server, and drops it after the test. Returns its URL. */
export async function urlForTest(
  make: () => Promise<{ readonly url: string; drop(): Promise<void> }>,
): Promise<string> {
  const { url, drop } = await make();
  onTestFinished(drop);
  return url;
}
