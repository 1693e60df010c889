/** The events of a drain. */
import { EventEmitter } from "node:events";
import { guarded, report } from "../../events.ts";
import type { Task } from "../../task.ts";

export interface DrainEvents {
  /** This drain carries the queue from now on. */
  active: [];
  /** Another drain carries the queue, or this one was declared dead: it waits for its turn. */
  standby: [];
  /** These messages have arrived. */
  sent: [messageIds: string[]];
  /** The target refused the message of this task. */
  refused: [task: Task, error: unknown];
  /** The target cannot be used: the drain tries again after `delay` milliseconds. */
  paused: [error: unknown, delay: number];
  /** The target can be used again. */
  resumed: [];
  /**
   * An error that no caller can receive: no task is lost by it. `where` says what the drain was doing. Without a listener it
   * goes to `dbq:error`, or is a process warning.
   */
  error: [error: unknown, where: string];
}

/** A typed emitter. A listener that throws is reported and changes nothing. */
export class DrainEmitter extends EventEmitter<DrainEvents> {
  /** @internal */
  protected reportError(error: unknown, where: string): void {
    if (this.listenerCount("error") > 0) this.tell("error", error, where);
    else report(error, where);
  }

  /** @internal */
  protected tell<E extends keyof DrainEvents>(event: E, ...args: DrainEvents[E]): void {
    for (const listener of (this as EventEmitter).rawListeners(event))
      guarded(`a listener of the drain's "${event}"`, () => listener.apply(this, args));
  }
}
