/** What a seeded fault is: `npm run mutants` applies each of the list, and the test that it names has to turn red. */

export interface Mutant {
  /** A few words with hyphens, by which `--only` finds it. */
  readonly name: string;
  /** What would go wrong for a user, in one sentence. */
  readonly why: string;
  /** The file of the fault, from the root of the repository. */
  readonly file: string;
  /** Text that occurs once in the file: then `find` is the first after it, and need not be the only one. */
  readonly after?: string;
  /** What is replaced, as it stands in the file. */
  readonly find: string;
  readonly replace: string;
  /** The test that has to fail by it. */
  readonly caughtBy: NamedTest;
  /** The test cannot fail, it waits for what never comes: then its time limit counts as its failure. */
  readonly hangs?: true;
}

export interface NamedTest {
  readonly file: string;
  /** The titles of its groups and its own, joined by " > ", as `vitest list` prints them. */
  readonly test: string;
}
