/** Where the links of a document lead once it is a page: to another page of the site, to the web, or nowhere. */
import { escapeHtml } from "./html.ts";
import type { Document } from "./plan.ts";

const external = new Set(["http:", "https:", "mailto:"]);

/** Stands for the folder of the documents, so that the rules of URLs resolve what is relative. */
const root = "http://documents.invalid/";

export class Links {
  readonly #pages: ReadonlyMap<string, string>;
  readonly #base: string;

  /** `pages`: the page of each document, by the document's path. */
  constructor(pages: ReadonlyMap<string, string>, document: Document) {
    this.#pages = pages;
    this.#base = root + document.path.split("/").map(encodeURIComponent).join("/");
  }

  /** The opening tag of a link. One that leads nowhere keeps its text, and says so. */
  open(address: string, attributes = ""): string {
    const target = this.#resolve(address);
    if (target === undefined)
      return `<a class="dead" title="${escapeHtml(`not part of this site: ${address}`)}"${attributes}>`;
    const rel = /^\w+:/.test(target) ? ' rel="noreferrer noopener"' : "";
    return `<a href="${escapeHtml(target)}"${rel}${attributes}>`;
  }

  /** An image as its description, and a link to it: nothing is loaded from addresses that a document names. */
  image(address: string, description: string, inLink: boolean): string {
    const text = `<span class="image">${escapeHtml(description.trim() === "" ? "image" : description)}</span>`;
    return inLink || address === "" ? text : `${this.open(address)}${text}</a>`;
  }

  /** An address as a browser reads it: only what is returned here ever becomes an `href`. */
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
