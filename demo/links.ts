/** Rewrites the links of a document: to another page of the site, to the web, or to nothing. */
import { escapeHtml } from "./html.ts";
import type { Document } from "./plan.ts";

const external = new Set(["http:", "https:", "mailto:"]);

/** A base URL for the folder of the documents, so that relative links are resolved by the rules of URLs. */
const root = "http://documents.invalid/";

export class Links {
  readonly #pages: ReadonlyMap<string, string>;
  readonly #base: string;

  /** @param pages the page of each document, by the document's path */
  constructor(pages: ReadonlyMap<string, string>, document: Document) {
    this.#pages = pages;
    this.#base = root + document.path.split("/").map(encodeURIComponent).join("/");
  }

  /** The opening tag of a link. A link without a target keeps its text, and its title says why. */
  open(address: string, attributes = ""): string {
    const target = this.#resolve(address);
    if (target === undefined)
      return `<a class="dead" title="${escapeHtml(`not part of this site: ${address}`)}"${attributes}>`;
    const rel = /^\w+:/.test(target) ? ' rel="noreferrer noopener"' : "";
    return `<a href="${escapeHtml(target)}"${rel}${attributes}>`;
  }

  /** A link with the image's description: a page loads nothing from addresses of a document. */
  image(address: string, description: string, inLink: boolean): string {
    const text = `<span class="image">${escapeHtml(description.trim() === "" ? "image" : description)}</span>`;
    return inLink || address === "" ? text : `${this.open(address)}${text}</a>`;
  }

  /** Resolves an address as a browser does. Every `href` of the site comes from here. */
  #resolve(address: string): string | undefined {
    if (!URL.canParse(address, this.#base)) return undefined;
    const url = new URL(address, this.#base);
    if (!external.has(url.protocol)) return undefined;
    if (!url.href.startsWith(root)) return url.href;
    if (address.trim().startsWith("#")) return url.hash === "" ? "#" : url.hash;
    const page = this.#pageOf(url.pathname);
    return page === undefined ? undefined : page + url.hash;
  }

  #pageOf(pathname: string): string | undefined {
    const path = decoded(pathname).replace(/^\/|\/$/g, "");
    const inside = path === "" ? "" : `${path}/`;
    const candidates = [path, `${path}.md`, `${inside}README.md`, `${inside}readme.md`, `${inside}index.md`];
    const found = candidates.find((candidate) => this.#pages.has(candidate));
    return found === undefined ? undefined : this.#pages.get(found);
  }
}

function decoded(pathname: string): string {
  try {
    return decodeURIComponent(pathname);
  } catch {
    return pathname;
  }
}
