/**
 * Two kinds of texts that stand in place of JSON. A sealed text is encrypted, and names its key. A refused text is no JSON: a store
 * gives it in place of a value that must not be used, and it says why.
 */
import { DecryptionFailedError, KeyMissingError, NotEncryptedError } from "../../errors.ts";

const sealedPrefix = '{"dbq:sealed":"';
/** The same key of an object, in JSON that is no sealed text. */
const escapedKey = '"dbq\\u003asealed"';
const sealedEnd = '"}';

const refusedPrefix = "!dbq:";

/** Why a value must not be used. */
export type Refusal = "broken" | "clear";

/** SQLite gives bytes where another program has written such. */
const begins = (text: unknown, prefix: string) => typeof text === "string" && text.startsWith(prefix);

/** The JSON of keys. An app's objects have the same ones again and again: to look one up takes a fifth of the time of making it. */
const keyTexts = new Map([["dbq:sealed", escapedKey]]);
const mostKeyTexts = 1_000;
const longestKept = 100;

/** A key of an app's object as JSON. No value of an app's looks sealed: nobody has a key for it, and no worker would run its task. */
export function keyText(key: string): string {
  const known = keyTexts.get(key);
  if (known !== undefined) return known;
  const text = JSON.stringify(key);
  if (keyTexts.size < mostKeyTexts && key.length <= longestKept) keyTexts.set(key, text);
  return text;
}

export const isSealed = (text: string): boolean => begins(text, sealedPrefix);

/** @param content the version, the id of the key and the data, with colons between them */
export const sealedText = (content: string): string => `${sealedPrefix}${content}${sealedEnd}`;

/** What `sealedText` was made from; undefined: it is no such text. */
export const sealedContent = (text: string): string | undefined =>
  isSealed(text) && text.endsWith(sealedEnd) ? text.slice(sealedPrefix.length, -sealedEnd.length) : undefined;

/** Whether sealed text is anywhere in it. */
export const hasSealed = (text: string): boolean => typeof text === "string" && text.includes(sealedPrefix);

/**
 * Adds a result to the arguments of the next task in a chain. Both are JSON. Sealed arguments are no array: they become the first
 * element of one.
 */
export function withArgument(args: string, result: string): string {
  if (isSealed(args)) return `[${args},${result}]`;
  return args === "[]" ? `[${result}]` : `${args.slice(0, args.lastIndexOf("]"))},${result}]`;
}

/** Takes sealed arguments and the result behind them apart; undefined: it is something else. */
export function followedArguments(text: string): { args: string; result: string } | undefined {
  if (!begins(text, `[${sealedPrefix}`) || !text.endsWith("]")) return undefined;
  const end = text.indexOf(sealedEnd, sealedPrefix.length) + sealedEnd.length;
  return text[end] === "," ? { args: text.slice(1, end), result: text.slice(end + 1, -1) } : undefined;
}

/** The last argument, if it is sealed, and what stands before it; undefined: it is not. */
export function sealedArgument(text: string): { before: string; sealed: string } | undefined {
  // Many arguments end like that. From the front, V8 searches 1 KiB in a tenth of the time.
  if (typeof text !== "string" || !text.endsWith(`${sealedEnd}]`) || !hasSealed(text)) return undefined;
  const at = text.lastIndexOf(sealedPrefix);
  const sealed = text.slice(at, -1);
  // Base64 has no quote: a sealed text ends with the first one.
  if (at < 1 || sealed.indexOf(sealedEnd, sealedPrefix.length) !== sealed.length - sealedEnd.length)
    return undefined;
  return { before: text.slice(0, text[at - 1] === "," ? at - 1 : at), sealed };
}

/** The id of the key, as a sealed text or its begin names it; undefined: it is in clear. */
export const sealedBy = (text: string): string | undefined =>
  /^\[?\{"dbq:sealed":"\d+:([\w.-]{1,64}):/.exec(text)?.[1];

const keyIn = (text: string): string => sealedBy(text) ?? "of an unknown name";

/** @param what what must not be used, such as `the args of task 12` */
export const refusedText = (why: Refusal, what: string): string => `${refusedPrefix}${why}:${what}`;

/** @throws KeyMissingError for a sealed text; DecryptionFailedError or NotEncryptedError for a refused one */
export function refuseUnreadable(text: string, column: string): void {
  if (isSealed(text) || begins(text, `[${sealedPrefix}`)) throw new KeyMissingError(column, keyIn(text));
  if (!begins(text, refusedPrefix)) return;
  const [, why, what = column] = text.split(/:(\w+):(.*)/s);
  throw why === "clear" ? new NotEncryptedError(what) : new DecryptionFailedError(what);
}

/** The same for arguments, of which the last one may be sealed. */
export const refuseUnreadableArguments = (text: string, column: string): void =>
  refuseUnreadable(sealedArgument(text)?.sealed ?? text, column);
