/** The tasks of a queue that lives for a long time: how they are added at a steady rate, and a worker that counts them. */
import { type Queue, task, Worker } from "dbq-ts";
import { sharedNow, sleep } from "../processes/clock.ts";

/** Milliseconds between two enqueue calls. */
const every = 20;

/** How many of the tasks have run in this process. */
let ran = 0;

/** The function of later measurements too, which have to skip the rows that these tasks leave in the table. */
const urgent = task("urgent", (n: number) => {
  ran += 1;
  return n;
});

/** Adds so many tasks a second, from now on. Returns how many. */
export async function addUrgentAt(rate: number, queue: Queue, milliseconds: number): Promise<number> {
  const start = sharedNow();
  let enqueued = 0;
  for (let now = start; now - start < milliseconds; now = sharedNow()) {
    const due = Math.floor(((now - start) * rate) / 1_000) - enqueued;
    const first = enqueued;
    if (due > 0)
      await queue.enqueueTasks(Array.from({ length: due }, (_, i) => [urgent, first + i] as const));
    enqueued += due;
    await sleep(every);
  }
  return enqueued;
}

/** Runs these tasks. */
export class UrgentWorker {
  readonly #queue: Queue;
  readonly #worker: Worker;
  readonly #errors: string[] = [];

  constructor(queue: Queue) {
    this.#queue = queue;
    this.#worker = new Worker(queue, { tasks: [urgent] });
    this.#worker.on("error", (error) =>
      this.#errors.push(error instanceof Error ? error.message : String(error)),
    );
  }

  get ran(): number {
    return ran;
  }

  async start(): Promise<void> {
    await this.#worker.start();
  }

  /** Closes the queue too. @throws Error when the worker has reported any */
  async stop(): Promise<void> {
    await this.#worker.stop();
    await this.#queue.close();
    const [first] = this.#errors;
    if (first !== undefined) throw new Error(`the worker reported ${this.#errors.length} errors: ${first}`);
  }
}
