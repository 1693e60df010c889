/**
 * State that all copies of dbq in a thread share. Under `tsx` in a CommonJS project there are two: one that was required
 * and one that was imported; an app may have installed two as well.
 */

/** The value of this name in this thread, made by whichever copy asks first. */
export function shared<T>(name: string, make: () => T): T {
  const key = Symbol.for(`dbq-ts.${name}`);
  const all = globalThis as unknown as Record<symbol, T | undefined>;
  const value = all[key] ?? make();
  all[key] = value;
  return value;
}

/** Marks the instances of classes that are told apart by their names, since each copy has its own. */
export const brand: unique symbol = Symbol.for("dbq-ts.brand") as never;

/** `instanceof` across copies: a branded value with a class of this name above it. */
export function isInstance(ofClass: { name: string }, value: unknown): boolean {
  if (typeof value !== "object" || value === null || !(brand in value)) return false;
  let above: unknown = Object.getPrototypeOf(value);
  while (above !== null && (above as object).constructor?.name !== ofClass.name)
    above = Object.getPrototypeOf(above);
  return above !== null;
}
