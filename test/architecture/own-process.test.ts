/** Quick test files share processes: a file that changes its process must be on the list of those that have one of their own. */
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { readTexts } from "../../scripts/sources.mjs";
import { processGlobal } from "../../src/base/runtime/process-globals.ts";
import { setDefaultQueue, task } from "../../src/index.ts";
import { ownProcess, ownProcessOfLong, reloading } from "../support/own-process.ts";
import { temporaryQueue } from "../support/queue.ts";

const root = join(import.meta.dirname, "../..");

/** How a test listens to its process, or changes the folder, variables, flags, exit code, timers or modules of it. */
const changesProcess =
  /\bprocess\.(on|once|chdir|exit|abort)\(|\bonce\(process\b|\bprocess\.(env|exitCode)[.\w]* = |\bsetFlags|\/in-process\.ts|fakeable-timers|useGlobalTimers|\bvi\.(useFakeTimers|mock|doMock|resetModules|stubGlobal)\(/;

test("the pattern finds each way in which a test changes its process", () => {
  const changes = [
    'process.on("warning", listener);',
    'const warned = once(process, "warning");',
    "process.chdir(folder);",
    "process.env.DBQ_URL = url;",
    "process.exitCode = 0;",
    'setFlagsFromString("--expose-gc");',
    'import { dbq } from "../entries/cli/in-process.ts";',
    'vi.mock("pg");',
    "vi.useFakeTimers();",
    'import "../support/fakeable-timers.ts";',
  ];
  for (const line of changes) expect(line).toMatch(changesProcess);
  for (const line of ["const { env } = process;", "process.kill(zombie)", 'vi.spyOn(process, "emitWarning")'])
    expect(line).not.toMatch(changesProcess);
});

test("each quick test file that changes its process has a process of its own", () => {
  const quick = readTexts(root, ["test"], /(?<!\.full)\.test\.ts$/);
  expect(quick.length).toBeGreaterThan(150);
  const own = new Set([...ownProcess, ...reloading, "test/architecture/own-process.test.ts"]);
  const unlisted = quick.filter(({ path, text }) => changesProcess.test(text) && !own.has(path));
  expect(unlisted.map(({ path }) => path)).toEqual([]);
  const paths = new Set(quick.map(({ path }) => path));
  expect([...ownProcess, ...reloading].filter((path) => !paths.has(path))).toEqual([]);
});

test("each long test file that changes its process has a process of its own", () => {
  const files = readTexts(root, ["test"], /\.full\.test\.ts$/);
  expect(files.length).toBeGreaterThan(150);
  // A pattern means all files of a folder.
  const places = ownProcessOfLong.map((pattern) => pattern.replace(/\*.*/, ""));
  const isOwn = (path: string) => places.some((place) => path.startsWith(place));
  const unlisted = files.filter(({ path, text }) => changesProcess.test(text) && !isOwn(path));
  expect(unlisted.map(({ path }) => path)).toEqual([]);
  expect(places.filter((place) => !files.some(({ path }) => path.startsWith(place)))).toEqual([]);
});

test("a file that begins in a shared process finds no task function, default queue, spy or variable of the files before it", async () => {
  const left = await temporaryQueue({}, ":memory:");
  setDefaultQueue(left);
  task("left", async () => undefined);
  const definitions = processGlobal("definitions", () => new Map<string, unknown>());
  const defaults = processGlobal("defaults", () => ({ queue: undefined as unknown }));
  expect(defaults.queue).toBeDefined();
  expect(definitions.has("left")).toBe(true);
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  vi.stubEnv("DBQ_URL", "sqlite::memory:");

  vi.resetModules();
  await import("../support/as-in-a-new-process.ts");

  expect(vi.isMockFunction(Math.random)).toBe(false);
  expect(process.env.DBQ_URL).not.toBe("sqlite::memory:");
  expect(definitions.size).toBe(0);
  expect(defaults.queue).toBeUndefined();
});
