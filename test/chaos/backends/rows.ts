/** What all backends share. */
import { randomBytes } from "node:crypto";

/** Renames the columns to camelCase, the same for each database. */
export function named<T>(row: Readonly<Record<string, unknown>>): T {
  const entries = Object.entries(row).map(([name, value]) => [camelOf(name), value] as const);
  return Object.fromEntries(entries) as T;
}

const camelOf = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** A name that is not used yet. */
export const freshName = (): string => `dbq_chaos_${randomBytes(6).toString("hex")}`;
