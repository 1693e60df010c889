/** Writes a folder of thirty documents with unusual names, encodings and contents. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const longName = `${"long".repeat(62)}.md`;

/** By path. Each path is valid on the file systems of Linux and macOS. */
const documents: Record<string, string | Buffer> = {
  "README.md":
    "# Start\n\n[guide](guide/) [same](./a/README.md) [up](../up.md) [gone](gone.md) <a href='a/README.md'>raw</a>",
  "a/README.md": "# Same name\n\n[other](../b/README.md#two) [script](javascript:alert(1))",
  "b/README.md": "# Same name\n\n## Two",
  "b/c/README.MD": "# Shouting",
  "guide/README.md": "# Guide\n\n[long](<deep/deeper/deepest.md>)",
  "guide/deep/deeper/deepest.md": "Setext\n======\n\n[home](../../../README.md)",
  "empty.md": "",
  "blank.md": " \n\t\n",
  "nul.md": "# a\0b\n\n\0<script>alert(1)</script>",
  "binary.md": Buffer.from(Array.from({ length: 4_096 }, (_, i) => (i * 37 + 11) % 256)),
  "bom.md": "\ufeff# With a mark",
  "utf16le.md": Buffer.from("\ufeff# Sixteen ü", "utf16le"),
  "utf16be.md": Buffer.from("\ufeff# Sixteen ü", "utf16le").swap16(),
  "latin1.md": Buffer.from("# Grüße", "latin1"),
  "cut.md": Buffer.concat([Buffer.alloc(2 * 1_024 * 1_024 - 1, "word "), Buffer.from("ü and more")]),
  "slow.md": "_a".repeat(50_000),
  "deep.md": `${">".repeat(20_000)}text`,
  "script.md":
    "# <script>alert(1)</script>\n\n<script>alert(2)</script>\n\nin <script>alert(3)</script> line",
  "image.md": '<img src=x onerror="alert(1)">\n\n![x](javascript:alert(1))\n\n<svg onload=alert(1)></svg>',
  "breakout.md": "</article></main></body></html>\n\n<div><details><b>never closed",
  "style.md": "<style>body{display:none}</style>\n\n<meta http-equiv=refresh content='0;url=//evil.example'>",
  "names/with space.md": "[sharp](a%23b.md) [question](what%3F.md)",
  "names/a#b.md": "# Sharp",
  "names/what?.md": "# Question",
  "names/100%.md": "# Percent",
  'names/"><script>alert(1)<.md': "no heading: the title is the path",
  "names/line\nbreak.md": "# Two lines",
  "names/__proto__.md": "[constructor](constructor.md) [own](__proto__)",
  [longName]: "# Long name",
  // Folders with the names of a document and of a page.
  "folder.md/1-folder.html/page.md": "# In folders with odd names",
};

/** Writes the documents, and other files beside them. @returns the paths of the documents */
export function writeDocuments(folder: string): string[] {
  for (const [path, content] of Object.entries(documents)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  writeFileSync(join(folder, "notes.txt"), "no Markdown");
  symlinkSync("nowhere.md", join(folder, "dangling.md"));
  symlinkSync("..", join(folder, "guide", "circle"));
  return Object.keys(documents);
}

/** Writes many small documents. */
export function writeMany(folder: string, count: number): void {
  for (let i = 0; i < count; i++) writeFileSync(join(folder, `${i}.md`), `# Document ${i}\n\nText.\n`);
}
