/** Which files of the repository are pages of the site, and where on the site they are. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { sections, titles } from "../sections.ts";

export const root = fileURLToPath(new URL("../../", import.meta.url));

/** Folders whose Markdown is on the site. `website/api` is written by TypeDoc. */
const folders = ["docs", "website", "examples", "bench"];
const files = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];

/** Patterns of all Markdown that is no page. */
export const excluded: readonly string[] = [
  ...readdirSync(root, { withFileTypes: true })
    .filter((entry) => (entry.isDirectory() ? !folders.includes(entry.name) : !files.includes(entry.name)))
    .map((entry) => (entry.isDirectory() ? `${entry.name}/**` : entry.name)),
  "website/README.md",
  "bench/*/**",
];

/** The path on the site of a page's file; both from their roots, both with `.md`. */
export function sitePath(file: string): string {
  if (file === "README.md") return "readme.md";
  const folderPage = /^(examples|bench)\/README\.md$/.exec(file);
  if (folderPage) return `${folderPage[1]}.md`;
  return /^[A-Z]+\.md$/.test(file) ? file.toLowerCase() : file.replace(/^(docs|website)\//, "");
}

function isPage(file: string): boolean {
  if (!file.endsWith(".md") || file === "website/README.md") return false;
  return files.includes(file) || /^(docs|website\/api|website)\/|^(examples|bench)\/README\.md$/.test(file);
}

/** Files and folders that pages link to and that are no pages: each gets a page that shows it. */
export function linkedSources(): string[] {
  const pages = sections.flatMap((section) => section.pages);
  const linked = pages.flatMap((page) => {
    const text = readFileSync(join(root, page), "utf8");
    const targets = Array.from(text.matchAll(/\]\(([^)#\s:]+)(?:#[^)]*)?\)/g), ([, target]) => target ?? "");
    return targets.map((target) => fileOf(page, target));
  });
  return [...new Set(linked)].filter((file) => !isPage(file) && !isImage(file) && exists(file)).sort();
}

const exists = (file: string) => existsSync(join(root, file));
const isImage = (file: string) => /\.(svg|png)$/.test(file);
const fileOf = (page: string, path: string) => posix.join(dirname(page), path).replace(/\/$/, "");

export const sourcePage = (file: string): string => `source/${file.replaceAll("/", "-")}`;

/** Where a relative link of a page leads on the site. A broken link stays as it is: VitePress reports it. */
export function siteLink(page: string, target: string): string {
  const [path = "", hash] = target.split("#");
  const file = fileOf(page, path);
  const anchor = hash === undefined ? "" : `#${hash}`;
  if (!exists(file)) return target;
  return `/${isPage(file) ? sitePath(file) : `${sourcePage(file)}.md`}${anchor}`;
}

/** The sidebar, as VitePress takes it, with a section of its own before the last one. */
export function sidebar(beforeLast: object) {
  const all: object[] = sections.map(({ title, pages }) => ({
    text: title,
    items: pages.map((page) => ({ text: titleOf(page), link: `/${sitePath(page)}` })),
  }));
  return all.toSpliced(-1, 0, beforeLast);
}

export function titleOf(file: string): string {
  const heading = /^# (.+)$/m.exec(readFileSync(join(root, file), "utf8"))?.[1];
  if (heading === undefined) throw new Error(`${file} has no first heading`);
  return titles[file] ?? heading.replaceAll("`", "");
}

/** The anchors of headings, as GitHub makes them. */
export function slugify(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(" ", "-");
}
