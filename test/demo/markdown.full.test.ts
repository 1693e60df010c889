/** The demo renders documents of unknown origin: no page may run or load anything, whatever its document has. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Links } from "../../demo/links.ts";
import { renderMarkdown } from "../../demo/markdown.ts";
import { harmIn, tagsOf } from "./page.ts";

const pages = new Map([
  ["guide/start.md", "1-guide-start.html"],
  ["guide/README.md", "2-guide-readme.html"],
  ["other/README.md", "3-other-readme.html"],
  ["other/my notes #1.md", "4-other-my-notes-1.html"],
]);
const links = new Links(pages, { number: 1, path: "guide/start.md", page: "1-guide-start.html" });

function rendered(source: string): string {
  return renderMarkdown(source, links).html;
}

function addresses(source: string): (string | undefined)[] {
  return tagsOf(rendered(source))
    .filter(({ name, closing }) => name === "a" && !closing)
    .map(({ attributes }) => attributes.get("href"));
}

const hostile = [
  "<script>alert(1)</script>",
  "text <script>alert(1)</script> text",
  "text <pre><img/src=x onerror=alert(1)> &lt;b</pre>",
  "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
  "<img src=x onerror=alert(1)>",
  '<img src="x" alt="><script>alert(1)</script>">',
  "<svg/onload=alert(1)>",
  "<a href='javascript:alert(1)' onclick=alert(1)>a</a>",
  '<a href="java&#115;cript:alert(1)">a</a>',
  "[a](javascript:alert(1))",
  "[a](java&#x0a;script&colon;alert(1))",
  "[a](JaVaScRiPt:alert(1))",
  "[a](<\u0001javascript:alert(1)>)",
  "[a](vbscript:x) [b](data:text/html;base64,PHNjcmlwdD4=) [c](file:///etc/passwd)",
  '[a](x "\\" onmouseover=alert(1)")',
  "![a](javascript:alert(1))",
  '![" onerror="alert(1)](x)',
  "<javascript:alert(1)>",
  "[a]: javascript:alert(1)\n\n[a]",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<meta http-equiv=refresh content='0;url=//evil.example'>",
  "<base href=//evil.example>",
  "<style>*{display:none}</style><p style='position:fixed'>",
  "<form action=//evil.example><button>x</button></form>",
  "</article></main></body></html><p>",
  "</div></span></p></h1>",
  "<div><b><i>never closed",
  "<!-- <script> --> <!-- never closed <script>",
  "<![CDATA[<script>alert(1)</script>]]> <?php <script> ?> <!DOCTYPE x>",
  '```"><script>alert(1)</script>\ncode\n```',
  "`<script>`",
  "# <script>alert(1)</script> \"' &\n# </h1><script>",
  '<h1 id="x\ty">a</h1><td colspan="1;x">',
  "| <script> | ![](javascript:1) |\n|---|---|\n| <img src=x onerror=1> | `|` |",
  "- [ ] <details open ontoggle=alert(1)>",
  "<a\n<script>alert(1)</script>",
  "&lt;script&gt; &#60;script&#62; &notareference; & &amp;lt;",
];

describe("a hostile document", () => {
  test.each(hostile)("%j does no harm", (source) => {
    expect(harmIn(rendered(source))).toEqual([]);
  });

  test("made of any mixture of hostile pieces does no harm", () => {
    const pieces = [
      ...hostile,
      ..."< > \" ' & / = ` \n \n\n * _ [ ] ( ) ! # | - \\ <p <a </ <!-- --> <pre> </pre> <b> href=".split(
        " ",
      ),
      "\n",
      "\n\n",
      " ",
      "\0",
    ];
    const documents = fc.array(fc.oneof(fc.constantFrom(...pieces), fc.string({ unit: "binary" })), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(documents, (parts) => {
        expect(harmIn(rendered(parts.join("")))).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    ["too slow", "_a".repeat(50_000)],
    ["too deep", `${">".repeat(20_000)}word`],
  ])("that is %s for the parser is shown as plain text", (_, source) => {
    const { html, words } = renderMarkdown(source, links);
    expect(html).toMatch(/^<p class="note">/);
    expect(tagsOf(html).map(({ name }) => name)).toEqual(["p", "p", "pre", "pre"]);
    expect(words).toBeGreaterThan(0);
  });
});

describe("links", () => {
  test("between documents point to their pages", () => {
    expect(addresses("[a](README.md) [b](../other/README.md#use) [c](/other/README.md)")).toEqual([
      "2-guide-readme.html",
      "3-other-readme.html#use",
      "3-other-readme.html",
    ]);
    expect(addresses("[folder](../other/) [odd](<../other/my notes %231.md>) [self](#below)")).toEqual([
      "3-other-readme.html",
      "4-other-my-notes-1.html",
      "#below",
    ]);
    expect(addresses('<a href="../other/README.md">raw</a>')).toEqual(["3-other-readme.html"]);
  });

  test("to the web stay, and links without a target keep only their text", () => {
    expect(addresses("[a](https://example.org/?a=1&amp;b=2) <https://example.org/&amp;>")).toEqual([
      "https://example.org/?a=1&b=2",
      "https://example.org/&amp;",
    ]);
    expect(addresses("[a](../LICENSE) [b](../../outside.md) [c](http://[)")).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(rendered("[gone](../LICENSE)")).toContain(">gone</a>");
  });

  test("to a heading point to it", () => {
    const html = rendered("# How to: start!\n\n## Use\n\n## Use\n\n[a](#how-to-start) [b](#use-1)");
    const targets = tagsOf(html).flatMap(({ attributes }) => attributes.get("id") ?? []);
    expect(targets).toEqual(["how-to-start", "use", "use-1"]);
  });
});

test("images become links and are never loaded", () => {
  const html = rendered(
    "[![badge](https://example.org/b.svg)](https://example.org) ![](https://example.org/i.png)",
  );
  expect(tagsOf(html).filter(({ name }) => name === "img")).toEqual([]);
  expect(html).toContain("badge");
  expect(addresses("![photo](https://example.org/i.png)")).toEqual(["https://example.org/i.png"]);
});

test("harmless raw HTML stays, and open tags are closed", () => {
  expect(rendered('<p align="center">Press <kbd>Ctrl</kbd></p>')).toContain(
    '<p align="center">Press <kbd>Ctrl</kbd></p>',
  );
  expect(rendered("<details><summary>More</summary>\n\ntext")).toMatch(/<\/details>$/);
});

test.each([
  ["# A *good* `title` & more\n\ntext", "A good title & more", 5],
  ["## Second\n\n# First", "First", 2],
  ['<h1 align="center">Raw &amp; centred</h1>', "Raw & centred", 2],
  ["no heading at all", undefined, 4],
  ["", undefined, 0],
  ["naïve don't v1.2.3 日本語", undefined, 4],
])("%j has this title and this number of words", (source, title, words) => {
  expect(renderMarkdown(source, links)).toMatchObject({ title, words });
});
