/** The words of a part of a page, as a person reads them. */

/** @param id the id of the panel, or the class of the list */
export function textOf(html: string, id: string): string {
  const [, part = ""] = html.split(new RegExp(`(?:id|class)="${id}"[^>]*>`));
  return (part.split(/<\/(?:section|ol)>/)[0] ?? "")
    .replaceAll(/<[^>]+>/g, "")
    .replaceAll(/\s+/g, " ")
    .trim();
}
