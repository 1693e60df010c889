/** Control errors: a handler throws one to choose its task's outcome, instead of returning or failing. */

import { classId, isInstance } from "../../errors.ts";
import { type Duration, longestWait, milliseconds } from "../options/durations.ts";

/** Lets a worker recognise the control errors of another copy of dbq. */
abstract class ControlError extends Error {
  /** @internal */
  static readonly [classId]: string = "ControlError";

  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: subclasses inherit this method.
    return isInstance(this, value);
  }
}

/** Thrown by a handler: the task ends as `cancelled` and is not tried again. */
export class CancelTask extends ControlError {
  /** @internal */
  static override readonly [classId]: string = "CancelTask";
  override readonly name = "CancelTask";

  constructor(why = "cancelled by its handler") {
    super(why);
  }
}

/** A control error after which the task runs again later. */
abstract class DelayError extends ControlError {
  /** @internal */
  static override readonly [classId]: string = "DelayError";
  /** Milliseconds. */
  readonly delay: number;

  constructor(delay: Duration, name: string, what: string) {
    super(`${what} for ${delay}`);
    this.delay = milliseconds(delay, name, longestWait);
  }
}

/**
 * Thrown by a handler whose service refuses more calls: no task of its group (without a group, of its function) starts for
 * `delay`; then this one runs again too. No retry is charged.
 */
export class ThrottleTask extends DelayError {
  /** @internal */
  static override readonly [classId]: string = "ThrottleTask";
  override readonly name = "ThrottleTask";

  /** @throws TypeError when `delay` is not a duration. */
  constructor(delay: Duration) {
    super(delay, "ThrottleTask", "throttled");
  }
}

/** Thrown by a handler: the task runs again after `delay`, and no retry is charged. */
export class SnoozeTask extends DelayError {
  /** @internal */
  static override readonly [classId]: string = "SnoozeTask";
  override readonly name = "SnoozeTask";

  /** @throws TypeError when `delay` is not a duration. */
  constructor(delay: Duration) {
    super(delay, "SnoozeTask", "snoozed");
  }
}
