/** Thrown by the function that ends a task whose end was held up: so it ends, and nothing of it is retried. */
import type { DecidedStatus } from "../base/values/ending.ts";

export class DecidedEnd extends Error {
  readonly kind: DecidedStatus;
  /** JSON, as the row is to have it. */
  readonly error: string;

  constructor(kind: DecidedStatus, error: string) {
    super(`the task is to end as ${kind}`);
    [this.kind, this.error] = [kind, error];
  }
}
