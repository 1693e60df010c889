/**
 * Kinds of failures: attempts of one function that ended with the same error, but for what differs each time. A kind is the
 * function, the name of the error, and its message without numbers, UUIDs, hexadecimal, quoted values, the paths and
 * queries of URLs, mail addresses and dates.
 */
import { createHash } from "node:crypto";
import type { AttemptRecord } from "../../store.ts";
import type { TaskError } from "../../task.ts";
import { storable } from "./storable.ts";
import { beginning } from "./thrown.ts";

/** Characters of a message that are looked at, and characters of what becomes of them. */
const longest = { read: 4_000, kept: 300 };

/** Hexadecimal digits of an id. 48 bits: among 10,000 kinds, two have the same id once in 5 million times. */
const idDigits = 12;

/** A kind of failure. */
export interface FailureKind {
  id: string;
  func: string;
  errorName: string;
  /** Normalised. */
  message: string;
}

/** @param errorName as it is stored, as the message */
export function failureKind(func: string, errorName: string, message: string): FailureKind {
  const normalised = normalise(message);
  const hash = createHash("sha256")
    .update(JSON.stringify([func, errorName, normalised]))
    .digest("hex");
  return { id: hash.slice(0, idDigits), func, errorName, message: normalised };
}

/** Of each attempt, since the statement that stores it and the meter that counts it both ask. */
const known = new WeakMap<AttemptRecord, FailureKind>();

/** Undefined: the attempt did not fail, but was cancelled. */
export function failureKindOf(func: string, attempt: AttemptRecord): FailureKind | undefined {
  if (attempt.outcome === "cancelled") return undefined;
  const before = known.get(attempt);
  if (before?.func === func) return before;
  const kind = failureKind(func, attempt.errorName ?? "Error", attempt.errorMessage ?? "");
  known.set(attempt, kind);
  return kind;
}

/** The kind of a failed task, by its error. It is that of the task's last attempt. */
export function failureKindOfTask(func: string, { name, message }: TaskError): FailureKind {
  return failureKind(func, storable(name), storable(message));
}

/** What the failures of one function count as when there are too many kinds at once. No stored message has a NUL. */
export function otherFailures(func: string): FailureKind {
  const { id } = failureKind(func, "Others", "\0");
  return { id, func, errorName: "Others", message: "failures of further kinds" };
}

/**
 * A message without what differs from failure to failure, at most 300 characters. The time that it takes grows with the length of
 * the message, up to 4,000 characters; the rest is not looked at.
 */
export function normalise(message: string): string {
  const read = beginning(message, longest.read);
  const unquoted = withoutQuoted(read, read.length < message.length);
  const text = unquoted.replace(varying, placeholderFor).replace(/\s+/g, " ").trim();
  return beginning(text, longest.kept).trimEnd();
}

// ---- quoted values -----------------------------------------------------------------------------

/** What ends a value that begins with this. */
const closing: Readonly<Record<string, string>> = {
  '"': '"',
  "'": "'",
  "`": "`",
  "“": "”",
  "‘": "’",
  "«": "»",
};

const quotation = /["'`“‘«]/g;
const isWordCharacter = /[\p{L}\p{N}_]/u;

/**
 * Replaces each quoted value by an ellipsis. An apostrophe inside a word is no quotation mark.
 * @param isCut whether the text is only the beginning: then a value may end behind it
 */
function withoutQuoted(text: string, isCut: boolean): string {
  /** The marks of which no value ends in the rest of the text: each is searched for once. */
  const missing = new Set<string>();
  let [result, from] = ["", 0];
  quotation.lastIndex = 0;
  for (let found = quotation.exec(text); found; found = quotation.exec(text)) {
    const [mark] = found;
    if (missing.has(mark) || isWordCharacter.test(text.charAt(found.index - 1))) continue;
    const end = endOfQuoted(text, found.index + 1, closing[mark] as string);
    if (end === undefined) {
      missing.add(mark);
      if (!isCut) continue;
      return `${result}${text.slice(from, found.index)}${mark}…`;
    }
    result += `${text.slice(from, found.index)}${mark}…${closing[mark]}`;
    from = end + 1;
    quotation.lastIndex = from;
  }
  return result + text.slice(from);
}

/** Where the next mark is that no word follows; undefined: there is none. */
function endOfQuoted(text: string, from: number, mark: string): number | undefined {
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at + 1))
    if (!isWordCharacter.test(text.charAt(at + 1))) return at;
  return undefined;
}

// ---- all else ----------------------------------------------------------------------------------

const day = "(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? ";
const month = "(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]{0,6}\\.?";
const clock = "\\d{1,2}:\\d{2}(?::\\d{2}(?:[.,]\\d{1,9})?)?(?: ?[ap]m\\b)?";
const zone =
  " ?(?:z\\b|(?:gmt|utc)(?:[+-]\\d{1,2}:?\\d{0,2})?|[+-]\\d{2}:?\\d{2}\\b)(?: \\([a-z ]{1,40}\\))?";
const time = `(?:,?[t ]${clock}(?:${zone})?)?`;

/**
 * Each alternative begins where no character before could belong to it, or has a bounded length: so a search takes a time that
 * grows with the length of the text, whatever the text is.
 */
// biome-ignore format: an alternative a line
const alternatives = [
  "(?<url>(?<![\\w+.-])[a-z][\\w+.-]*://[^\\s\"'`“”‘’«»<>]*)",
  "(?<mail>(?<![\\w.+-])[\\w.+-]+@[\\w-]+(?:\\.[\\w-]+)+)",
  "(?<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})",
  `(?<date>(?<!\\d)(?:\\d{4}-\\d{2}-\\d{2}${time}|(?<![a-z])(?:${day})?(?:${month} \\d{1,2},? \\d{4}|\\d{1,2} ${month} \\d{4})${time}))`,
  "(?<hexadecimal>(?<![0-9a-z])(?:0x[0-9a-f]+|(?=\\d*[a-f])[0-9a-f]{8,})(?![0-9a-z]))",
  "(?<number>(?:(?<![\\w)])[+-])?\\p{Nd}+(?:[.,]\\p{Nd}+)*(?:e[+-]?\\d+)?)",
];

const varying = new RegExp(alternatives.join("|"), "giu");
const digits = /\p{Nd}+/gu;

function placeholderFor(found: string, ...rest: unknown[]): string {
  const groups = rest.at(-1) as Readonly<Record<string, string | undefined>>;
  if (groups.url !== undefined) return withoutPath(found);
  if (groups.mail !== undefined) return "<mail>";
  if (groups.uuid !== undefined) return "<uuid>";
  // Eight digits by themselves may be hexadecimal, too.
  return groups.date === undefined ? "<n>" : "<date>";
}

/** The scheme and the host of a URL, and what follows the URL in its sentence. */
function withoutPath(url: string): string {
  const begin = url.indexOf("://") + 3;
  let end = url.length;
  while (end > begin && ".,;:!?)]}…".includes(url.charAt(end - 1))) end -= 1;
  const [authority = ""] = url.slice(begin, end).split(/[/?#]/, 1);
  const host = authority.slice(authority.lastIndexOf("@") + 1);
  return `${url.slice(0, begin)}${host}`.replace(digits, "<n>") + url.slice(end);
}

/** How the error begins of an attempt whose outcome the database refuses, whatever its function has done. */
export const refusedOutcome = "the database refuses the outcome of the attempt (";
