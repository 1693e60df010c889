/**
 * What a policy adds to a claim, and what it answers. A policy has a side at the worker and a side in the database: the core carries
 * the part of each from one side to the other, and does not look into it.
 */

/** A claim, or the answer to one. */
export interface WithParts {
  /** By the names of the policies that have something to say. */
  readonly parts?: Readonly<Record<string, unknown>> | undefined;
}

/** The part of one policy, whose type only the policy knows. */
export class Part<T> {
  readonly #policy: string;

  constructor(policy: string) {
    this.#policy = policy;
  }

  /** Undefined: the policy has said nothing. */
  of({ parts }: WithParts): T | undefined {
    return parts?.[this.#policy] as T | undefined;
  }

  /** For a message, beside the parts that it has. */
  with(value: T, { parts }: WithParts = {}): { parts: Record<string, unknown> } {
    return { parts: { ...parts, [this.#policy]: value } };
  }
}
