import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test, vi } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";
import { dbq, folderWithQueue, inPairs, isEvent, start, startDbq, tasks } from "./dbq.ts";

// Runs before the imports: the modules of these tests are TypeScript and import the sources.
vi.hoisted(() => {
  delete process.env.DBQ_COMPILED;
});

const root = fileURLToPath(new URL("../../..", import.meta.url));
const source = pathToFileURL(join(root, "src/index.ts")).href;

test("a module that is missing, broken or without tasks is one clear line, and no database is created", async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "idle.mjs"), "export const one = 1;");
  writeFileSync(join(folder, "broken.mjs"), "export const = 1;");
  writeFileSync(join(folder, "throws.mjs"), 'throw new TypeError("no \\u001b[31mconfiguration");');
  writeFileSync(join(folder, "needs.mjs"), 'import "not-installed";');
  const wrong: [string, string][] = [
    ["none.mjs", `module none.mjs: there is no file ${join(folder, "none.mjs")}`],
    ["idle", "did you mean idle.mjs?"],
    [".", "module .: there is no file"],
    ["idle.mjs", "module idle.mjs registers no task: it must call task() or registerTasks()"],
    ["broken.mjs", "module broken.mjs cannot be imported: SyntaxError: "],
    ["throws.mjs", "module throws.mjs cannot be imported: TypeError: no \\x1b[31mconfiguration"],
    ["needs.mjs", "Cannot find package 'not-installed'"],
  ];
  await inPairs(wrong, async ([name, message]) => {
    const { code, out, err } = await dbq(folder, ["worker", name, "--create"]);
    expect([name, code, out, err.trimEnd().split("\n").length]).toEqual([name, 1, "", 1]);
    expect(err).toContain(message);
  });
  const asJson = await dbq(folder, ["worker", "none.mjs", "--json"]);
  expect(JSON.parse(asJson.err)).toMatchObject({ error: { code: "MODULE" } });
  expect(readdirSync(folder).filter((name) => name.includes("db"))).toEqual([]);
});

test("modules are relative to the current folder, and one may import another", async () => {
  const { folder, queue } = await folderWithQueue();
  writeFileSync(
    join(folder, "inner.mjs"),
    `import { task } from ${JSON.stringify(source)}; export const inner = task("inner", async () => 1);`,
  );
  writeFileSync(
    join(folder, "outer.mjs"),
    `import { task } from ${JSON.stringify(source)}; import "./inner.mjs"; export const outer = task("outer", async () => 2);`,
  );
  const worker = startDbq(folder, ["worker", "outer.mjs", "./inner.mjs", tasks, "--json"]);
  const ready = JSON.parse(await worker.out(isEvent("ready")));
  expect(ready.tasks).toEqual(expect.arrayContaining(["inner", "outer", "add"]));
  const id = await queue.enqueueTask(remoteTask("inner"));
  await worker.out(isEvent("completed", id));
});

/** Makes a CommonJS project, as `npm init` does, with dbq-ts in its `node_modules`. */
function commonJsApp(folder: string): void {
  const installed = join(folder, "node_modules/dbq-ts");
  mkdirSync(installed, { recursive: true });
  for (const name of ["src", "drizzle", "migrations"]) symlinkSync(join(root, name), join(installed, name));
  const manifest = { name: "dbq-ts", type: "module", exports: { ".": "./src/index.ts" } };
  writeFileSync(join(installed, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "commonjs" }));
}

test("a worker runs the tasks of a CommonJS module, which under tsx has its own copy of dbq-ts", async () => {
  const { folder, queue } = await folderWithQueue();
  commonJsApp(folder);
  writeFileSync(
    join(folder, "tasks.ts"),
    `import { currentTask, task } from "dbq-ts";
     export const here = task("here", async (n: number) => { void Promise.reject(new Error("stray")); return currentTask().id + n; });`,
  );
  const worker = startDbq(folder, ["worker", tasks, "tasks.ts", "--json"]);
  const id = await queue.enqueueTask(remoteTask<(n: number) => Promise<number>>("here"), 1);
  await worker.out(isEvent("completed", id));
  expect(await queue.awaitTaskResult(id)).toBe(id + 1);
  await worker.err((line) => line.includes(`unhandled rejection in task ${id}`));
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});

test("a worker on a Node without TypeScript support says what to do", async (context) => {
  if ("typescript" in process.features && process.features.typescript)
    context.skip("this Node runs TypeScript by itself");
  const folder = temporaryFolder();
  const built = join(folder, "node_modules/dbq-ts");
  mkdirSync(built, { recursive: true });
  const compiler = join(
    dirname(createRequire(import.meta.url).resolve("typescript/package.json")),
    "bin/tsc",
  );
  execFileSync(process.execPath, [
    compiler,
    "-p",
    join(root, "tsconfig.build.json"),
    "--outDir",
    join(built, "dist"),
  ]);
  cpSync(join(root, "package.json"), join(built, "package.json"));
  symlinkSync(join(root, "node_modules"), join(built, "node_modules"));
  writeFileSync(join(folder, "tasks.ts"), "export const one: number = 1;");
  const main = join(built, "dist/src/entries/cli/main.js");
  expect(existsSync(main)).toBe(true);
  const { code, out, err } = await start(folder, process.execPath, [main, "worker", "tasks.ts", "--create"])
    .ended;
  expect([code, out]).toEqual([1, ""]);
  expect(err).toMatch(
    /^error: module tasks\.ts: Node [\d.]+ does not run TypeScript: .*node --import tsx node_modules\/dbq-ts\/bin\.js …\n$/,
  );
});
