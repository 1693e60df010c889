/** Copies of the repository in which faults are applied and tests are run: the working tree itself is only read. */
import { spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { compiledFile, compileInto, packedFolder } from "./compile-fixtures.mjs";
import { compiler } from "./compiler.mjs";
import { Places } from "./mutant-places.mjs";
import { patternOf } from "./mutant-verdict.mjs";

/**
 * @typedef {import("../test/mutants/mutant.ts").Mutant} Mutant
 * @typedef {import("../test/mutants/mutant.ts").NamedTest} NamedTest
 * @typedef {import("./mutant-verdict.mjs").Report} Report
 * @typedef {{ code: number | null, hung: boolean, output: string }} Ended
 */

const root = fileURLToPath(new URL("..", import.meta.url));
const resolve = createRequire(import.meta.url).resolve;
const vitest = join(dirname(resolve("vitest/package.json")), "vitest.mjs");

/** What no test needs a copy of. */
const left = new Set(["node_modules", ".git", "dist", "coverage", "site"]);

/** Without a compilation at each start: a copy is compiled once, and then each file alone that has a fault. */
const config = "vitest.mutants.config.mjs";
const configText = `import config from "./vitest.config.ts";
export default { ...config, test: { ...config.test, globalSetup: [] } };
`;

/** What has faults: that a fault breaks the types of a test alone makes no test look red. */
const project = "tsconfig.mutants.json";
const projectText = JSON.stringify({ extends: "./tsconfig.json", include: ["src", "drizzle", "demo"] });

/** Milliseconds, for a run in which none of the tests may hang. */
const longestRun = 600_000;

/** Milliseconds for the start of vitest, and for what a test that hung takes down after it. */
const aroundTest = 10_000;

export class Copies {
  static cores = availableParallelism();

  /** @param {number} count */
  constructor(count) {
    this.folder = mkdtempSync(join(tmpdir(), "dbq-mutants-"));
    symlinkSync(join(root, "node_modules"), join(this.folder, "node_modules"), "junction");
    /** @type {Copy[]} */
    this.all = [];
    this.places = Places.of(root);
    for (let i = 0; i < count; i += 1) this.all.push(new Copy(join(this.folder, String(i)), this.places));
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => this.#end());
  }

  /** @returns {Copy} */
  get first() {
    const [first] = this.all;
    if (!first) throw new Error("there is no copy");
    return first;
  }

  /**
   * The text of a file as it is copied.
   * @param {string} file
   */
  text = (file) => readFileSync(join(this.first.path, file), "utf8");

  /**
   * Does something for each of the items, as many at once as there are copies.
   * @template T
   * @param {readonly T[]} items
   * @param {(copy: Copy, item: T) => Promise<void>} act
   */
  async each(items, act) {
    const rest = [...items];
    const work = async (/** @type {Copy} */ copy) => {
      for (let item = rest.shift(); item !== undefined; item = rest.shift()) await act(copy, item);
    };
    await Promise.all(this.all.map(work));
  }

  /**
   * The faults that do not compile, each as a line: what does not even load would look caught by any test.
   * @param {readonly Mutant[]} mutants
   */
  async uncompiled(mutants) {
    /** @type {string[]} */
    const lines = [];
    for (const layer of this.places.layersOf(mutants)) lines.push(...(await this.#uncompiledOf(layer)));
    return lines;
  }

  /**
   * Halves the faults until one is left: a compiler takes long.
   * @param {readonly Mutant[]} mutants of which any number can be applied at once
   * @returns {Promise<string[]>}
   */
  async #uncompiledOf(mutants) {
    const said = await this.first.withFaults(mutants, () => this.first.check());
    if (said === "") return [];
    const [only] = mutants;
    if (only && mutants.length === 1) return [`${only.name}: does not compile: ${said}`];
    const half = Math.ceil(mutants.length / 2);
    return [
      ...(await this.#uncompiledOf(mutants.slice(0, half))),
      ...(await this.#uncompiledOf(mutants.slice(half))),
    ];
  }

  /** Compiles all copies, for their tests: Node loads that in a fifth of the time. */
  compile() {
    compileInto(this.first.compiled);
    for (const { compiled } of this.all.slice(1)) cpSync(this.first.compiled, compiled, { recursive: true });
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #end() {
    for (const copy of this.all) copy.kill();
    this.remove();
    process.exit(130);
  }
}

/** One copy: one run at a time. */
export class Copy {
  /** @type {import("node:child_process").ChildProcess | undefined} */
  #child;

  /**
   * @param {string} path
   * @param {Places} places
   */
  constructor(path, places) {
    this.path = path;
    this.places = places;
    cpSync(root, path, { recursive: true, filter: (source) => !left.has(basename(source)) });
    symlinkSync(join(root, "node_modules"), join(path, "node_modules"), "junction");
    mkdirSync(this.#temporary);
    writeFileSync(join(path, config), configText);
    writeFileSync(join(path, project), projectText);
  }

  /** The compiled sources, once there are any. */
  get compiled() {
    return `${this.path}.compiled`;
  }

  /** The tests' own temporary files, which a test that was ended has left. */
  get #temporary() {
    return `${this.path}.tmp`;
  }

  /**
   * @template T
   * @param {readonly Mutant[]} mutants
   * @param {() => Promise<T>} act
   * @returns {Promise<T>}
   */
  async withFaults(mutants, act) {
    const faulty = [...this.places.withFaults(mutants)];
    try {
      for (const [file, text] of faulty) await this.#write(file, text);
      return await act();
    } finally {
      for (const [file] of faulty) await this.#write(file, this.places.textOf(file));
    }
  }

  /**
   * @param {string} file
   * @param {string} text
   */
  async #write(file, text) {
    writeFileSync(join(this.path, file), text);
    if (!existsSync(this.compiled)) return;
    const made = await compiledFile(file, text);
    writeFileSync(join(this.compiled, made.file), made.text);
  }

  /** What the compiler says first; nothing when all is well. What a fault leaves unused is no matter. */
  async check() {
    const { code, output } = await this.#run(
      [compiler, "-p", project, "--noEmit", "--noUnusedLocals", "false"],
      longestRun,
    );
    return code === 0 ? "" : (output.split("\n", 1)[0] ?? "");
  }

  /**
   * @param {readonly NamedTest[]} tests
   * @param {number} [limit] milliseconds that a test may take; else what the test itself allows
   * @returns {Promise<{ report: Report, ms: number }>}
   */
  async test(tests, limit) {
    const begun = performance.now();
    const result = join(this.#temporary, "report.json");
    rmSync(result, { force: true });
    // What an earlier run has packed has not this fault.
    rmSync(join(this.compiled, packedFolder), { recursive: true, force: true });
    const files = [...new Set(tests.map(({ file }) => file))];
    const options = [
      "-t",
      patternOf(tests),
      "--reporter=json",
      `--outputFile=${result}`,
      "--no-cache",
      "--config",
      config,
    ];
    if (limit !== undefined) options.push(`--testTimeout=${Math.round(limit)}`);
    const longest = limit === undefined ? longestRun : limit + aroundTest;
    const { hung, output } = await this.#run([vitest, "run", ...files, ...options], longest);
    const ms = Math.round(performance.now() - begun);
    return { report: hung ? { hung: true } : reportIn(result, output), ms };
  }

  kill() {
    // The whole group: tests start processes of their own.
    const pid = this.#child?.pid;
    try {
      if (pid !== undefined) process.kill(-pid, "SIGKILL");
    } catch {
      // It has just ended.
    }
  }

  /**
   * @param {string[]} args
   * @param {number} limit
   * @returns {Promise<Ended>}
   */
  #run(args, limit) {
    return new Promise((resolve, reject) => {
      const compiled = existsSync(this.compiled) ? { DBQ_COMPILED: this.compiled } : {};
      const env = { ...withoutOurs(process.env), ...compiled, TMPDIR: this.#temporary, NO_COLOR: "1" };
      const child = spawn(process.execPath, args, {
        cwd: this.path,
        env,
        detached: true,
        stdio: ["ignore", "pipe", "pipe"],
      });
      this.#child = child;
      let output = "";
      let hung = false;
      const take = (/** @type {Buffer} */ data) => {
        output = (output + data.toString()).slice(-20_000);
      };
      child.stdout.on("data", take);
      child.stderr.on("data", take);
      const timer = setTimeout(() => {
        hung = true;
        this.kill();
      }, limit);
      child.on("error", reject);
      child.on("exit", (code) => {
        clearTimeout(timer);
        this.#child = undefined;
        resolve({ code, hung, output });
      });
    });
  }
}

/**
 * Without what asks the tests for another database, or for other amounts.
 * @param {NodeJS.ProcessEnv} env
 */
function withoutOurs(env) {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !/^(?:DBQ_(?:URL|TIER|SAMPLE|SEED)|FORCE_COLOR)$/.test(name)),
  );
}

/**
 * @param {string} path
 * @param {string} output
 * @returns {Report}
 */
function reportIn(path, output) {
  try {
    return { files: JSON.parse(readFileSync(path, "utf8")).testResults };
  } catch {
    return { broken: `vitest ended without a report: ${output.trim().slice(-300)}` };
  }
}
