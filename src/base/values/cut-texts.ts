/** Cuts long texts for people who read a list. */

/**
 * Cuts the texts of these fields to so many characters, in place.
 * @param bytesOf a text that is longer, by the place of its field @default the bytes of the text, which is there as a whole
 * @returns the bytes of those that were longer
 */
export function cutTexts<F extends string>(
  record: Record<F, string | null>,
  fields: readonly F[],
  characters: number,
  bytesOf: (place: number, text: string) => number = (_, text) => Buffer.byteLength(text),
): Partial<Record<F, number>> {
  const cut: Partial<Record<F, number>> = {};
  for (const [i, field] of fields.entries()) {
    const text: string = record[field] ?? "";
    // A character outside of the Basic Multilingual Plane has a length of two.
    const all = text.length > characters ? [...text] : [];
    if (all.length <= characters) continue;
    record[field] = all.slice(0, characters).join("");
    cut[field] = bytesOf(i, text);
  }
  return cut;
}
