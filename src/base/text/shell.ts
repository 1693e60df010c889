/** Names in commands that a person copies into a shell. */
import { printable } from "./escapes.ts";

/**
 * Writes a name as a word for the shell. Control characters and invisible ones become escapes in `$'…'`, which bash, zsh and ksh
 * read: the command can be printed, and still means the same name. A backtick becomes an escape too, since our sentences put
 * commands between backticks.
 */
export function quoted(name: string): string {
  if ([...name].some(isEscaped)) return `$'${[...name].map(escapedForShell).join("")}'`;
  return /^[\w.@/-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
}

const isEscaped = (character: string): boolean => character === "`" || printable(character) !== character;

function escapedForShell(character: string): string {
  if (character === "'" || character === "\\") return `\\${character}`;
  if (!isEscaped(character)) return character;
  return [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
}

/** The options by which `dbq worker` serves these queues. `--queue` would part a name at its commas, and trim it. */
export function servingOptions(queueNames: readonly string[]): string {
  const isParted = (name: string) => name.includes(",") || name.trim() !== name;
  const whole = queueNames.filter((name) => !isParted(name));
  const lists = whole.length === 0 ? [] : [`--queue ${whole.map(quoted).join(",")}`];
  return [...lists, ...queueNames.filter(isParted).map((name) => `--queue-name ${quoted(name)}`)].join(" ");
}

/** A name as an argument, which is no option although it may look like one. */
export const argument = (name: string): string => `${name.startsWith("-") ? "-- " : ""}${quoted(name)}`;
