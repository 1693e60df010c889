/** Calls of a store during which a statement may fail, for steps of models. */
import assert from "node:assert/strict";
import { DatabaseError } from "../../src/errors.ts";
import type { Fault, RealStore } from "./real-store.ts";

/** The text of a step with what fails meanwhile. */
export const withFault = (text: string, fault: Fault | undefined): string =>
  fault ? `${text}, while statement ${fault.statement} ${fault.how}` : text;

/** `failed`: it rejected because of the fault. Then it may have happened, if only a read after it has failed. */
export async function callFailing(
  real: RealStore,
  fault: Fault | undefined,
  call: () => Promise<unknown>,
): Promise<{ answer: unknown; failed: boolean }> {
  let failed = false;
  const asked = () =>
    call().catch((error: unknown) => {
      if (!fault || !(error instanceof DatabaseError)) throw error;
      failed = true;
      return undefined;
    });
  const { answer, fired } = fault
    ? await real.failing(fault, asked)
    : { answer: await asked(), fired: false };
  assert.ok(!failed || fired, "a call failed without a fault");
  return { answer, failed };
}
