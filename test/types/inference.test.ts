/**
 * Compiles the files of this folder without their `@ts-expect-error` comments: each marked line must show an error
 * about types, and no other line may show one.
 */
import { execFile } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compiler } from "../../scripts/compiler.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const files = readdirSync(here).filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
const expectation = /^\s*\/\/ @ts-expect-error: (.+)$/;

/** Errors about types, not about missing names, missing modules or syntax. */
const mismatches = new Set([
  ...["TS2322", "TS2345", "TS2375", "TS2379", "TS2740", "TS2741", "TS2769"], // not assignable
  ...["TS2353", "TS2561", "TS2339", "TS2551"], // no such property
  ...["TS2554", "TS2555", "TS2540", "TS2571", "TS18046", "TS18048"], // a missing argument, readonly, an unknown or undefined object
]);

/** Valid programs that must compile. */
const programs: Readonly<Record<string, string>> = {
  "kwargs for a remote task without a type":
    'await queue.enqueueTask(remoteTask("resize").with({ kwargs: { width: 320 } }), "a.png");',
  "other kwargs in place of the first":
    "await queue.enqueueTask(once.with({ kwargs: { copies: 2 } }).with({ kwargs: { copies: 3 } }), 'a@b');",
};

const prelude = `import { type Queue, remoteTask, task, withOptions } from "../../src/index.ts";
declare const queue: Queue;
function send(_to: string, _options: { copies: number }): boolean { return true; }
const once = task("once", send);
export const used = [send, once, remoteTask, task, withOptions];
`;

interface Diagnostic {
  file: string;
  line: number;
  code: string;
  message: string;
}

let folder: string;
let diagnostics: Diagnostic[];

/** Runs the compiler on the folder; returns its errors in these files only. */
async function compile(): Promise<Diagnostic[]> {
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, [compiler, "--noEmit", "--pretty", "false"], { cwd: folder }, (_, out) =>
      resolve(out),
    );
  });
  const found = output.matchAll(/^test\/types\/([^(]+)\((\d+),\d+\): error (TS\d+): (.+)$/gm);
  return [...found].map(([, file = "", line, code = "", message = ""]) => {
    return { file, line: Number(line), code, message };
  });
}

const programFile = (i: number) => `program-${i}.ts`;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "dbq-types-"));
  for (const name of ["src", "drizzle", "node_modules"]) symlinkSync(join(root, name), join(folder, name));
  mkdirSync(join(folder, "test/types"), { recursive: true });
  const base = JSON.parse(readFileSync(join(root, "tsconfig.json"), "utf8"));
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ ...base, include: ["test"] }));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  for (const name of files) {
    const text = readFileSync(join(here, name), "utf8");
    writeFileSync(join(folder, "test/types", name), text.replaceAll("@ts-expect-error", "here stood"));
  }
  for (const [i, program] of Object.values(programs).entries())
    writeFileSync(join(folder, "test/types", programFile(i)), `${prelude}${program}\n`);
  diagnostics = await compile();
  // The compiler reads all of dbq: a minute and more on a machine whose cores have other work.
}, 300_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(files.filter((name) => name !== "equal.ts"))("%s", (name) => {
  const lines = readFileSync(join(here, name), "utf8").split("\n");
  const expected = lines.flatMap((line, i) => {
    const why = expectation.exec(line)?.[1];
    return why === undefined ? [] : [{ why, line: i + 2 }];
  });

  it("gives a reason for each expected error, and has some", () => {
    expect(expected.length).toBeGreaterThan(5);
    expect(lines.filter((line) => line.includes("// @ts-expect-error"))).toHaveLength(expected.length);
  });

  it.each(expected)("line $line: $why", ({ line }) => {
    const found = diagnostics.filter((diagnostic) => diagnostic.file === name && diagnostic.line === line);
    expect(found.length).toBeGreaterThan(0);
    for (const { code } of found) expect(mismatches).toContain(code);
  });

  it("has no error that is not expected", () => {
    const wanted = new Set(expected.map(({ line }) => line));
    expect(diagnostics.filter(({ file, line }) => file === name && !wanted.has(line))).toEqual([]);
  });
});

describe("compiles", () => {
  it.each(Object.keys(programs).map((what, i) => [what, i] as const))("%s", (_, i) => {
    expect(diagnostics.filter(({ file }) => file === programFile(i))).toEqual([]);
  });
});
