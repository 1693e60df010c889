import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readSources, resolveImport } from "../../../scripts/sources.mjs";
import { statuses } from "../../../src/entries/cli/filter.ts";
import { someOf } from "../../../src/entries/cli/parse.ts";
import { buildProgram } from "../../../src/entries/cli/program.ts";
import { taskStatuses } from "../../../src/task.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { dbq, inPairs } from "./dbq.ts";
import { dbq as inProcess } from "./in-process.ts";

const commands = buildProgram(false).commands.map((command) => command.name());

test("the commands are those of docs/cli.md", () => {
  expect(commands).toEqual(
    "worker enqueue event list show retry cancel delete purge stats metrics tail top dashboard drain manager agent agents limits limit pause resume schedule schedules migrate move export import reencrypt causes failures doctor".split(
      " ",
    ),
  );
});

test("dbq --help lists the commands and the exit codes", async () => {
  const { code, out, err } = await dbq(temporaryFolder(), ["--help"]);
  expect([code, err]).toEqual([0, ""]);
  for (const text of [...commands, "Exit codes:", "DBQ_URL"]) expect(out).toContain(text);
  const ofOne = await dbq(temporaryFolder(), ["tail", "--help"]);
  expect(ofOne).toEqual({ code: 0, signal: null, out: helpOf("tail"), err: "" });
});

test.each(commands)("dbq %s --help shows an example and the common options", (name) => {
  expect(helpOf(name)).toMatch(new RegExp(`Examples:\n  \\$ dbq ${name}`));
  expect(helpOf(name)).toContain("--json");
});

test("dbq agent add --help describes it, without the options of a running agent", async () => {
  const { out } = await dbq(temporaryFolder(), ["agent", "add", "--help"]);
  expect(out).toContain("Add an agent, and print its token.");
  expect(out).toContain("--expires");
  expect(out).toContain("--db");
  expect(out).not.toContain("--concurrency");
  expect(out.split("\n").filter((line) => line.length > 80)).toEqual([]);
});

test.each(["dbq", ...commands])("%s: no line of --help is wider than 80 columns", (name) => {
  const wide = helpOf(name)
    .split("\n")
    .filter((line) => line.length > 80);
  expect(wide).toEqual([]);
});

/** The help of a command, or of the program itself. */
function helpOf(name: string): string {
  let help = "";
  const writeOut = (text: string) => {
    help += text;
  };
  const program = buildProgram(false);
  const command = [program, ...program.commands].find((each) => each.name() === name);
  command?.configureOutput({ writeOut, getOutHelpWidth: () => 80 }).outputHelp();
  return help;
}

test("list --status takes each status of a task", () => {
  for (const status of taskStatuses) expect(someOf(statuses)(status)).toEqual([status]);
});

test("wrong usage exits with 2, and one line on stderr names the value", async () => {
  const folder = temporaryFolder();
  const wrong: [string[], string][] = [
    [["lst"], "lst"],
    [["list", "--stats", "failed"], "--stats"],
    [["list", "--limit", "1001"], "1001"],
    [
      ["list", "--status", "done"],
      "Expected pending, scheduled, waiting, running, completed, failed, cancelled",
    ],
    [["list", "--func", ""], "--func"],
    [["tail", "--queue", ""], "--queue"],
    [["purge", "--func", ""], "--func"],
    [["worker"], "modules"],
    [["worker"], "dbq worker --help"],
    [["show", "1", "2"], 'dbq show takes one <id>, got "2" too: see dbq show --help'],
    [["purge", "resize"], 'dbq purge takes options only, got "resize" too'],
    [["list", "--db", ""], "--db or DBQ_URL"],
    [["move", "--to", ""], "--to"],
    [["pause"], "expected either --queue, or --func"],
    [["pause", "--queue", "a", "--func", "b"], "expected either --queue, or --func"],
    [["limit", "--concurrency", "1"], "expected the name of a shared limit, --queue or --func"],
    [["limit", "api"], "expected --concurrency, --rate or both; or --remove alone"],
    [["limit", "api", "--rate", "100"], "--rate"],
    [["limit", "api", "--queue", "a", "--concurrency", "1"], 'got "api" and one of these'],
    [["limit", "api", "--group", "call", "--concurrency", "1"], '--group needs --func, got "api"'],
    [["limit", "--group", "acme", "--concurrency", "1"], "--group needs --func"],
    [["pause", "--group", "acme"], "--group needs --func"],
    [["limit", "api", "--rate", "-5/1m"], "'-5/1m' is invalid. Before the /: Expected a whole number from 1"],
    [["limit", "api", "--rate", "0/1m"], "'0/1m' is invalid. Before the /: "],
    [["limit", "api", "--rate", "1.5/1m"], "'1.5/1m' is invalid. Before the /: "],
    [
      ["limit", "api", "--rate", "5/400d"],
      "'5/400d' is invalid. After the /: Expected a duration from 1ms to",
    ],
    [["limit", "api", "--rate", "5/0s"], "'5/0s' is invalid. After the /: "],
    [["limit", "api", "--concurrency", "0"], "whole number from 1"],
    [["enqueue", "resize", "a.png", "320"], `'["a.png", 320]'`],
  ];
  for (const [args, named] of wrong) {
    const { code, out, err } = await inProcess(folder, args);
    expect([args, code, out]).toEqual([args, 2, ""]);
    expect(err).toMatch(/^error: /);
    expect(err).toContain(named);
  }
  await inPairs(wrong.slice(0, 2), async ([args, named]) => {
    const { code, out, err } = await dbq(folder, [...args, "--json"]);
    expect([args, code, out]).toEqual([args, 2, ""]);
    expect(JSON.parse(err).error).toMatchObject({ code: "USAGE", message: expect.stringContaining(named) });
  });
  const none = await dbq(folder, []);
  expect([none.code, none.out]).toEqual([2, ""]);
  expect(none.err).toContain("Usage: dbq");
  expect(readdirSync(folder)).toEqual([]);
});

/** A loader that does not find these two packages. */
const withoutDrivers = `export const resolve = async (name, context, next) => {
  if (!/^(pg|mysql2)$/.test(name)) return await next(name, context);
  throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
};`;

test("a missing driver exits with 1 and names the package to install", async () => {
  const url = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`;
  const hook = url(
    `import { register } from "node:module"; register(${JSON.stringify(url(withoutDrivers))});`,
  );
  await inPairs(["pg", "mysql2"], async (name) => {
    const target =
      { pg: "postgres://ada@127.0.0.1:1/app", mysql2: "mysql://ada@127.0.0.1:1/app" }[name] ?? "";
    const ended = await dbq(temporaryFolder(), ["list", "--db", target], {
      NODE_OPTIONS: `--import=${hook}`,
    });
    const err = `error: the package "${name}" is missing: npm install ${name}\n`;
    expect(ended).toEqual({ code: 1, signal: null, out: "", err });
  });
});

test("a file that is no database is one line on stderr, and the driver's error with DBQ_DEBUG=1", async () => {
  const folder = temporaryFolder();
  writeFileSync(
    join(folder, "notes.txt"),
    "This is no database, and longer than the header of one.".repeat(20),
  );
  const plain = await dbq(folder, ["list", "--db", "notes.txt"]);
  expect(plain.err).toBe("error: notes.txt: it is not a SQLite database\n");
  const debug = await dbq(folder, ["list", "--db", "notes.txt"], { DBQ_DEBUG: "1" });
  expect(debug.err).toMatch(/\ncause: SqliteError: file is not a database\n {4}at /);
});

test("errors are printed with stacks only with DBQ_DEBUG=1", async () => {
  const folder = temporaryFolder();
  const plain = await dbq(folder, ["show", "x"]);
  expect(plain.err).toBe('error: expected the id of a task, a whole number from 1, got "x"\n');
  const debug = await dbq(folder, ["show", "x"], { DBQ_DEBUG: "1" });
  expect(debug.err).toMatch(/\n {4}at /);
});

test("commands import only the public surface, and only when they run; texts for people at any time", () => {
  const root = fileURLToPath(new URL("../../..", import.meta.url));
  const edges = readSources(root, ["src/entries/cli"])
    .flatMap(({ path, imports }) =>
      imports.map(({ specifier, kind }) => ({ path, kind, to: resolveImport(path, specifier) })),
    )
    .filter(({ to }) => !to.startsWith("src/entries/cli/") && !to.startsWith("node:"));
  const ofSources = edges.filter(({ to }) => to.startsWith("src/") && !to.startsWith("src/base/text/"));
  expect(ofSources.length).toBeGreaterThan(10);
  expect(ofSources.filter(({ to, kind }) => to !== "src/index.ts" || kind === "static")).toEqual([]);
  const packages = edges.filter(({ to, kind }) => kind === "static" && !to.startsWith("src/"));
  expect([...new Set(packages.map(({ to }) => to))].toSorted()).toEqual(["commander", "ms"]);
});
