/**
 * The start of a child: who asks gets its id, as soon as it is known. It is no promise, since a task may start very many children, and
 * Node calls its hooks for each promise.
 */
import type { NewTask } from "../../store.ts";

interface Listener {
  started(id: number): void;
  failed(error: unknown): void;
}

export class ChildStart {
  /** The name of the step. */
  readonly name: string;
  readonly task: NewTask;
  /** The check of the arguments that is not over yet; undefined: none. */
  readonly checking: Promise<unknown> | undefined;
  #listeners: Listener[] = [];
  #tell: ((listener: Listener) => void) | undefined;

  constructor(name: string, task: NewTask, checking: Promise<unknown> | undefined) {
    this.name = name;
    this.task = task;
    this.checking = checking;
  }

  /** Calls one of both: now if the id is known or the start has failed, else when that is so. Nothing if the attempt ends before. */
  listen(started: (id: number) => void, failed: (error: unknown) => void): void {
    const listener = { started, failed };
    if (this.#tell) this.#tell(listener);
    else this.#listeners.push(listener);
  }

  started(id: number): void {
    this.#end((listener) => listener.started(id));
  }

  failed(error: unknown): void {
    this.#end((listener) => listener.failed(error));
  }

  #end(tell: (listener: Listener) => void): void {
    this.#tell = tell;
    for (const listener of this.#listeners.splice(0)) tell(listener);
  }
}
