/** From a call to a row: what is given is read and encoded at once; the calls of one tick are written together. */

import { inRootContext } from "../base/runtime/root-context.ts";
import { type AnyFunction, registrationOf } from "../base/tasks/registry.ts";
import { overridden } from "../base/tasks/task-options.ts";
import { checkSize, encodeArgs, encodeObject } from "../base/values/codec.ts";
import { DatabaseError, DuplicateTaskError, QueueClosedError } from "../errors.ts";
import { enqueueChannel } from "../events.ts";
import type { DuplicatePolicy, Inserted, NewTask } from "../store.ts";
import type { TaskId } from "../task.ts";

/** For each function of a tuple (or array), itself and its arguments. */
export type Entries<F extends readonly AnyFunction[]> = {
  readonly [K in keyof F]: readonly [F[K], ...Parameters<F[K]>];
};

/** For each function of a tuple (or array), the id of its task. */
export type Ids<F extends readonly AnyFunction[]> = {
  -readonly [K in keyof F]: TaskId<Awaited<ReturnType<F[K]>>>;
};

/** A task ready to be written. */
export interface Prepared {
  task: NewTask;
  /** Whether a held unique key is an error. */
  refuse: boolean;
}

/**
 * Reads and encodes one call, now: what happens to the arguments later does not matter.
 * @throws UnregisteredFunctionError, NotSerializableError, PayloadTooLargeError
 */
export function prepare(
  fn: unknown,
  args: readonly unknown[],
  maxPayload = Number.POSITIVE_INFINITY,
): Prepared {
  const { definition, overrides } = registrationOf(fn);
  const options = overridden(definition.call, overrides);
  const { name } = definition;
  const { queueName = "default" } = options;
  const meta = observedMeta(name, queueName, options.meta);
  const task: NewTask = {
    func: name,
    args: encodeArgs(args),
    kwargs: encodeObject(options.kwargs, "kwargs"),
    meta: encodeObject(meta, "meta"),
    priority: options.priority ?? 5,
    queueName,
    maxRetries: options.maxRetries ?? 3,
    waitUntil: options.waitUntil ?? null,
    delay: options.delay ?? null,
    timeout: options.timeout ?? null,
    requestId: options.requestId ?? null,
    uniqueKey: options.uniqueKey ?? null,
  };
  checkPayload(task, maxPayload);
  return { task, refuse: options.onDuplicate === "error" };
}

/** @throws PayloadTooLargeError */
export function checkPayload({ func, args, kwargs, meta }: NewTask, maxPayload: number): void {
  checkSize(`the payload of ${func} (args, kwargs and meta)`, maxPayload, args, kwargs, meta);
}

/** Lets whoever observes add to `meta`: a trace's context, for one. */
function observedMeta(func: string, queueName: string, meta: unknown): unknown {
  if (!enqueueChannel.hasSubscribers) return meta;
  // Checked as it was given: a copy of a Map or of an array would pass.
  encodeObject(meta, "meta");
  const message = { func, queueName, meta: { ...(meta as object | undefined) } };
  enqueueChannel.publish(message);
  return message.meta;
}

/** @throws DuplicateTaskError when the key was held and the call said that this is an error. */
export function idOf({ task, refuse }: Prepared, { id, duplicate }: Inserted): number {
  if (duplicate && refuse) throw new DuplicateTaskError(task.uniqueKey ?? "", id);
  return id;
}

/** All or none: no task is written when one may not be a duplicate and is. */
export function allOrNone(prepared: readonly Prepared[]): DuplicatePolicy {
  return { refuse: prepared.map(({ refuse }) => refuse) };
}

export function isPutOff({ delay, waitUntil }: NewTask): boolean {
  return delay !== null || waitUntil !== null;
}

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
