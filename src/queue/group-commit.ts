/** Writes the enqueue calls of one event-loop tick together, and gives each caller its own id or error. */
import { inRootContext } from "../base/runtime/root-context.ts";
import { performance, setImmediate } from "../base/runtime/timers.ts";
import { DatabaseError, QueueClosedError } from "../errors.ts";
import type { Inserted, NewTask } from "../store.ts";
import { idOf, type Prepared } from "./enqueue.ts";

/** One call of `enqueueTask` that is not written yet. */
interface Call {
  prepared: Prepared;
  resolve: (id: number) => void;
  reject: (error: unknown) => void;
}

/** Milliseconds. A refusal that takes longer is an outage: the calls are not tried one by one, as each would take as long. */
const maxRefusalMs = 1_000;

/** Refused calls of one tick that are found one by one. A database that refuses every call is not asked about each. */
const maxRefusals = 10;

export class GroupCommit {
  readonly #insert: (tasks: readonly NewTask[]) => Promise<Inserted[]>;
  #calls: Call[] = [];
  #writing: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(insert: (tasks: readonly NewTask[]) => Promise<Inserted[]>) {
    this.#insert = insert;
  }

  /** Resolves with the id once the task is written. @throws QueueClosedError, DuplicateTaskError, DatabaseError */
  add(prepared: Prepared): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new QueueClosedError());
      // setImmediate, not a microtask: the calls of all sockets in one poll phase are one tick too.
      if (this.#calls.length === 0) inRootContext(() => setImmediate(() => this.#flush()));
      this.#calls.push({ prepared, resolve, reject });
    });
  }

  /** Resolves when all calls are written. Later calls are refused. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#flush();
    await this.#writing;
  }

  #flush(): void {
    const batch = this.#calls;
    this.#calls = [];
    if (batch.length > 0)
      this.#writing = Promise.all([this.#writing, this.#write(batch)]).then(() => undefined);
  }

  /** `refused`: how many calls of the tick the database has refused one by one. */
  async #write(batch: readonly Call[], refused = { calls: 0 }): Promise<void> {
    const began = performance.now();
    try {
      const inserted = await this.#insert(batch.map(({ prepared }) => prepared.task));
      for (const [i, call] of batch.entries()) answer(call, inserted[i] as Inserted);
    } catch (error) {
      const isRefusal = error instanceof DatabaseError && performance.now() - began < maxRefusalMs;
      if (isRefusal && batch.length > 1 && refused.calls < maxRefusals)
        return await this.#writeHalves(batch, refused);
      refused.calls += 1;
      for (const { reject } of batch) reject(error);
    }
  }

  /** The database refused at least one call. The halves are written apart, until the refused calls stand alone. */
  async #writeHalves(batch: readonly Call[], refused: { calls: number }): Promise<void> {
    const middle = Math.floor(batch.length / 2);
    await this.#write(batch.slice(0, middle), refused);
    await this.#write(batch.slice(middle), refused);
  }
}

function answer({ prepared, resolve, reject }: Call, inserted: Inserted): void {
  try {
    resolve(idOf(prepared, inserted));
  } catch (error) {
    reject(error);
  }
}
