import type { Variant } from "../benchmark.ts";
import type { PayloadKind } from "../payloads.ts";

export interface StagedVariant extends Variant {
  readonly payload: PayloadKind;
}

/** The messages of one send. */
export const together = 500;
