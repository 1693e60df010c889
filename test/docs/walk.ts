/**
 * Follows a page as its reader does, in an empty folder: writes its files, runs its commands in order, and compares what they
 * print with what the page shows. A worker goes on in the background, as in a terminal of its own.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Installation } from "../package/project.ts";
import type { Code } from "./pages.ts";
import { readersOptions, tsc } from "./scratch.ts";

/** What the installation of the test stands for. */
const prepared = /^(mkdir|cd|npm (init|install|pkg)|docker) /;
/** How long a program may take on a busy machine, in milliseconds. */
const longest = 60_000;

/** Node's own types know of this from version 22 on. */
const runsTypeScript = Boolean((process.features as { typescript?: string | false }).typescript);

const tsconfig = {
  compilerOptions: { ...readersOptions, allowImportingTsExtensions: true, noEmit: true },
  include: ["*.ts"],
};

/** Pages whose files and commands build on each other. */
export const walks: readonly string[] = ["docs/getting-started.md", "docs/testing.md"];

export class Walk {
  readonly folder: string;
  readonly #env: Record<string, string>;
  /** Texts of the page, and what stands for them here: the URL of a server. */
  readonly #replaced: Readonly<Record<string, string>>;
  readonly #workers: Background[] = [];
  #lastOutput = "";

  /** @param installation a project of it becomes the reader's folder */
  constructor(installation: Installation, name: string, replaced: Readonly<Record<string, string>> = {}) {
    this.folder = installation.project(name, { type: "module" }, {}).folder;
    linkCommands(installation, this.folder);
    writeFileSync(join(this.folder, "tsconfig.json"), JSON.stringify(tsconfig));
    this.#replaced = replaced;
    this.#env = environment();
  }

  /** Takes one step of the page: writes a file, runs commands, or looks for output. @throws Error that names the place */
  async step(block: Code): Promise<void> {
    const place = `${block.page}:${block.line}`;
    if (runsTypeScript && block.text.startsWith("# only for Node before 22.18")) return;
    if (["js", "ts"].includes(block.language)) await this.#write(block);
    else if (block.language === "sh") await this.#runAll(place, block.text);
    else if (block.language === "text") await this.#expectOutput(place, block.text);
  }

  /** Expects that the files compile together, as the page has them at this step. */
  async compile(): Promise<void> {
    expect(await tsc(["-p", "."], this.folder)).toEqual({ code: 0, output: "" });
  }

  /** Stops the workers as Ctrl-C does. @returns what each of them has printed */
  async stop(): Promise<string[]> {
    return await Promise.all(this.#workers.map((worker) => worker.stop()));
  }

  async #write({ page, line, text }: Code): Promise<void> {
    const name = /^\/\/ ([\w.-]+)\n/.exec(text)?.[1];
    if (name === undefined)
      throw new Error(`${page}:${line}: this block does not begin with the name of its file`);
    // The compiler takes longer than the commands of the page, so it does not run for each new file.
    if (existsSync(join(this.folder, name))) await this.compile();
    writeFileSync(join(this.folder, name), text);
  }

  async #runAll(place: string, text: string): Promise<void> {
    this.#lastOutput = "";
    for (const line of text.split("\n")) await this.#run(place, this.#here(line));
  }

  async #run(place: string, command: string): Promise<void> {
    const [, name, value = ""] = /^export (\w+)=(".*"|\S+)/.exec(command) ?? [];
    if (command === "" || command.startsWith("#") || prepared.test(command)) return;
    if (name !== undefined) this.#env[name] = value.replaceAll(/^"|"$/g, "");
    else if (/\bdbq(-ts)? worker\b/.test(command)) this.#workers.push(this.#start(command));
    else {
      const program = this.#start(command);
      const expected = Number(/# exit code (\d+)/.exec(command)?.[1] ?? 0);
      expect(await program.ended, `${place}: ${command}\n${program.output}`).toBe(expected);
      this.#lastOutput += program.output;
    }
  }

  #start(command: string): Background {
    return new Background(command, this.folder, this.#env);
  }

  /** Each line is one of the last commands', or a worker's, which may print it later. */
  async #expectOutput(place: string, text: string): Promise<void> {
    const shown = this.#here(text)
      .split("\n")
      .map(comparable)
      .filter((line) => line !== "" && line !== "…");
    const printed = () =>
      [this.#lastOutput, ...this.#workers.map(({ output }) => output)].join("\n").split("\n").map(comparable);
    const missing = () => shown.filter((line) => !printed().includes(line));
    for (const until = Date.now() + longest; missing().length > 0 && Date.now() < until; ) {
      if (this.#workers.length === 0) break;
      await sleep(100);
    }
    expect(missing(), `${place}: shown, and not printed. Printed were:\n${printed().join("\n")}`).toEqual([]);
  }

  #here(text: string): string {
    return Object.entries(this.#replaced).reduce((all, [shown, here]) => all.replaceAll(shown, here), text);
  }
}

/** As npm installs them into the project: npx looks nowhere else. */
function linkCommands({ folder }: Installation, project: string): void {
  const modules = join(folder, "node_modules");
  symlinkSync(modules, join(project, "node_modules"), "junction");
  if (existsSync(join(modules, ".bin"))) return;
  mkdirSync(join(modules, ".bin"));
  for (const name of ["dbq-ts", "vitest"]) {
    const { bin } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
    for (const [command, file] of Object.entries(bin))
      symlinkSync(join(modules, name, String(file)), join(modules, ".bin", command));
  }
}

/** A line without what differs from run to run: times, durations, ids of workers, the width of columns. */
function comparable(line: string): string {
  return line
    .replaceAll(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z/g, "TIME")
    .replaceAll(/\bin \d+(\.\d+)? (ms|s)\b/g, "in TIME")
    .replaceAll(/\b[\w.-]+[:-]\d+[:-][0-9a-f]{8}(-[0-9a-f-]+)?\b/g, "WORKER")
    .replaceAll(/\s+/g, " ")
    .trim();
}

/** The environment of a reader's shell, without what npm, vitest or a debugger has added to this test's. */
function environment(): Record<string, string> {
  const added = /^(npm_|vitest|dbq_|node_|tsx_|no_color|force_color)/i;
  return Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      added.test(name) || value === undefined ? [] : [[name, value]],
    ),
  );
}

class Background {
  output = "";
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;

  constructor(command: string, cwd: string, env: Readonly<Record<string, string>>) {
    // A process group of its own: a signal has to reach the shell, npx and the program, as from a terminal.
    this.#child = spawn("bash", ["-c", command], { cwd, env, detached: true });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on("data", (chunk: Buffer) => {
        this.output += chunk.toString();
      });
    this.ended = new Promise((resolve) => this.#child.on("close", resolve));
  }

  async stop(): Promise<string> {
    const { exitCode, signalCode, pid } = this.#child;
    if (exitCode === null && signalCode === null) process.kill(-(pid as number), "SIGINT");
    await this.ended;
    return this.output;
  }
}
