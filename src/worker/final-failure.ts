/**
 * Thrown by an executor for what another attempt would meet again: the arguments are invalid, or the result cannot be stored.
 * The task fails for good, with the `cause` as its error.
 */
export class FinalFailure extends Error {
  readonly #isOne = true;

  /** Not by `instanceof`: a function may throw a proxy whose prototype cannot be read. */
  static isOne(value: unknown): value is FinalFailure {
    return typeof value === "object" && value !== null && #isOne in value;
  }
}
