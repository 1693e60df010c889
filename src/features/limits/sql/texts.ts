/** The SQL of claims that limits or groups are about, made once for each dialect in a process. */
import { memoize } from "../../../base/runtime/memoize.ts";
import type { Statement } from "../../../stores/sql/statements.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import { groupCandidatesOf, limitStatements, steeredCandidatesOf } from "./statements.ts";

export interface LimitTexts extends Texts {
  limits: ReturnType<typeof limitStatements>;
  /** The candidates of so many pairs of a queue and a function, with what a limit may be about. */
  steeredCandidates: (pairs: number) => Statement;
  /** The first tasks of so many groups of a function. */
  groupCandidates: (groups: number) => Statement;
}

export const limitTextsOf = memoize(
  (texts: Texts): LimitTexts => ({
    ...texts,
    limits: limitStatements(texts.dialect),
    steeredCandidates: memoize((pairs: number) => steeredCandidatesOf(texts.dialect, pairs)),
    groupCandidates: memoize((groups: number) => groupCandidatesOf(texts.dialect, groups)),
  }),
);
