/**
 * Messages between the two sides of a feature: one side works in the worker, the other in the database. The core carries them with
 * a claim, with the answer to a claim, and with the answer of the query for due work. It does not read them.
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
