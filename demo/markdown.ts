/** Converts Markdown of unknown origin to HTML that is safe to show. */
import vm from "node:vm";
import { Marked, type RendererObject } from "marked";
import { decodeReferences, escapeAround, escapeHtml, textOf } from "./html.ts";
import type { Links } from "./links.ts";
import { RawHtml } from "./sanitize.ts";

export interface Rendered {
  html: string;
  title: string | undefined;
  words: number;
}

/** Milliseconds. Some inputs keep a Markdown parser busy for minutes, such as 50,000 times `_a`. */
const renderLimit = 3_000;

/** A document as HTML, or as plain text with a note if the parser takes too long or fails. */
export function renderMarkdown(source: string, links: Links): Rendered {
  const text = source.replaceAll("\0", "\ufffd");
  try {
    const html = bounded(() => parse(text, links));
    return { html, title: titleOf(html), words: wordsOf(html) };
  } catch {
    return renderText(text, "The parser could not read this document. It is shown as plain text.");
  }
}

/** A document as plain text, with a note. */
export function renderText(text: string, note: string): Rendered {
  const html = `<pre>${escapeHtml(text)}</pre>`;
  return {
    html: `<p class="note">${escapeHtml(note)}</p>\n${html}`,
    title: undefined,
    words: wordsOf(html),
  };
}

const realm = vm.createContext({ work: undefined });
const callWork = new vm.Script("work()");

/** Ends synchronous work that takes too long, by the timeout of `node:vm`. It is not a sandbox. */
function bounded<T>(work: () => T): T {
  realm.work = work;
  return callWork.runInContext(realm, { timeout: renderLimit });
}

function parse(text: string, links: Links): string {
  const raw = new RawHtml(links);
  const marked = new Marked({ async: false, gfm: true, renderer: rendererOf(links, raw) });
  return (marked.parse(text) as string) + raw.end();
}

function rendererOf(links: Links, raw: RawHtml): RendererObject {
  const identifiers = new Identifiers();
  let inLink = 0;
  return {
    html: ({ text }) => raw.clean(text),
    // The default does not escape text between `<pre>` and `</pre>` tags in a paragraph.
    text(token) {
      return "tokens" in token && token.tokens
        ? this.parser.parseInline(token.tokens)
        : escapeAround(token.text);
    },
    heading({ tokens, depth }) {
      const html = this.parser.parseInline(tokens);
      return `<h${depth} id="${escapeHtml(identifiers.next(textOf(html)))}">${html}</h${depth}>\n`;
    },
    link({ href, text, tokens, autolink }) {
      inLink += 1;
      const content = autolink ? escapeHtml(text) : this.parser.parseInline(tokens);
      inLink -= 1;
      return `${links.open(autolink ? href : decodeReferences(href))}${content}</a>`;
    },
    image: ({ href, text }) =>
      links.image(decodeReferences(href), decodeReferences(text), inLink > 0 || raw.inLink),
  };
}

/** The ids of headings, by the rules of GitHub, on which documents rely. */
class Identifiers {
  readonly #used = new Map<string, number>();

  next(heading: string): string {
    const id = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replace(/\s/g, "-")
      .slice(0, 100);
    const before = this.#used.get(id) ?? 0;
    this.#used.set(id, before + 1);
    return before === 0 ? id : `${id}-${before}`;
  }
}

/** The first heading of rank 1, else of rank 2, cut to 120 characters. */
function titleOf(html: string): string | undefined {
  const headings = [...html.matchAll(/<h([12])\b[^>]*>([\s\S]*?)<\/h\1>/g)]
    .map(([, rank, content = ""]) => ({ rank, text: textOf(content) }))
    .filter(({ text }) => text !== "");
  const title = headings.find(({ rank }) => rank === "1") ?? headings[0];
  return title && Array.from(title.text).slice(0, 120).join("");
}

function wordsOf(html: string): number {
  return textOf(html).match(/[\p{L}\p{N}]+(?:['’.-][\p{L}\p{N}]+)*/gu)?.length ?? 0;
}
