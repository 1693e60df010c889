/** What tests need to know about a database server, and the names of what they create there. */
import { randomBytes } from "node:crypto";

/** The URL of a server, or the reason why there is none for these tests. */
export type Server =
  | { readonly url: string; readonly reason?: undefined }
  | { readonly url?: undefined; readonly reason: string };

/** The condition for `describe.skipIf`. @throws Error instead of a skip, with DBQ_REQUIRE_ALL=1 */
export function isMissing({ reason }: Server): boolean {
  if (reason === undefined) return false;
  if (process.env.DBQ_REQUIRE_ALL === "1") throw new Error(reason);
  console.log(`left out: ${reason}`);
  return true;
}

/** The host of a URL, for messages, without its password. @throws Error that does not repeat an invalid URL */
export function hostOf(variable: string, url: string): string {
  try {
    return new URL(url).host;
  } catch {
    throw new Error(`${variable} is not a URL`);
  }
}

/** A driver's error in one word: its message may be empty (for two addresses), or long. */
export function codeOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return String(code ?? message ?? error);
}

const prefix = "dbq_test_";
/** Milliseconds: longer than any test. Anything older was left by a killed run. */
const longest = 3_600_000;

/** An unused name for a schema or database, which contains its time of creation. */
export function newName(): string {
  return `${prefix}${Date.now().toString(36)}_${randomBytes(4).toString("hex")}`;
}

export const namesLike = `${prefix}%`;

export function isLeftOver(name: string): boolean {
  const made = Number.parseInt(name.slice(prefix.length), 36);
  return Date.now() - made > longest;
}
