/** Projects with the packed package, whose other packages come from the registry, and the programs that run in them. */
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";

export const root = fileURLToPath(new URL("..", import.meta.url));

/** Milliseconds for one program. An installation waits for a registry, a build compiles: either took 240 s on a busy machine. */
export const longest = { program: 240_000, installation: 600_000, build: 600_000 };

/**
 * What a program is started with, and the milliseconds after which it is killed.
 * @typedef {{ cwd: string, env?: Record<string, string>, limit?: number }} Settings
 */

/**
 * Runs a program to its end. @throws Error with its output when it fails
 * @param {Settings} settings
 * @param {string} command
 * @param {string[]} args
 * @returns {Promise<string>} its output
 */
export async function run(settings, command, ...args) {
  const program = new Program(settings, command, ...args);
  const { code, output } = await program.ended;
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}:\n${output}`);
  return program.printed;
}

/** npm's command line for installations. What another one has fetched is not asked for again. */
export const npmInstall =
  "npm install --loglevel=error --prefer-offline --ignore-scripts --no-audit --no-fund".split(" ");

/**
 * Runs a package manager's installation. When it fails, it is tried once more, since a registry may fail to answer.
 * @param {string} cwd
 * @param {string[]} line
 */
export async function install(cwd, [command = "", ...args]) {
  const settings = { cwd, limit: longest.installation };
  try {
    await run(settings, command, ...args);
  } catch (error) {
    console.log(`one more try, after ${error instanceof Error ? error.message : error}`);
    await run(settings, command, ...args);
  }
}

export class Program {
  printed = "";
  output = "";

  /**
   * @param {Settings} settings
   * @param {string} command
   * @param {string[]} args
   */
  constructor({ cwd, env = {}, limit: timeout = longest.program }, command, ...args) {
    const all = { ...environment(), ...env };
    const stdio = /** @type {["ignore", "pipe", "pipe"]} */ (["ignore", "pipe", "pipe"]);
    this.child = spawn(command, args, { cwd, env: all, stdio, timeout, killSignal: "SIGKILL" });
    this.child.stdout.on("data", (data) => {
      this.printed += data;
      this.output += data;
    });
    this.child.stderr.on("data", (data) => {
      this.output += data;
    });
    /** @type {Promise<{ code: number | string | null, output: string }>} */
    this.ended = new Promise((resolve) => {
      this.child.once("error", (error) => resolve({ code: null, output: String(error) }));
      this.child.once("close", (code, signal) => resolve({ code: code ?? signal, output: this.output }));
    });
  }

  /**
   * Resolves with the first match in the output. @throws Error when the program has ended before
   * @param {RegExp} pattern
   * @returns {Promise<RegExpExecArray>}
   */
  async said(pattern) {
    return await new Promise((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(stripVTControlCharacters(this.output));
        if (match) resolve(match);
      };
      this.child.stdout.on("data", look);
      this.child.stderr.on("data", look);
      look();
      void this.ended.then(({ code, output }) => reject(new Error(`it ended with ${code}:\n${output}`)));
    });
  }

  /**
   * Sends SIGTERM to this program alone, as a supervisor does, and waits for its end.
   */
  async stop() {
    this.child.kill("SIGTERM");
    return await this.ended;
  }
}

/**
 * The environment of a shell, without what npm or a test runner has added. A registry may have a certificate of its own, and
 * npm's cache may be where CI keeps it.
 */
function environment() {
  const added = /^(npm_(?!config_cache$)|node_(?!extra_ca_certs$)|dbq_|vitest|init_cwd$)/i;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !added.test(name)));
}

/**
 * @param {string} folder
 * @param {Record<string, string>} files
 */
export function write(folder, files) {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
}

/**
 * The version that is installed in the repository.
 * @param {string} name
 */
export function asHere(name) {
  return JSON.parse(readFileSync(join(root, "node_modules", name, "package.json"), "utf8")).version;
}

/**
 * A program that a package of the registry contains for this machine, such as `@oven/bun-linux-x64/bin/bun`.
 * @param {string} tools the folder where it is installed
 * @param {string} scope
 * @param {string} file
 */
export function binaryOf(tools, scope, file) {
  const folder = join(tools, "node_modules", scope);
  const [name = ""] = readdirSync(folder);
  return join(folder, name, file);
}

/** @returns {Promise<number>} a port that nobody listens on */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("there is no port");
  return address.port;
}
