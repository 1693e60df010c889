/** Converts text to HTML, and back. */

const references: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

const characters: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
};

/** Escapes text for HTML text or a quoted attribute value. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => references[character] ?? character);
}

/** The same for text that already has character references such as `&copy;`. */
export function escapeAround(text: string): string {
  return text.replace(
    /[<>"']|&(?!(?:#\d{1,7}|#x[\da-f]{1,6}|\w+);)/gi,
    (character) => references[character] ?? character,
  );
}

/** Decodes the character references that matter in an address, as a browser does. Others stay unchanged. */
export function decodeReferences(html: string): string {
  return html.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w+));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return characters[name.toLowerCase()] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
      ? String.fromCodePoint(code)
      : "\ufffd";
  });
}

/** The text of HTML that this site has generated. */
export function textOf(html: string): string {
  return decodeReferences(html.replace(/<[^>]*>/g, " "))
    .replace(/\s+/g, " ")
    .trim();
}
