import * as fc from "fast-check";
import type { Fault } from "./real-store.ts";

/**
 * A fault in one of the first statements of a step, or none.
 * @param last the last statement in which it may occur, counted from 0
 * @param rarity a step has a fault once in so many draws
 */
export function drawnFault(
  faults: readonly Fault["how"][],
  last: number,
  rarity: number,
): fc.Arbitrary<Fault | undefined> {
  const fault = fc.record({ statement: fc.nat(last), how: fc.constantFrom(...faults) });
  return fc.option(fault, { nil: undefined, freq: rarity });
}
