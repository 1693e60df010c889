/** What tests need to know of a database server, and what they call what they make there. */
import { randomBytes } from "node:crypto";

/** Where a server is, or why there is none for these tests. */
export type Server =
  | { readonly url: string; readonly reason?: undefined }
  | { readonly url?: undefined; readonly reason: string };

/** What `describe.skipIf` needs. @throws Error instead of a skip, with DBQ_REQUIRE_ALL=1 */
export function isMissing({ reason }: Server): boolean {
  if (reason === undefined) return false;
  if (process.env.DBQ_REQUIRE_ALL === "1") throw new Error(reason);
  console.log(`left out: ${reason}`);
  return true;
}

/** The host of a URL, for messages: never its password. @throws Error that does not repeat what is no URL */
export function hostOf(variable: string, url: string): string {
  try {
    return new URL(url).host;
  } catch {
    throw new Error(`${variable} is no URL`);
  }
}

/** What a driver says in a word; its messages may be empty (of two addresses), or long. */
export function codeOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return String(code ?? message ?? error);
}

const prefix = "dbq_test_";
/** Milliseconds: no test takes so long. What is older was left by a run that was killed. */
const longest = 3_600_000;

/** A name that no other test has, for a schema or database; it says when it was made. */
export function newName(): string {
  return `${prefix}${Date.now().toString(36)}_${randomBytes(4).toString("hex")}`;
}

export const namesLike = `${prefix}%`;

export function isLeftOver(name: string): boolean {
  const made = Number.parseInt(name.slice(prefix.length), 36);
  return Date.now() - made > longest;
}
