/** What a handler throws to steer its task, beside returning and failing. */
import { type Duration, longestWait, milliseconds } from "./durations.ts";

/** The task ends as `cancelled`, and is not tried again. */
export class CancelTask extends Error {
  override readonly name = "CancelTask";

  constructor(why = "cancelled by its handler") {
    super(why);
  }
}

/** The task comes back after `delay`; no retry is charged. */
export class SnoozeTask extends Error {
  override readonly name = "SnoozeTask";
  /** Milliseconds. */
  readonly delay: number;

  /** @throws TypeError when `delay` is not a duration. */
  constructor(delay: Duration) {
    super(`snoozed for ${delay}`);
    this.delay = milliseconds(delay, "SnoozeTask", longestWait);
  }
}
