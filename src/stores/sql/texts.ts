/** The SQL of one dialect, made once in a process: compiling a statement costs several times what running it does. */
import { memoize } from "../../base/runtime/memoize.ts";
import type { Dialect } from "./dialect.ts";
import { headsOf, plainCandidatesOf, queries, wholeCandidatesOf } from "./queries.ts";
import { type Statement, type Statements, statements } from "./statements.ts";

export interface Texts {
  dialect: Dialect;
  statements: Statements;
  /** The candidates of so many pairs of a queue and a function. */
  candidates: (pairs: number) => Statement;
  /** The same, without the columns that most tasks leave at their defaults. */
  plainCandidates: (pairs: number) => Statement;
  /** The first candidate of each pair in a list. */
  heads: Statement;
  queries: ReturnType<typeof queries>;
}

export function textsOf(dialect: Dialect): Texts {
  return {
    dialect,
    statements: statements(dialect),
    candidates: memoize((pairs: number) => wholeCandidatesOf(dialect, pairs)),
    plainCandidates: memoize((pairs: number) => plainCandidatesOf(dialect, pairs)),
    heads: headsOf(dialect),
    queries: queries(dialect),
  };
}
