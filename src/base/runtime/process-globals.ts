/**
 * State that all copies of dbq in a thread share. An app can load two: with `tsx` in a CommonJS project, one is
 * required and one imported; or two packages have each installed one.
 */

/** The value with this name in this thread. The first copy that asks for it creates it. */
export function processGlobal<T>(name: string, make: () => T): T {
  const key = Symbol.for(`dbq-ts.${name}`);
  const all = globalThis as unknown as Record<symbol, T | undefined>;
  const value = all[key] ?? make();
  all[key] = value;
  return value;
}
