/**
 * The start of a child: who asks gets its id, as soon as it is known. It is no promise, since a task may start very many children, and
 * Node calls its hooks for each promise.
 */
import type { NewTask } from "../../store.ts";

interface Listener {
  started(id: number): void;
  failed(error: unknown): void;
}

/** A child to be enqueued, unless an earlier attempt has started it. */
export interface ChildCall {
  readonly task: NewTask;
  /** The check of the arguments that is not over yet; undefined: none. */
  readonly checking?: Promise<unknown> | undefined;
}

export class ChildStart {
  /** The name of the step. */
  readonly name: string;
  /** The name of the child's function. */
  readonly func: string;
  /** Undefined: an earlier attempt has started it, or its start is over. */
  #call: ChildCall | undefined;
  #listeners: Listener[] = [];
  #id: number | undefined;
  #failure: { error: unknown } | undefined;

  constructor(name: string, func: string, call: ChildCall | undefined) {
    this.name = name;
    this.func = func;
    this.#call = call;
  }

  get call(): ChildCall | undefined {
    return this.#call;
  }

  /** Calls one of both: now if the id is known or the start has failed, else when that is so. Nothing if the attempt ends before. */
  listen(started: (id: number) => void, failed: (error: unknown) => void): void {
    if (this.#id !== undefined) started(this.#id);
    else if (this.#failure) failed(this.#failure.error);
    else this.#listeners.push({ started, failed });
  }

  /** Its arguments are not needed any more: a task that has started very many children holds no copies of them. */
  started(id: number): void {
    this.#id = id;
    this.#call = undefined;
    for (const listener of this.#taken()) listener.started(id);
  }

  failed(error: unknown): void {
    this.#failure = { error };
    this.#call = undefined;
    for (const listener of this.#taken()) listener.failed(error);
  }

  #taken(): readonly Listener[] {
    const listeners = this.#listeners;
    this.#listeners = [];
    return listeners;
  }
}
