/** Runs the real command line as a child process, in a folder of the test's own. */
import { type ChildProcess, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { onTestFinished, vi } from "vitest";
import { openQueue, type Queue } from "../../../src/index.ts";
import { deferred, temporaryFolder } from "../../support/queue.ts";

const main = fileURLToPath(new URL("../../../src/entries/cli/main.ts", import.meta.url));
const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;

/** The folder of the compiled command, which starts in a third of the time (`scripts/compile-fixtures.mjs`). */
const compiled = process.env.DBQ_COMPILED;

/** A module of `fixtures/`. */
export function fixture(name: string): string {
  return compiled === undefined
    ? sourceOfFixture(name)
    : join(compiled, `test/entries/cli/fixtures/${name}.js`);
}

/** The same, for `startFromSources`. */
export function sourceOfFixture(name: string): string {
  return fileURLToPath(new URL(`fixtures/${name}.ts`, import.meta.url));
}

/** What a module that a test writes imports to get the dbq of the command. */
export const dbqUrl =
  compiled === undefined
    ? new URL("../../../src/index.ts", import.meta.url).href
    : pathToFileURL(join(compiled, "src/index.js")).href;

/** The module whose tasks the workers of these tests run. */
export const tasks = fixture("tasks");

// A command takes half a second on an idle core, and many times as long on a busy machine. This limit catches hangs.
vi.setConfig({ testTimeout: 180_000 });

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  out: string;
  err: string;
}

/** A running command. */
export interface Running {
  child: ChildProcess;
  /** The first line of stdout that fits, even if printed earlier; rejects when the command ends without it. */
  out(fits: (line: string) => boolean): Promise<string>;
  /** The same for stderr. */
  err(fits: (line: string) => boolean): Promise<string>;
  ended: Promise<Ended>;
}

/** A folder with an empty database `dbq.db`, and the queue in it. */
export async function folderWithQueue(): Promise<{ folder: string; queue: Queue }> {
  const folder = temporaryFolder();
  const queue = await openQueue(join(folder, "dbq.db"));
  onTestFinished(() => queue.close());
  return { folder, queue };
}

/** The environment without the variables of the test run: its database, `npm run`, colors. */
export function cleanEnv(more: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(DBQ_|npm_|NO_COLOR|FORCE_COLOR|CI$|GITHUB_ACTIONS)/.test(name),
  );
  return { ...Object.fromEntries(kept), ...more };
}

const fromSources: readonly [string, ...string[]] = [process.execPath, "--import", tsx, main];

/** Program and arguments that start the command. */
export const program: readonly [string, ...string[]] =
  compiled === undefined ? fromSources : [process.execPath, join(compiled, "src/entries/cli/main.js")];

/** Starts a command in `folder`; it is killed when the test ends before it does. */
export function startDbq(folder: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Running {
  const [node, ...before] = program;
  return running(spawn(node, [...before, ...args], { cwd: folder, env: cleanEnv(env) }));
}

/** The same under tsx, for modules that are TypeScript and import the sources. */
export function startFromSources(folder: string, args: readonly string[]): Running {
  const [node, ...before] = fromSources;
  return start(folder, node, [...before, ...args]);
}

/** Starts another program in the same way. */
export function start(
  folder: string,
  file: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Running {
  return running(spawn(file, [...args], { cwd: folder, env: cleanEnv(env) }));
}

function running(child: ChildProcess): Running {
  const streams = { out: new Lines(child.stdout), err: new Lines(child.stderr) };
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      resolve({ code, signal, out: streams.out.text, err: streams.err.text });
    });
  });
  const output = () => `stdout:\n${streams.out.text}\nstderr:\n${streams.err.text}`;
  void ended.then(() => {
    for (const lines of [streams.out, streams.err]) lines.end(output());
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return {
    child,
    out: (fits) => streams.out.first(fits),
    err: (fits) => streams.err.first(fits),
    ended,
  };
}

/** The lines of a stream; callers can wait for one. */
class Lines {
  text = "";
  readonly #lines: string[] = [];
  #waiting: { fits: (line: string) => boolean; found: ReturnType<typeof deferred<string>> }[] = [];
  #ended: string | undefined;

  constructor(stream: NodeJS.ReadableStream | null) {
    if (stream === null) return;
    stream.on("data", (chunk: Buffer) => {
      this.text += chunk.toString();
    });
    createInterface({ input: stream }).on("line", (line) => this.#add(line));
  }

  #add(line: string): void {
    this.#lines.push(line);
    this.#waiting = this.#waiting.filter(({ fits, found }) => {
      if (fits(line)) found.resolve(line);
      return !fits(line);
    });
  }

  first(fits: (line: string) => boolean): Promise<string> {
    const found = deferred<string>();
    const line = this.#lines.find(fits);
    if (line !== undefined) found.resolve(line);
    else if (this.#ended !== undefined) found.reject(new Error(`ended without that line: ${this.#ended}`));
    else this.#waiting.push({ fits, found });
    return found.promise;
  }

  end(output: string): void {
    this.#ended = output;
    for (const { found } of this.#waiting) found.reject(new Error(`ended without that line: ${output}`));
  }
}

/** Runs a command to its end. */
export function dbq(folder: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended> {
  return startDbq(folder, args, env).ended;
}

/** Runs a command that must succeed, and parses the JSON that it prints. */
export async function dbqJson<T>(folder: string, args: readonly string[]): Promise<T> {
  const { code, out, err } = await dbq(folder, [...args, "--json"]);
  if (code !== 0) throw new Error(`dbq ${args.join(" ")}: exit code ${code}: ${err}`);
  return JSON.parse(out) as T;
}

/** Calls `check` with each item, two at a time: a command uses a core for half a second. */
export async function inPairs<T>(items: readonly T[], check: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const lane = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await check(item);
  };
  await Promise.all([lane(), lane()]);
}

/** Starts `dbq worker` on `dbq.db` in `folder` with the tasks of these tests; resolves when it is ready. */
export async function startWorker(folder: string, ...args: string[]): Promise<Running> {
  const worker = startDbq(folder, ["worker", tasks, "--json", ...args]);
  await worker.out(isEvent("ready"));
  return worker;
}

/** Whether a line of `--json` is this event, of this task if one is given. */
export function isEvent(event: string, id?: number): (line: string) => boolean {
  return (line) => {
    const found = JSON.parse(line) as { event?: string; id?: number };
    return found.event === event && (id === undefined || found.id === id);
  };
}

/** The events of `--json` lines as `event id`, or `event` alone. */
export function eventsOf(out: string): string[] {
  return out
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as { event: string; id?: number })
    .map(({ event, id }) => (id === undefined ? event : `${event} ${id}`));
}
