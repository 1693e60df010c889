/** Keeps what a person did in the transaction that does it: neither is there without the other. */

import type { Program } from "../../../stores/sql/program.ts";
import type { Note } from "../contract.ts";
import type { LookOperations } from "./look.ts";

type Write<P extends unknown[]> = <T>(op: (tries: number) => Program<T>, ...policy: P) => Promise<T>;

/** `write` of a runner, for one action. Its later transactions add to the row of the first one. */
export function noting<P extends unknown[]>(
  write: Write<P>,
  look: LookOperations,
  { countOf, alsoOf, ...entry }: Note,
): Write<P> {
  let row: number | undefined;
  return async (op, ...policy) => {
    const [answer, kept] = await write(
      function* (tries) {
        const answer = yield* op(tries);
        const count = countOf(answer, row === undefined);
        if (count === 0) return [answer, row] as const;
        const also = alsoOf?.(answer);
        if (also !== undefined) yield* look.audit({ ...entry, ...also, count });
        return [answer, yield* look.keep(row, { ...entry, count })] as const;
      },
      ...policy,
    );
    row = kept;
    return answer;
  };
}
