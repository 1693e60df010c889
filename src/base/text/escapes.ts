/** Writes characters that reorder, hide or confuse text as escapes: a task's data must not change what a person sees. */

/**
 * C0 and C1 controls, which begin a terminal's escape sequences; format characters, which reorder or hide text; line and
 * paragraph separators; unpaired surrogates. Node's `stripVTControlCharacters` removes only escape sequences, and does so
 * silently.
 */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

const shortForms: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The text on one line, with each control and format character as an escape such as `\x1b` or `\u202e`. */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => shortForms[character] ?? escaped(character));
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (code <= 0xff) return `\\x${hex.padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}
