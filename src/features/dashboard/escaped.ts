/** Writes characters that reorder, hide or confuse text as escapes. The command line does the same by itself, in `text.ts`. */

/** Control characters, format characters, line and paragraph separators, and unpaired surrogates. */
const hiding = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

const shortForms = new Map([
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["\t", "\\t"],
]);

/** The text on one line, with escapes such as `\x1b` and `\u202e`. */
export const withEscapes = (text: string): string =>
  text.replace(hiding, (character) => shortForms.get(character) ?? escapeOf(character.codePointAt(0) ?? 0));

function escapeOf(code: number): string {
  const hex = code.toString(16);
  if (code <= 0xff) return `\\x${hex.padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}
