/** Writes the enqueue calls of one event-loop tick in one statement, and gives each caller its own id or error. */
import { inRootContext } from "../base/runtime/root-context.ts";
import { DatabaseError, QueueClosedError } from "../errors.ts";
import type { Inserted, NewTask } from "../store.ts";

import { idOf, type Prepared } from "./enqueue.ts";

interface Waiting {
  prepared: Prepared;
  resolve: (id: number) => void;
  reject: (error: unknown) => void;
}

/** Writes the calls of one tick in one statement, and gives each its own id or error. */
export class GroupCommit {
  readonly #insert: (tasks: readonly NewTask[]) => Promise<Inserted[]>;
  #waiting: Waiting[] = [];
  #writing: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(insert: (tasks: readonly NewTask[]) => Promise<Inserted[]>) {
    this.#insert = insert;
  }

  add(prepared: Prepared): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new QueueClosedError());
      // setImmediate, not a microtask: what the sockets of one poll phase enqueue is one tick too.
      if (this.#waiting.length === 0) inRootContext(() => setImmediate(() => this.#flush()));
      this.#waiting.push({ prepared, resolve, reject });
    });
  }

  /** Writes what was added, and takes no more. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#flush();
    await this.#writing;
  }

  #flush(): void {
    const batch = this.#waiting;
    this.#waiting = [];
    if (batch.length > 0)
      this.#writing = Promise.all([this.#writing, this.#write(batch)]).then(() => undefined);
  }

  async #write(batch: readonly Waiting[], refused = { calls: 0 }): Promise<void> {
    const began = performance.now();
    try {
      const inserted = await this.#insert(batch.map(({ prepared }) => prepared.task));
      for (const [i, waiting] of batch.entries()) answer(waiting, inserted[i] as Inserted);
    } catch (error) {
      const isRefusal = error instanceof DatabaseError && performance.now() - began < longestRefusal;
      const canBeTold = batch.length > 1 && refused.calls < mostRefused;
      if (isRefusal && canBeTold) return await this.#writeApart(batch, refused);
      refused.calls += 1;
      for (const { reject } of batch) reject(error);
    }
  }

  /** The database refused one of them at least: that is no reason to refuse the others. */
  async #writeApart(batch: readonly Waiting[], refused: { calls: number }): Promise<void> {
    const middle = Math.floor(batch.length / 2);
    await this.#write(batch.slice(0, middle), refused);
    await this.#write(batch.slice(middle), refused);
  }
}

/** Milliseconds. What takes longer is a database that cannot be written to, and would take as long for each. */
const longestRefusal = 1_000;

/** So many calls of one tick are told apart from the others: of a database that refuses all, each is not asked about. */
const mostRefused = 10;

function answer({ prepared, resolve, reject }: Waiting, inserted: Inserted): void {
  try {
    resolve(idOf(prepared, inserted));
  } catch (error) {
    reject(error);
  }
}
