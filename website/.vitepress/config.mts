/** The site: the Markdown of the repository as it is, and the API reference that TypeDoc writes to `website/api`. */
import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type MarkdownOptions, type UserConfig } from "vitepress";
import { excluded, root, sidebar, siteLink, sitePath, slugify } from "./pages.ts";

const { description, version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

type MarkdownIt = Parameters<NonNullable<MarkdownOptions["config"]>>[0];
type Plugin = Extract<NonNullable<NonNullable<UserConfig["vite"]>["plugins"]>[number], { name: string }>;
type Token = ReturnType<MarkdownIt["parse"]>[number];

/** TypeDoc's own table of contents; missing until TypeDoc has run. */
function apiItems() {
  const file = join(root, "website/api/sidebar.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
}

/** Links of the repository's Markdown are those of GitHub: relative to the file, and to any other file. */
function leadToSite(token: Token, page: string): void {
  const target = token.type === "link_open" ? token.attrGet("href") : null;
  if (target === null || /^[a-z]+:|^[/#]/.test(target)) return;
  token.attrSet("href", siteLink(page, decodeURI(target)));
}

/** The pages are compiled to components that import Vue, which is installed here and not where the pages are. */
function resolveVue(): Plugin {
  const here = join(root, "website/index.md");
  return {
    name: "resolve-vue",
    enforce: "pre",
    resolveId(id, importer, { ssr } = {}) {
      if (!/^vue(\/|$)/.test(id)) return undefined;
      if (ssr) return { id, external: true };
      return importer?.includes(".md") ? this.resolve(id, here, { skipSelf: true }) : undefined;
    },
  };
}

export default defineConfig({
  title: "dbq",
  description,
  head: [
    [
      "link",
      {
        rel: "icon",
        href: "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'><rect width='8' height='8' rx='2' fill='%23147a64'/><path d='M2 2.5h4M2 4h4M2 5.5h2' stroke='white'/></svg>",
      },
    ],
  ],
  srcDir: "..",
  srcExclude: [...excluded],
  outDir: "dist",
  cacheDir: "node_modules/.cache",
  rewrites: sitePath,
  markdown: {
    anchor: { slugify },
    theme: { light: "github-light-high-contrast", dark: "github-dark" },
    config: (md) => {
      md.core.ruler.push("repository-links", ({ tokens, env }) => {
        const page = relative(root, env.realPath ?? env.path).replaceAll("\\", "/");
        for (const { children } of tokens) for (const token of children ?? []) leadToSite(token, page);
      });
    },
  },
  vite: { plugins: [resolveVue()], build: { chunkSizeWarningLimit: 4_000 } },
  themeConfig: {
    nav: [
      { text: "Guide", link: "/getting-started", activeMatch: "^/(?!api/)." },
      { text: "API", link: "/api/", activeMatch: "^/api/" },
      { text: `v${version}`, link: "/changelog" },
    ],
    sidebar: {
      "/": sidebar({ text: "Reference", items: [{ text: "API", link: "/api/" }] }),
      "/api/": [{ text: "API", link: "/api/", items: apiItems() }],
    },
    outline: { level: [2, 3] },
    // An error's code and a column's name are one word each.
    search: {
      provider: "local",
      options: { miniSearch: { options: { tokenize: (text) => text.split(/[^\p{L}\p{N}_]+/u) } } },
    },
  },
});
