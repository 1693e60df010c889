/**
 * State that all copies of dbq in a thread share. Under `tsx` in a CommonJS project there are two: one that was required
 * and one that was imported; an app may have installed two as well.
 */

/** The value of this name in this thread, made by whichever copy asks first. */
export function processGlobal<T>(name: string, make: () => T): T {
  const key = Symbol.for(`dbq-ts.${name}`);
  const all = globalThis as unknown as Record<symbol, T | undefined>;
  const value = all[key] ?? make();
  all[key] = value;
  return value;
}
