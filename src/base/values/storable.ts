/**
 * Text as every database can store it, in a column that is not JSON: NUL and unpaired surrogates, which Postgres refuses and
 * others change, become U+FFFD. In JSON they are escapes, so that no such character is lost there.
 */
export function storable(text: string): string {
  return text.replaceAll("\0", "\ufffd").toWellFormed();
}
