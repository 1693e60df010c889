/** How deeply a JSON text is nested, found without parsing it: what parses or walks a value may have a finite stack. */

const [quote, backslash] = [0x22, 0x5c];
/** `[` and `{`, `]` and `}`: they differ from each other in this bit. */
const eitherBracket = 0x20;
const [open, close] = [0x7b, 0x7d];

/**
 * The text with at most `most` levels of arrays and objects, and one of empty ones: `[1,[2]]` with one level is `[1,[]]`. The same text
 * if it has no more. It may be any text, also one that is no JSON.
 */
export function cutToLevels(text: string, most: number): string {
  // Each level takes two characters.
  if (text.length <= 2 * most) return text;
  let [kept, from, depth] = ["", 0, 0];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      at = endOfString(text, at);
    } else if ((code | eitherBracket) === open) {
      depth += 1;
      if (depth === most + 1) kept += text.slice(from, at + 1);
    } else if ((code | eitherBracket) === close) {
      if (depth === most + 1) from = at;
      depth -= 1;
    }
  }
  return kept === "" ? text : kept + (depth > most ? "" : text.slice(from));
}

/** Where the string of a JSON text that begins at this quote ends. */
export function endOfString(text: string, start: number): number {
  let at = start + 1;
  for (; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === quote) break;
    if (code === backslash) at += 1;
  }
  return at;
}
