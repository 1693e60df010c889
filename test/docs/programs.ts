/** Writes the TypeScript of the pages as programs, with what the pages assume. */
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Code, Page } from "./pages.ts";
import { readersOptions } from "./scratch.ts";

const tsconfig = {
  compilerOptions: {
    ...readersOptions,
    rewriteRelativeImportExtensions: true,
    rootDir: "pages",
    outDir: "out",
  },
  include: ["pages"],
};

/** What the first lines of every page except the README assume. */
const givens = `
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { currentTask, openQueue, task, Worker } from "dbq-ts";

const ordersTable = sqliteTable("orders", {
  id: integer("id").primaryKey({ autoIncrement: true }),
  item: text("item").notNull(),
  paid: integer("paid", { mode: "boolean" }).notNull().default(false),
});
const client = new Database("app.db");
client.pragma("journal_mode = wal");
client.exec("create table orders (id integer primary key autoincrement, item text not null, paid integer not null default 0)");
const database = drizzle({ client });
const opened = await openQueue(database);
const resizeTask = task("resize", async (path: string, width: number) => ({ path, bytes: width * 4 }));
const sendReceiptTask = task("send-receipt", async (orderId: number) => {
  currentTask().progress(orderId);
});
const started = new Worker(opened);
await started.start();

declare global {
  var queue: typeof opened;
  var worker: typeof started;
  var db: typeof database;
  var orders: typeof ordersTable;
  var resize: typeof resizeTask;
  var sendReceipt: typeof sendReceiptTask;
}
Object.assign(globalThis, {
  queue: opened, worker: started, db: database, orders: ordersTable, resize: resizeTask, sendReceipt: sendReceiptTask,
});
`;

/** Writes the programs. They are compiled to `out/`; `programOf` names the program of a page. */
export function writePrograms(folder: string, pages: readonly Page[], code: readonly Code[]): void {
  write(folder, "package.json", JSON.stringify({ type: "module" }));
  write(folder, "tsconfig.json", JSON.stringify(tsconfig));
  write(folder, "pages/givens.ts", givens);
  for (const block of code) write(folder, fileOf(block), block.text);
  for (const page of pages) {
    const own = code.filter((block) => block.page === page.path);
    write(folder, `${folderOf(page.path)}/run-all.ts`, runnerOf(own));
  }
}

/** A block that begins with a file name becomes that file, and others on its page may import it. */
export function fileOf({ page, line, text }: Code): string {
  const named = /^\/\/ ([\w-]+\.m?ts)\n/.exec(text)?.[1];
  return `${folderOf(page)}/${named ?? `line-${line}.ts`}`;
}

export function programOf(page: Page): string {
  return compiledOf(`${folderOf(page.path)}/run-all.ts`);
}

/** Where the compiler writes a file of the pages. */
export function compiledOf(path: string): string {
  return path.replace(/^pages/, "out").replace(/ts$/, "js");
}

function folderOf(page: string): string {
  return `pages/${page.replaceAll("/", "-")}`;
}

/** Runs the blocks of a page in order in one process: the last name printed is the one that failed. */
function runnerOf(code: readonly Code[]): string {
  const blocks = code.map((block) => {
    const place = JSON.stringify(`${block.page}:${block.line}`);
    return `console.log(${place});\nawait import(${JSON.stringify(`./${basename(fileOf(block))}`)});\n`;
  });
  return `import "../givens.ts";\n${blocks.join("")}console.log("done");\nprocess.exit(0);\n`;
}

function write(folder: string, path: string, text: string): void {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
