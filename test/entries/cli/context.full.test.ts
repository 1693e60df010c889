/** `--context`: the command gives tasks what a module of the app makes, and closes it on each way out. */
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { remoteTask } from "../../../src/index.ts";
import { readPage, root } from "../../docs/pages.ts";
import { dbqUrl, folderWithQueue, isEvent, startDbq, startFromSources } from "./dbq.ts";
import { dbqJson } from "./in-process.ts";

const tasksModule = `
  import { currentTask, task } from ${JSON.stringify(dbqUrl)};
  task("greet", async (name) => currentTask().context.greeting + " " + name);
  task("wait", async () => { await new Promise((resolve) => currentTask().signal.addEventListener("abort", resolve)); });
  task("explode", async () => { setTimeout(() => { throw new Error("out of nowhere") }); await new Promise(() => {}); }, { maxRetries: 0 });
  task("end", async () => { await new Promise((resolve) => setTimeout(resolve, 20)); console.log("ended"); });`;

const factory = `
  export default async function connect() {
    console.log("made by " + (process.env.DBQ_URL ? "the worker" : "nobody"));
    return { greeting: "hello", async close() { await new Promise((resolve) => setTimeout(resolve, 50)); console.log("closed"); } };
  }`;

async function folderWith(context: string, name = "context.mjs") {
  const { folder, queue } = await folderWithQueue();
  writeFileSync(join(folder, "tasks.mjs"), tasksModule);
  writeFileSync(join(folder, name), context);
  const start = (...more: string[]) =>
    startDbq(folder, ["worker", "tasks.mjs", "--db", "dbq.db", "--context", name, ...more]);
  return { folder, queue, start };
}

/** A folder with the files of the page, which import dbq from its sources. */
async function folderOfPage() {
  const { folder, queue } = await folderWithQueue();
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const source = new URL("../../../src/index.ts", import.meta.url).href;
  const { code } = readPage("docs/workers-and-shutdown.md");
  for (const file of ["context.ts", "shop-tasks.ts"]) {
    const text = code.find((block) => block.text.startsWith(`// ${file}\n`))?.text ?? "";
    writeFileSync(join(folder, file), text.replace('"dbq-ts"', JSON.stringify(source)));
  }
  const command = code.find(({ text }) => text.includes("--context"))?.text.trim() ?? "";
  expect(command).toMatch(/^npx dbq-ts worker /);
  return { folder, queue, args: command.split(" ").slice(2) };
}

test("the example of docs/workers-and-shutdown.md runs", async () => {
  const { folder, queue, args } = await folderOfPage();
  const id = await queue.enqueueTask(remoteTask<(item: string) => Promise<number>>("order"), "a book");
  const { code, err } = await startFromSources(folder, [...args.slice(0, -1), "dbq.db", "--until-idle"])
    .ended;
  expect([code, err]).toEqual([0, expect.not.stringContaining("rror")]);
  expect(await queue.awaitTaskResult(id)).toBe(1);
});

const greet = remoteTask<(name: string) => Promise<string>>("greet");
const linesOf = (out: string) => out.split("\n").filter((line) => /^(made|ended|closed)| stopped/.test(line));

test("tasks get what the function returns, and its close is awaited after the worker has stopped", async () => {
  const { queue, start } = await folderWith(factory);
  const id = await queue.enqueueTask(greet, "Ada");
  await queue.enqueueTask(remoteTask("end"));
  const { code, out } = await start("--until-idle").ended;
  expect(await queue.awaitTaskResult(id)).toBe("hello Ada");
  expect(linesOf(out)).toEqual(["made by the worker", "ended", expect.stringMatching(/ stopped /), "closed"]);
  expect(code).toBe(0);
});

test.each([
  ["a value", "context.mjs", 'export default { greeting: "hello" };'],
  ["a value of CommonJS", "context.cjs", 'module.exports = { greeting: "hello" };'],
  [
    "what a compiler made CommonJS",
    "context.cjs",
    'Object.defineProperty(exports, "__esModule", { value: true }); exports.default = () => ({ greeting: "hello" });',
  ],
])("the context is %s, without a close", async (_, name, text) => {
  const { queue, start } = await folderWith(text, name);
  const id = await queue.enqueueTask(greet, "Ada");
  expect((await start("--until-idle").ended).code).toBe(0);
  expect(await queue.awaitTaskResult(id)).toBe("hello Ada");
});

test("after a signal, and a second one, the context is closed", async () => {
  const { queue, start } = await folderWith(factory);
  const id = await queue.enqueueTask(remoteTask("wait"));
  const worker = start();
  await worker.out((line) => line.includes(" started ") && line.includes(String(id)));
  worker.child.kill("SIGTERM");
  await worker.err((line) => line.includes("SIGTERM"));
  worker.child.kill("SIGTERM");
  const { code, out } = await worker.ended;
  expect([code, out.includes("\nclosed\n")]).toEqual([0, true]);
});

test("after an uncaught exception the context is closed too, and the task that threw is left as in a crash", async () => {
  const { queue, start } = await folderWith(factory);
  const id = await queue.enqueueTask(remoteTask("explode"));
  const { code, out } = await start().ended;
  expect([code, out.includes("\nclosed\n")]).toEqual([1, true]);
  expect((await queue.getTask(id))?.status).toBe("running");
});

test("a worker that cannot start closes the context, and its own error is what ends the command", async () => {
  const { folder, start } = await folderWith(factory);
  writeFileSync(
    join(folder, "tasks.mjs"),
    `${tasksModule}
     import { Worker } from ${JSON.stringify(dbqUrl)};
     Worker.prototype.start = async () => { throw new Error("no start") };`,
  );
  const { code, out, err } = await start().ended;
  expect([code, linesOf(out)]).toEqual([1, ["made by the worker", "closed"]]);
  expect(err).toContain("no start");
});

test.each([
  ["const a = ;", /--context context\.mjs cannot be imported: SyntaxError: Unexpected token ';'/],
  [
    "throw new Error('no module')",
    /--context context\.mjs cannot be imported: Error: no module: name the module that exports the context, or a function that makes it, as default \(/,
  ],
  ["export const pool = 1;", /--context context\.mjs has no default export: name the module that exports/],
  ["export default () => {}", /--context context\.mjs returns undefined: name the module/],
  [
    "export default async () => { throw new TypeError('no pool') }",
    /--context context\.mjs: its function has thrown: TypeError: no pool/,
  ],
  [
    "export default class App {}",
    /--context context\.mjs: its function has thrown: TypeError: Class constructor/,
  ],
  ["export default () => process.exit(0)", /--context context\.mjs has ended the process, or waits for ever/],
])("an error of the module names its file: %s", async (text, message) => {
  const { start } = await folderWith(text);
  const { code, err } = await start().ended;
  expect(err).toMatch(message);
  expect(code).toBe(1);
});

test.each([
  ["close() { throw new Error('the pool is stuck') }", "close has thrown: Error: the pool is stuck"],
  ["get close() { throw new Error('no pool') }", "close has thrown: Error: no pool"],
  ["close: () => new Promise(() => {})", "close waits for ever"],
])("a close that fails ends the command with code 1, and names the file: %s", async (close, message) => {
  const { start } = await folderWith(`export default { ${close} }`);
  const { code, err } = await start("--until-idle").ended;
  expect(err).toContain(`--context context.mjs: ${message}`);
  expect(code).toBe(1);
});

test("a missing file is named, with the file that was meant", async () => {
  const { folder } = await folderWith(factory);
  const { code, err } = await startDbq(folder, [
    "worker",
    "tasks.mjs",
    "--db",
    "dbq.db",
    "--context",
    "context",
  ]).ended;
  expect(err).toContain("did you mean context.mjs?");
  expect(code).toBe(1);
});

test("with --watch the context is closed and made anew when its module changes", async () => {
  const { folder, queue, start } = await folderWith(factory);
  const worker = start("--watch");
  await worker.out((line) => line.includes(" ready "));
  writeFileSync(join(folder, "context.mjs"), 'export default { greeting: "good day" };');
  await worker.out((line) => line === "closed");
  const id = await queue.enqueueTask(greet, "Ada");
  expect(await queue.awaitTaskResult(id, { timeout: "60s" })).toBe("good day Ada");
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});

test("an agent has a context too, and closes it after its stop", async () => {
  const { folder, queue } = await folderWith(factory);
  const { token } = await dbqJson<{ token: string }>(folder, [
    "agent",
    "add",
    "gpu-7",
    "--funcs",
    "greet,wait,explode,end",
  ]);
  const manager = startDbq(folder, ["manager", "--listen", "127.0.0.1:0", "--json"]);
  const { url } = JSON.parse(await manager.out(isEvent("ready"))) as { url: string };
  const agent = startDbq(folder, ["agent", url, "tasks.mjs", "--context", "context.mjs"], {
    DBQ_TOKEN: token,
  });
  const id = await queue.enqueueTask(greet, "Ada");
  expect(await queue.awaitTaskResult(id, { timeout: "60s" })).toBe("hello Ada");
  agent.child.kill("SIGTERM");
  const { code, out } = await agent.ended;
  expect([code, linesOf(out)]).toEqual([
    0,
    [expect.any(String), expect.stringMatching(/ stopped/), "closed"],
  ]);
});
