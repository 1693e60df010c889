/** What a handler throws to steer its task, beside returning and failing. */

import { brand, isInstance } from "../../errors.ts";
import { type Duration, longestWait, milliseconds } from "../options/durations.ts";

/** What tells the worker of whichever copy of dbq that this was thrown on purpose. */
abstract class ControlError extends Error {
  /** @internal */
  get [brand](): true {
    return true;
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: each subclass asks for its own name.
    return isInstance(this, value);
  }
}

/** The task ends as `cancelled`, and is not tried again. */
export class CancelTask extends ControlError {
  override readonly name = "CancelTask";

  constructor(why = "cancelled by its handler") {
    super(why);
  }
}

/** The task comes back after `delay`; no retry is charged. */
export class SnoozeTask extends ControlError {
  override readonly name = "SnoozeTask";
  /** Milliseconds. */
  readonly delay: number;

  /** @throws TypeError when `delay` is not a duration. */
  constructor(delay: Duration) {
    super(`snoozed for ${delay}`);
    this.delay = milliseconds(delay, "SnoozeTask", longestWait);
  }
}
