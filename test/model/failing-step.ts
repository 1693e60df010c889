/** A step of a model that calls the store while a statement may fail. */
import assert from "node:assert/strict";
import type * as fc from "fast-check";
import { DatabaseError } from "../../src/errors.ts";
import type { Fault, RealStore } from "./real-store.ts";

export abstract class FailingStep<M extends object> implements fc.AsyncCommand<M, RealStore> {
  readonly #fault: Fault | undefined;
  /** What it does, once that is known. */
  protected text = "(not reached)";

  constructor(fault: Fault | undefined) {
    this.#fault = fault;
  }

  check(): boolean {
    return true;
  }

  toString(): string {
    const fault = this.#fault;
    return fault ? `${this.text}, while statement ${fault.statement} ${fault.how}` : this.text;
  }

  abstract run(model: M, real: RealStore): Promise<void>;

  /** `failed`: it rejected because of the fault. Then it may have happened, if only a read after it has failed. */
  protected async call(
    real: RealStore,
    call: () => Promise<unknown>,
  ): Promise<{ answer: unknown; failed: boolean }> {
    let failed = false;
    const asked = () =>
      call().catch((error: unknown) => {
        if (!this.#fault || !(error instanceof DatabaseError)) throw error;
        failed = true;
        return undefined;
      });
    const { answer, fired } = this.#fault
      ? await real.failing(this.#fault, asked)
      : { answer: await asked(), fired: false };
    assert.ok(!failed || fired, "a call failed without a fault");
    return { answer, failed };
  }
}
