/** Finds links of a built site that lead to no page, or to no heading of it. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix, relative, sep } from "node:path";

/**
 * @param {string} folder the site
 * @param {string} base the path of a host at which the site will be
 * @returns {{ pages: number, dead: string[] }} each dead link as "page: link"
 */
export function deadLinks(folder, base) {
  const pages = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".html"))
    .map((file) => relative(folder, join(folder, file)).split(sep).join("/"));
  /** @type {Map<string, Set<string>>} */
  const anchors = new Map();
  const texts = new Map(pages.map((page) => [page, readFileSync(join(folder, page), "utf8")]));
  for (const [page, text] of texts) anchors.set(page, attributes(text, "id"));
  const dead = [];
  for (const [page, text] of texts) {
    for (const href of attributes(text, "href")) {
      if (/^[a-z]+:|^\/\//.test(href)) continue;
      const [path = "", anchor] = href.split("#");
      const target =
        path === "" ? page : fileOf(folder, posix.resolve(`${base}${posix.dirname(page)}`, path), base);
      const found =
        target !== undefined && (anchors.get(target)?.has(decodeURIComponent(anchor ?? "")) ?? true);
      if (target === undefined || (anchor && !found)) dead.push(`${page}: ${href}`);
    }
  }
  return { pages: pages.length, dead };
}

/**
 * @param {string} html
 * @param {"id" | "href"} name
 */
function attributes(html, name) {
  const values = html.matchAll(new RegExp(`<[^>]*?\\s${name}="([^"]*)"`, "g"));
  return new Set(Array.from(values, ([, value = ""]) => value.replaceAll("&amp;", "&")));
}

/**
 * The file behind a path, as a host serves it.
 * @param {string} folder
 * @param {string} path
 * @param {string} base
 */
function fileOf(folder, path, base) {
  const file = path === base.replace(/\/$/, "") ? "" : relative(base, path);
  return [file, `${file}.html`, posix.join(file, "index.html")].find(
    (name) => existsSync(join(folder, name)) && statSync(join(folder, name)).isFile(),
  );
}
