/** What all kinds of places have in common. */
import { randomBytes } from "node:crypto";

/** The columns as `camelCase`, on each database the same. */
export function named<T>(row: Readonly<Record<string, unknown>>): T {
  const entries = Object.entries(row).map(([name, value]) => [camelOf(name), value] as const);
  return Object.fromEntries(entries) as T;
}

const camelOf = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** That nobody else has. */
export const freshName = (): string => `dbq_chaos_${randomBytes(6).toString("hex")}`;
