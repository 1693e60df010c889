/** Generates the pages of the site. The Content-Security-Policy of a page allows only its own style and script. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { escapeHtml } from "./html.ts";
import type { Rendered } from "./markdown.ts";
import type { Document } from "./plan.ts";

/** The folder of the pages, beside the index. */
export const pagesFolder = "pages";

const style = inline("site.css");
const script = inline("search.js");

/** Line ends become `\n`, as the HTML parser reads them: the policy has the hash of that text. */
function inline(file: string): string {
  return readFileSync(new URL(file, import.meta.url), "utf8").replaceAll("\r\n", "\n");
}

export interface PageParts extends Rendered {
  document: Document;
  /** The task that made the page: a line in the footer. */
  madeBy: string;
}

/** A document in the index. */
export interface Entry {
  path: string;
  page: string;
  title: string;
  words: number;
}

/** The page of one document. */
export function pageOf({ document, html, title, words, madeBy }: PageParts): string {
  const body = `<header class="bar">
<a class="back" href="../index.html">All documents</a>
<span class="path">${escapeHtml(document.path)}</span>
</header>
<main>
<article>
${html === "" ? "<em>This document is empty.</em>" : html}
</article>
</main>
<footer>${counted(words, "word")}. ${escapeHtml(madeBy)}.</footer>`;
  return page({ title: title ?? document.path, body });
}

/** The index: a list of all pages, and a search field that filters it. */
export function indexOf(entries: readonly Entry[], failed: readonly string[]): string {
  const words = entries.reduce((sum, entry) => sum + entry.words, 0);
  const body = `<main class="index">
<h1>Documentation</h1>
<p class="lead">${counted(entries.length, "document")}, ${counted(words, "word")}.
Each page was made by one task of a queue, and this list by a last task.</p>
<div class="tools">
<input id="search" type="search" placeholder="Search titles and paths (press /)" aria-label="Search titles and paths">
<select id="order" aria-label="Order">
<option value="path">by path</option>
<option value="title">by title</option>
<option value="words">longest first</option>
</select>
</div>
<p id="found" role="status"></p>
<ul id="documents">
${entries.map(entryOf).join("\n")}
</ul>
${failed.length === 0 ? "" : failures(failed)}
</main>`;
  return page({ title: "Documentation", body, script });
}

function entryOf({ path, page, title, words }: Entry): string {
  return (
    `<li data-words="${words}"><a href="${pagesFolder}/${encodeURIComponent(page)}">` +
    `<strong>${escapeHtml(title)}</strong><span class="path">${escapeHtml(path)}</span></a>` +
    `<span class="words">${counted(words, "word")}</span></li>`
  );
}

function failures(paths: readonly string[]): string {
  const items = paths.map((path) => `<li>${escapeHtml(path)}</li>`).join("\n");
  return `<h2>Without a page</h2>\n<p>The tasks of these documents failed.</p>\n<ul>\n${items}\n</ul>`;
}

function page(parts: { title: string; body: string; script?: string }): string {
  const allowed = [
    "default-src 'none'",
    `style-src ${hashOf(style)}`,
    ...(parts.script === undefined ? [] : [`script-src ${hashOf(parts.script)}`]),
    "base-uri 'none'",
    "form-action 'none'",
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${allowed.join("; ")}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(parts.title)}</title>
<style>${style}</style>
</head>
<body>
${parts.body}
${parts.script === undefined ? "" : `<script>${parts.script}</script>`}
</body>
</html>
`;
}

/** The source expression by which a policy allows an inline style or script. */
function hashOf(content: string): string {
  return `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
}

function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
