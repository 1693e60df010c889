/**
 * Checks the other queues' code on the pages "Coming from …": it compiles against their real packages. They are among the
 * packages of bench/, which are installed if needed; no benchmark uses those of DBOS and Temporal.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compiler } from "./compiler.mjs";
import { installPackages } from "./package-of-its-own.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const packages = join(root, "bench/node_modules");
installPackages("docs", join(root, "bench"));
const folder = join(packages, ".coming-from");

/** What the pages assume of the app. */
const givens = `
import { pgTable, serial, text } from "drizzle-orm/pg-core";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
const orders = pgTable("orders", { id: serial().primaryKey(), item: text().notNull() });
declare const drizzleDb: NodePgDatabase;
declare function thumbnail(path: string, width: number): Promise<string>;
declare function insertOrder(item: string): Promise<number>;
`;

const tsconfig = {
  extends: "../../tsconfig.json",
  compilerOptions: {
    rootDir: "../../..",
    noEmit: true,
    noUnusedLocals: false,
    skipLibCheck: true,
    paths: { "dbq-ts": ["../../../src/index.ts"] },
  },
};

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
const pages = readdirSync(join(root, "docs")).filter((name) => /^coming-from-.*\.md$/.test(name));
for (const page of pages) {
  const text = readFileSync(join(root, "docs", page), "utf8");
  const blocks = Array.from(text.matchAll(/^```typescript\n([\s\S]*?)^```$/gm), ([, code]) => code);
  if (blocks.length === 0) throw new Error(`docs/${page} has no code of the other queue`);
  // The blocks of a page are one program, as a reader reads them.
  writeFileSync(join(folder, page.replace(".md", ".mts")), [givens, ...blocks].join("\n"));
}
const files = pages.map((page) => page.replace(".md", ".mts"));
writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ ...tsconfig, include: [], files }));
const { status } = spawnSync(process.execPath, [compiler, "-p", folder], { stdio: "inherit" });
if (status === 0) console.log(`the other queues' code on ${pages.length} pages compiles`);
process.exitCode = status ?? 1;
