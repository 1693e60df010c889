/**
 * `npm run docs`: builds the site of the documentation into website/dist, and fails when a link leads nowhere. Installs the
 * site's packages if needed. The pages are the Markdown of the repository; the API reference comes from src/index.ts.
 */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { deadLinks } from "./dead-links.mjs";
import { installPackages, runStep } from "./package-of-its-own.mjs";

const usage = `Builds the documentation as a site in website/dist: the pages of docs/, the API reference, a search.

  npm run docs                      builds it, and fails when a link leads nowhere
  npm run docs -- --base /dbq/      builds it for this path of a host
  npm run docs -- --serve           shows the pages while you edit them; --port <number> (default 5173)
`;

const { values } = parseArgs({
  options: {
    base: { type: "string" },
    serve: { type: "boolean", default: false },
    port: { type: "string", default: "5173" },
    help: { type: "boolean", short: "h", default: false },
  },
});

if (values.help) console.log(usage);
else build();

function build() {
  const website = fileURLToPath(new URL("../website", import.meta.url));
  const bin = (/** @type {string} */ name) => join(website, "node_modules", name);
  installPackages("docs", website);
  rmSync(join(website, "api"), { recursive: true, force: true });
  runStep("docs", "writing the API reference", process.execPath, [bin("typedoc/bin/typedoc")], website);
  const vitepress = bin("vitepress/bin/vitepress.js");
  const base = values.base === undefined ? [] : ["--base", values.base];
  if (values.serve) {
    const served = [vitepress, "dev", ".", "--port", values.port, ...base];
    runStep("docs", "serving the site", process.execPath, served, website);
    return;
  }
  runStep("docs", "building the site", process.execPath, [vitepress, "build", ".", ...base], website);
  const dist = join(website, "dist");
  if (!existsSync(join(dist, "index.html"))) throw new Error(`${dist} has no index.html`);
  const { pages, dead } = deadLinks(dist, values.base ?? "/");
  for (const link of dead) console.error(`docs: ${link}`);
  if (dead.length > 0) process.exitCode = 1;
  else console.log(`docs: ${pages} pages in ${dist}, every link leads somewhere`);
}
