/**
 * Text as every database can store it, in a column that is not JSON: NUL and unpaired surrogates, which Postgres refuses and
 * others change, become U+FFFD. In JSON they are escapes, so that no such character is lost there.
 */
export function storable(text: string): string {
  return text.replaceAll("\0", "\ufffd").toWellFormed();
}

/** The text in ASCII, with an escape such as `\\u00e9` in place of each other character: any database can store it. */
export function toAscii(text: string): string {
  return text.replace(/[^\t\n\r -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
