/** What a seeded fault is: `npm run mutants` applies each of the list, and the test that it names has to turn red. */

export interface Mutant {
  /** A few words with hyphens, by which `--only` finds it. */
  readonly name: string;
  /** What would go wrong for a user, in one sentence. */
  readonly why: string;
  /**
   * The enclosing declarations, from the outside in: `Worker.#begin`. Those in between may be left out. A `case` counts, by
   * its value. None: the piece is unique in all sources.
   */
  readonly in?: string;
  /**
   * The piece that is replaced: an expression, statements, members, properties, or `` `a part of a template` ``. The search
   * goes by the syntax tree: format, comments and quotes do not matter, and names may have changed since. `$any` stands for
   * any one node, `$$$any` for any number of siblings.
   */
  readonly find: string;
  /** The new code. Its names follow those of `find`, when the source has renamed them. Empty: the piece is left out. */
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
