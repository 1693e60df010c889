/**
 * What a feature says to its other side. A feature has a side at the worker and a side in the database: the core carries the part of
 * each from one side to the other, with a claim, its answer, or the look at what is due, and does not look into it.
 */

/** A message between a worker and the database. */
export interface WithParts {
  /** By their names. */
  readonly parts?: Readonly<Record<string, unknown>> | undefined;
}

/** One part, whose type only its feature knows. */
export class Part<T> {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  /** Undefined: the feature has said nothing. */
  of({ parts }: WithParts): T | undefined {
    return parts?.[this.#name] as T | undefined;
  }

  /** For a message, beside the parts that it has. */
  with(value: T, { parts }: WithParts = {}): { parts: Record<string, unknown> } {
    return { parts: { ...parts, [this.#name]: value } };
  }
}
