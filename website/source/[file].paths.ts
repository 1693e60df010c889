/** A page for each file or folder of the repository that a page links to. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { linkedSources, root, sourcePage } from "../.vitepress/pages.ts";

const languages: Readonly<Record<string, string>> = { ts: "ts", mts: "ts", mjs: "js", yaml: "yaml" };

function contentOf(file: string): string {
  const path = join(root, file);
  if (statSync(path).isDirectory())
    return `# \`${file}\`\n\n${readdirSync(path)
      .map((name) => `- \`${name}\`\n`)
      .join("")}`;
  const language = languages[file.split(".").at(-1) ?? ""] ?? "text";
  return `# \`${file}\`\n\n\`\`\`${language}\n${readFileSync(path, "utf8")}\`\`\`\n`;
}

export default {
  paths: () =>
    linkedSources().map((file) => ({
      params: { file: sourcePage(file).replace("source/", "") },
      content: contentOf(file),
    })),
};
