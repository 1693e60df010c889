/**
 * What the pages say about each other and the repository is true: links lead somewhere, files exist, sizes are kept.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";
import { sections } from "../../website/sections.ts";
import { anchorsOf, linksOf, namesIn, type Page, readPage, readPages, root } from "./pages.ts";

const pages = readPages();

describe("relative links", () => {
  test.each(pages)("of $path lead to existing files and headings", (page) => {
    const broken = linksOf(page).filter(({ target }) => !leadsSomewhere(page, target));
    expect(broken).toEqual([]);
  });

  test("are found at all", () => {
    expect(pages.flatMap(linksOf).filter(({ target }) => !target.includes("://")).length).toBeGreaterThan(20);
  });
});

function leadsSomewhere(page: Page, target: string): boolean {
  if (/^https:\/\//.test(target)) return true;
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? page.path : normalize(join(dirname(page.path), path));
  if (!existsSync(join(root, file))) return false;
  return anchor === undefined || (file.endsWith(".md") && anchorsOf(readPage(file)).has(anchor));
}

/** `src/queue/queue.ts` and the like, in running text. */
const repositoryPath = /`((?:src|drizzle|migrations|test|examples|demo|scripts|docs)\/[\w./-]*)`/g;

test.each(pages)("files that $path names exist", ({ lines }) => {
  const named = lines.flatMap((line) =>
    Array.from(line.matchAll(repositoryPath), ([, path]) => path as string),
  );
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

/** A path with the title of a test in it: `test/queue/await.test.ts` ("gives what had ended before"). */
const namedTest = /`(test\/[\w./-]+)`\s+\("([^"]+)"\)/g;

test("tests that pages name by their titles exist", () => {
  const named = pages.flatMap(({ lines }) => Array.from(lines.join("\n").matchAll(namedTest)));
  expect(named.length).toBeGreaterThan(3);
  const missing = named.filter(
    ([, path, title]) => !readFileSync(join(root, path as string), "utf8").includes(title as string),
  );
  expect(missing.map(([text]) => text)).toEqual([]);
});

test.each([
  ["README.md", 150],
  ["CONTRIBUTING.md", 80],
])("%s has at most %i lines", (path, most) => {
  const page = pages.find((other) => other.path === path);
  expect(page?.lines.length).toBeLessThanOrEqual(most);
});

// `node_modules/.bin/dbq` is a shell script under pnpm, and the package named dbq is somebody else's.
test.each(pages)("$path starts the command in a way that works with every package manager", ({ lines }) => {
  expect(lines.filter((line) => /\.bin\/dbq|npx dbq(?!-ts)/.test(line))).toEqual([]);
});

test("the README leads to every page of docs/", () => {
  const readme = pages.find(({ path }) => path === "README.md") as Page;
  const linked = linksOf(readme).map(({ target }) => target.split("#")[0]);
  for (const { path } of pages) if (path.startsWith("docs/")) expect(linked).toContain(path);
});

test("docs/troubleshooting.md has each error code, and no other", () => {
  const source = readFileSync(join(root, "src/errors.ts"), "utf8");
  const union = /export type DbqErrorCode =([^;]+);/.exec(source)?.[1] ?? "";
  const codes = Array.from(union.matchAll(/"(\w+)"/g), ([, code]) => code as string);
  expect(codes.length).toBeGreaterThan(15);
  const page = pages.find(({ path }) => path === "docs/troubleshooting.md") as Page;
  expect(namesIn(page, "By error code").sort()).toEqual(codes.sort());
});

test("docs/troubleshooting.md names each class of error, and no other page has a table of codes", () => {
  const source = readFileSync(join(root, "src/errors.ts"), "utf8");
  const classes = Array.from(source.matchAll(/export class (\w+Error)\b/g), ([, name]) => name as string);
  const page = pages.find(({ path }) => path === "docs/troubleshooting.md") as Page;
  const text = page.lines.join("\n").split("## By error code")[1] ?? "";
  expect(classes.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  const tables = pages.filter(
    ({ lines }) => lines.filter((line) => /^\| `DBQ_[A-Z_]+` \|/.test(line)).length > 5,
  );
  expect(tables.map(({ path }) => path)).toEqual(["docs/troubleshooting.md"]);
});

test("the sidebar of the site leads to every page of docs/", () => {
  const missing = pages.map(({ path }) => path).filter((path) => path.startsWith("docs/"));
  const listed = sections.flatMap((section) => section.pages);
  expect(
    missing.filter((path) => !listed.includes(path)),
    "add these to website/sections.ts",
  ).toEqual([]);
  expect(new Set(listed).size).toBe(listed.length);
});

test("the servers of compose.yaml are those that the pages and the tests use", () => {
  const compose = readFileSync(join(root, "compose.yaml"), "utf8");
  const [, postgres = "", mariadb = ""] = compose.split(/^ {2}(?:postgres|mariadb):$/m);
  expect(postgres).toMatch(/POSTGRES_PASSWORD: postgres\n[\s\S]*"127\.0\.0\.1:\$\{\w+:-5432\}:5432"/);
  expect(mariadb).toMatch(
    /ALLOW_EMPTY_ROOT_PASSWORD: "1"\n *MARIADB_DATABASE: dbq\n[\s\S]*"127\.0\.0\.1:\$\{\w+:-3306\}:3306"/,
  );
  const urls = pages.flatMap(({ lines }) => lines.join("\n").match(/\w+:\/\/\S+@127\.0\.0\.1\S*\w/g) ?? []);
  expect(new Set(urls)).toEqual(
    new Set(["postgres://postgres:postgres@127.0.0.1/postgres", "mysql://root@127.0.0.1/dbq"]),
  );
  const ofTests = readFileSync(join(root, "test/support/postgres.ts"), "utf8");
  expect(ofTests).toContain('"postgres://postgres:postgres@127.0.0.1:5432/postgres"');
});

/** What dbq has, the words by which a page would say that it lacks it, and the page that describes it. */
const capabilities = [
  ["rates and limits", /rate limit|flow control|limit across/i, "docs/flow-control.md"],
  ["groups", /\bgroups\b/i, "docs/flow-control.md"],
  ["pausing", /\bpaus/i, "docs/flow-control.md"],
  ["a dashboard", /dashboard/i, "docs/dashboard.md"],
  ["functions in processes", /sandbox/i, "docs/executors.md"],
  ["schedules", /\bcron\b|schedule/i, "docs/schedules.md"],
  ["flows", /\*\*Flows\*\*|jobs that wait for/i, "docs/workflows.md"],
  ["unique keys", /debounc|throttl|unique/i, "docs/uniqueness.md"],
] as const;

test.each(capabilities)(
  "no page by which people choose says that dbq lacks %s",
  (_name, words, described) => {
    expect(pages.map(({ path }) => path)).toContain(described);
    const choosing = pages.filter(({ path }) => /^docs\/(coming-from-|dbq-and-others)/.test(path));
    expect(choosing.length).toBeGreaterThan(4);
    expect(choosing.flatMap(saidToLack).filter((line) => words.test(line))).toEqual([]);
  },
);

/** The lines that name what a page says is not there. */
function saidToLack({ lines }: Page): string[] {
  const start = lines.findIndex((line) =>
    /^## (What dbq does not have yet|Take something else when)/.test(line),
  );
  const end = lines.findIndex((line, i) => i > start && line.startsWith("## "));
  const listed = start < 0 ? [] : lines.slice(start + 1, end < 0 ? undefined : end);
  return [...listed, ...lines.filter((line) => /dbq has (none|no)\b/.test(line))];
}
