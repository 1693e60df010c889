/** The pages that users read: their code, links and headings. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../", import.meta.url));

export interface Page {
  /** Relative to the root of the repository, such as `docs/guarantees.md`. */
  path: string;
  lines: readonly string[];
  code: readonly Code[];
}

/** A fenced block of code. */
export interface Code {
  page: string;
  /** The number of its first line of code, from 1. */
  line: number;
  /** The language after the fence: `ts`, `sql`, `sh`, … */
  language: string;
  text: string;
}

export function readPages(): Page[] {
  const docs = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md"));
  const paths = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "website/index.md"];
  return [...paths, ...docs.sort().map((name) => `docs/${name}`)].map(readPage);
}

export function readPage(path: string): Page {
  const lines = readFileSync(join(root, path), "utf8").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return { path, lines, code: [...codeOf(path, lines)] };
}

function* codeOf(page: string, lines: readonly string[]): Generator<Code> {
  for (let i = 0; i < lines.length; i += 1) {
    const language = /^```(\w+)?/.exec(lines[i] ?? "");
    if (!language) continue;
    const end = lines.indexOf("```", i + 1);
    if (end === -1) throw new Error(`${page}:${i + 1}: this block of code has no end`);
    yield { page, line: i + 2, language: language[1] ?? "", text: `${lines.slice(i + 1, end).join("\n")}\n` };
    i = end;
  }
}

export function codeIn(pages: readonly Page[], language: string): Code[] {
  return pages.flatMap(({ code }) => code).filter((block) => block.language === language);
}

/** The first words of a block of SQL that only some databases understand. */
export type SqlDialect = "SQLite" | "Postgres" | "MySQL";

/** A page's SQL for this database: blocks that begin with its name, or with none. */
export function sqlOf(pages: readonly Page[], path: string, dialect: SqlDialect): Code[] {
  return codeIn(pages, "sql")
    .filter(({ page }) => page === path)
    .filter(({ text }) => (/^-- (SQLite|Postgres|MySQL)\n/.exec(text)?.[1] ?? dialect) === dialect);
}

/** Columns and indices of `dbq_tasks` that only MySQL has. */
const ofMysqlAlone: readonly string[] = [
  "claim_rank",
  "taken_key",
  "steered_place",
  "group_bytes",
  "unfinished_of",
  "due_at",
  "run_by",
  "ended_as",
  "expiry_at",
  "dbq_tasks_steered",
  "dbq_tasks_unique_key",
];
/** Indices of `dbq_tasks` that have another name on MySQL. */
const notOnMysql: readonly string[] = [
  "dbq_tasks_unique",
  "dbq_tasks_group",
  "dbq_tasks_in_use",
  "dbq_tasks_put_off",
];

/** The columns and indices of `dbq_tasks` that a page names, as this database has them. */
export function columnsNamedIn(page: Page, dialect: SqlDialect): string[] {
  const elsewhere = dialect === "MySQL" ? notOnMysql : ofMysqlAlone;
  return namesIn(page, "dbq_tasks").filter((name) => !elsewhere.includes(name));
}

/** The names in the first column of the tables of a section. */
export function namesIn(page: Page, section: string): string[] {
  const [, text = ""] = page.lines.join("\n").split(`\n## ${section}\n`);
  const cells = Array.from(
    text.split("\n## ")[0]?.matchAll(/^\| (`[^|]+) \|/gm) ?? [],
    ([, cell]) => cell ?? "",
  );
  return cells.flatMap((cell) => Array.from(cell.matchAll(/`([^`]+)`/g), ([, name]) => name as string));
}

/** The targets of a page's links, with their lines; code has none. */
export function linksOf({ lines, code }: Page): { line: number; target: string }[] {
  const inCode = new Set(
    code.flatMap((block) => Array.from(block.text.split("\n"), (_, i) => block.line + i)),
  );
  return lines.flatMap((text, i) => {
    if (inCode.has(i + 1)) return [];
    const links = text.replaceAll(/`[^`]*`/g, "").matchAll(/\]\(([^)\s]+)\)/g);
    return Array.from(links, ([, target]) => ({ line: i + 1, target: target as string }));
  });
}

/** The anchors of a page's headings, as GitHub makes them: lower case, without punctuation, with hyphens for spaces. */
export function anchorsOf({ lines }: Page): Set<string> {
  const headings = lines.filter((line) => /^#{1,6} /.test(line)).map((line) => line.replace(/^#+ /, ""));
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}
