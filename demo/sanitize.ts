/**
 * Sanitizes the raw HTML of documents. Harmless tags and attributes are generated again from their parsed names and values;
 * wrappers without a visible effect are dropped; all other tags become visible text.
 */
import { decodeReferences, escapeAround, escapeHtml } from "./html.ts";
import type { Links } from "./links.ts";

const kept = new Set(
  (
    "a b blockquote br center code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd li ol p pre q s samp " +
    "small span strike strong sub summary sup table tbody td tfoot th thead tr tt u ul var"
  ).split(" "),
);
const dropped = new Set("figcaption figure font nobr picture section source wbr".split(" "));
const empty = new Set(["br", "hr", "img"]);

/** The attributes that are kept, if their values match. */
const attributes: Readonly<Record<string, RegExp>> = {
  align: /^(?:left|center|right)$/,
  colspan: /^\d{1,3}$/,
  id: /^\S{1,100}$/,
  open: /^/,
  rowspan: /^\d{1,3}$/,
  start: /^\d{1,9}$/,
};

const tag = /<!--[\s\S]*?-->|<(\/?)([a-z][a-z0-9-]*)((?:\s(?:[^>"']|"[^"]*"|'[^']*')*)?)\/?>/gi;
const attribute = /([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?/g;

/** Sanitizes the raw HTML of one document, piece by piece in document order, so that every closed tag has been opened. */
export class RawHtml {
  readonly #links: Links;
  readonly #open: string[] = [];

  constructor(links: Links) {
    this.#links = links;
  }

  get inLink(): boolean {
    return this.#open.includes("a");
  }

  /** Sanitizes a piece of raw HTML. */
  clean(html: string): string {
    let clean = "";
    let end = 0;
    for (const match of html.matchAll(tag)) {
      clean += escapeAround(html.slice(end, match.index)) + this.#clean(match);
      end = match.index + match[0].length;
    }
    return clean + escapeAround(html.slice(end));
  }

  /** Closes the tags that the document has left open. */
  end(): string {
    return this.#closeTo(0);
  }

  #clean([whole, slash, given = "", rest = ""]: RegExpExecArray): string {
    if (whole.startsWith("<!--")) return "";
    const name = given.toLowerCase();
    if (dropped.has(name)) return "";
    if (!kept.has(name)) return escapeHtml(whole);
    if (slash === "/") return empty.has(name) ? "" : this.#close(name);
    const values = attributesOf(rest);
    if (name === "img")
      return this.#links.image(values.get("src") ?? "", values.get("alt") ?? "", this.inLink);
    if (!empty.has(name)) this.#open.push(name);
    const text = attributesToKeep(values);
    return name === "a" && values.has("href")
      ? this.#links.open(values.get("href") ?? "", text)
      : `<${name}${text}>`;
  }

  #close(name: string): string {
    const opened = this.#open.lastIndexOf(name);
    return opened === -1 ? "" : this.#closeTo(opened);
  }

  #closeTo(length: number): string {
    return this.#open
      .splice(length)
      .reverse()
      .map((name) => `</${name}>`)
      .join("");
  }
}

function attributesOf(text: string): Map<string, string> {
  const values = new Map<string, string>();
  for (const [, name = "", double, single, bare] of text.matchAll(attribute)) {
    // Older documents use `name` for the target of a link.
    const key = name.toLowerCase() === "name" ? "id" : name.toLowerCase();
    if (!values.has(key)) values.set(key, decodeReferences(double ?? single ?? bare ?? ""));
  }
  return values;
}

function attributesToKeep(values: ReadonlyMap<string, string>): string {
  return [...values]
    .filter(([name, value]) => Object.hasOwn(attributes, name) && attributes[name]?.test(value))
    .map(([name, value]) => ` ${name}="${escapeHtml(value)}"`)
    .join("");
}
