/** Schemas that tests write by hand: no library decides what is synchronous, and how often one is asked. */
import type { SchemaResult, StandardSchema } from "../../src/index.ts";

export interface Amount {
  amount: number;
  currency?: string;
}

export type Charge = Required<Amount>;

/** A schema of one function. */
export function schemaOf<I, O>(
  validate: (value: unknown) => SchemaResult<O> | Promise<SchemaResult<O>>,
): StandardSchema<I, O> {
  return { "~standard": { version: 1, vendor: "dbq-tests", validate } };
}

/** An amount that is a number; the currency is EUR unless the caller says another one. */
function judge(value: unknown): SchemaResult<Charge> {
  const { amount, currency = "EUR" } = (value ?? {}) as Partial<Amount>;
  return typeof amount === "number"
    ? { value: { amount, currency } }
    : { issues: [{ message: "expected a number", path: ["amount"] }] };
}

export const charge = schemaOf<Amount, Charge>(judge);

/** The same, as a schema that asks a database would be. */
export const lateCharge = schemaOf<Amount, Charge>(async (value) => {
  await new Promise((resolve) => setImmediate(resolve));
  return judge(value);
});

/** What no type lets through, but a program without types, or another language, may enqueue. */
export const badAmount = { amount: "5" } as unknown as Amount;
