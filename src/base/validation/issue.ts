/** One thing that is wrong with a value, as its schema says it. */
export interface ValidationIssue {
  readonly message: string;
  /** The keys that lead to it: `["items", 0, "price"]`. Empty: the whole value is wrong. */
  readonly path: readonly (string | number)[];
}
