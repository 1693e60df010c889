/** The check of a built site, which `npm run docs` ends with. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { deadLinks } from "../../scripts/dead-links.mjs";
import { temporaryFolder } from "../support/queue.ts";

function site(pages: Record<string, string>): string {
  const folder = temporaryFolder();
  for (const [path, html] of Object.entries(pages)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), html);
  }
  return folder;
}

test("links to pages, folders, files and headings of the site are alive", () => {
  const folder = site({
    "index.html": '<a href="/docs/guide.html#über">a</a> <a href="/api/">b</a> <a href="./docs/guide">c</a>',
    "docs/guide.html":
      '<h2 id="über">d</h2> <a href="#über">e</a> <a href="../a.css">f</a> <a href="/">g</a>',
    "api/index.html": '<a class="x" href="https://example.com/nowhere">h</a>',
    "a.css": "",
  });
  expect(deadLinks(folder, "/")).toEqual({ pages: 3, dead: [] });
});

test("a link to a missing page or heading is named with its page", () => {
  const folder = site({
    "index.html": '<a href="/gone.html">a</a> <a href="/docs/guide.html#gone">b</a>',
    "docs/guide.html": '<h2 id="here">c</h2> <a href="#gone">d</a> <a href="guide.html#here">e</a>',
  });
  expect(deadLinks(folder, "/").dead.sort()).toEqual([
    "docs/guide.html: #gone",
    "index.html: /docs/guide.html#gone",
    "index.html: /gone.html",
  ]);
});

test("a site below a path of its host has its links below that path", () => {
  const folder = site({
    "index.html": '<a href="/dbq/guide.html">a</a> <a href="/guide.html">b</a>',
    "guide.html": "",
  });
  expect(deadLinks(folder, "/dbq/").dead).toEqual(["index.html: /guide.html"]);
});
