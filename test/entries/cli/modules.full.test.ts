import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { temporaryFolder } from "../../support/queue.ts";
import {
  dbq,
  dbqUrl,
  fixture,
  folderWithQueue,
  inPairs,
  isEvent,
  sourceOfFixture,
  start,
  startDbq,
  startFromSources,
  tasks,
} from "./dbq.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

const failsWith = (error: string, code: string) => `throw Object.assign(${error}, { code: "${code}" });`;

test("a module that is missing, broken or without tasks is one clear line, and no database is created", async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "idle.mjs"), "export const one = 1;");
  writeFileSync(join(folder, "broken.mjs"), "export const = 1;");
  writeFileSync(join(folder, "throws.mjs"), 'throw new TypeError("no \\u001b[31mconfiguration");');
  writeFileSync(join(folder, "needs.mjs"), 'import "not-installed";');
  writeFileSync(
    join(folder, "connects.mjs"),
    failsWith("new Error('getaddrinfo ENOTFOUND base')", "ENOTFOUND"),
  );
  const refused = "new AggregateError([new Error('connect ECONNREFUSED ::1:1')])";
  writeFileSync(join(folder, "refused.mjs"), failsWith(refused, "ECONNREFUSED"));
  writeFileSync(join(folder, "exits.mjs"), "process.exit(0);");
  writeFileSync(join(folder, "waits.mjs"), "await new Promise(() => undefined);");
  writeFileSync(join(folder, "notes.txt"), "no code");
  mkdirSync(join(folder, "app"));
  writeFileSync(join(folder, "app/tasks.mjs"), "");
  const wrong: [string, string][] = [
    ["none.mjs", `module none.mjs: there is no file ${join(folder, "none.mjs")}`],
    ["idle", "did you mean idle.mjs?"],
    ["none.mjs", "name the file that registers the tasks, relative to the current folder"],
    [".", `module .: ${folder} is a folder: name the file that registers the tasks`],
    ["app", "app is a folder: did you mean app/tasks.mjs?"],
    ["postgres://ada:secret@db/app", "module postgres://…: this is a URL: name a database by --db"],
    ["notes.txt", "module notes.txt is neither JavaScript nor TypeScript: name the module that registers"],
    ["idle.mjs", "module idle.mjs registers no task: name a module that calls task() or registerTasks()"],
    ["broken.mjs", "module broken.mjs cannot be imported: SyntaxError: "],
    ["throws.mjs", "module throws.mjs cannot be imported: TypeError: no \\x1b[31mconfiguration"],
    ["throws.mjs", "name the module that registers the tasks, not a program that uses them"],
    ["connects.mjs", 'ENOTFOUND base (DBQ_URL was "dbq.db"): name the module that registers the tasks'],
    ["refused.mjs", "cannot be imported: AggregateError: connect ECONNREFUSED ::1:1"],
    ["exits.mjs", "module exits.mjs has ended the process, or waits for ever in a top-level await"],
    ["waits.mjs", "module waits.mjs has ended the process, or waits for ever in a top-level await"],
    ["needs.mjs", "Cannot find package 'not-installed'"],
  ];
  await inPairs(wrong, async ([name, message]) => {
    const { code, out, err } = await dbq(folder, ["worker", name, "--create"]);
    expect([name, code, out, err.trimEnd().split("\n").length]).toEqual([name, 1, "", 1]);
    expect(err).toContain(message);
    expect(err).not.toContain("secret");
  });
  const asJson = await dbq(folder, ["worker", "none.mjs", "--json"]);
  expect(JSON.parse(asJson.err)).toMatchObject({ error: { code: "MODULE" } });
  expect(readdirSync(folder).filter((name) => name.includes("db"))).toEqual([]);
});

test("a module before another one may register no task, and the last one must", async () => {
  const { folder, queue } = await folderWithQueue();
  writeFileSync(join(folder, "tracing.mjs"), 'console.error("traced");');
  const wrong = await dbq(folder, ["worker", tasks, "tracing.mjs"]);
  expect(wrong).toMatchObject({ code: 1, err: expect.stringContaining("tracing.mjs registers no task") });
  const worker = startDbq(folder, ["worker", "tracing.mjs", tasks]);
  await worker.err((line) => line === "traced");
  const add = remoteTask<(a: number, b: number) => number>("add");
  expect(await queue.awaitTaskResult(await queue.enqueueTask(add, 1, 2), { timeout: "60s" })).toBe(3);
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});

test("modules are relative to the current folder, and one may import another", async () => {
  const { folder, queue } = await folderWithQueue();
  writeFileSync(
    join(folder, "inner.mjs"),
    `import { task } from ${JSON.stringify(dbqUrl)}; export const inner = task("inner", async () => 1);`,
  );
  writeFileSync(
    join(folder, "outer.mjs"),
    `import { task } from ${JSON.stringify(dbqUrl)}; import "./inner.mjs"; export const outer = task("outer", async () => 2);`,
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
  const worker = startFromSources(folder, ["worker", sourceOfFixture("tasks"), "tasks.ts", "--json"]);
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

test("a rejection that no code handles during the import of a module is logged, and the worker starts", async () => {
  const { folder } = await folderWithQueue();
  const stray =
    'void Promise.reject(new Error("stray")); await new Promise((resolve) => setTimeout(resolve, 50));';
  writeFileSync(join(folder, "stray.mjs"), `import ${JSON.stringify(pathToFileURL(tasks).href)}; ${stray}`);
  const { code, err } = await dbq(folder, ["worker", "stray.mjs", "--until-idle"]);
  expect(code).toBe(0);
  expect(err).toMatch(/Z unhandled rejection: Error: stray$/m);
});

test("a worker warns of a task whose queue no worker serves: as a line, or as JSON with --json", async () => {
  const { folder } = await folderWithQueue();
  const asJson = startDbq(folder, ["worker", fixture("mail"), "--json"]);
  expect(JSON.parse(await asJson.err(isEvent("warning")))).toMatchObject({
    message: expect.stringMatching(/^tasks of "post" go to the queue "mail", and no worker /),
    queueName: "mail",
    tasks: ["post"],
    served: ["default"],
  });
  asJson.child.kill("SIGTERM");
  await asJson.ended;
  const plain = startDbq(folder, ["worker", fixture("mail")]);
  expect(await plain.err((line) => line.includes("warning"))).toMatch(
    /Z warning: tasks of "post" go to the queue "mail", and no worker .* --queue default,mail /,
  );
});
