/**
 * The package as `npm pack` makes it, unpacked into empty projects: no network, and no other file of the repository
 * than what is installed.
 */
import {
  execFileSync,
  type SpawnSyncOptionsWithStringEncoding,
  type SpawnSyncReturns,
  spawnSync,
} from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { packedFolder } from "../../scripts/compile-fixtures.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Manifest {
  version: string;
  bin: Record<string, string>;
  dependencies: Record<string, string>;
  peerDependencies: Record<string, string>;
  peerDependenciesMeta: Record<string, { optional?: boolean }>;
}

/** A folder with the package, its dependencies and its required peers in `node_modules`. */
export class Installation {
  readonly folder = mkdtempSync(join(tmpdir(), "dbq-package-"));
  readonly package = join(this.folder, "node_modules/dbq-ts");

  /** @param tools packages of the repository that the projects use beside what dbq declares */
  install(tools: readonly string[]): void {
    mkdirSync(this.package, { recursive: true });
    execFileSync("tar", ["-xzf", tarball(), "-C", this.package, "--strip-components", "1"]);
    this.#link(tools);
  }

  /** The same package in another folder, with these packages instead. */
  copy(tools: readonly string[]): Installation {
    const copy = new Installation();
    cpSync(this.package, copy.package, { recursive: true });
    copy.#link(tools);
    return copy;
  }

  #link(tools: readonly string[]): void {
    const { dependencies, peerDependencies, peerDependenciesMeta } = this.manifest();
    const peers = Object.keys(peerDependencies).filter((name) => !peerDependenciesMeta[name]?.optional);
    for (const name of [...Object.keys(dependencies), ...peers, ...tools]) this.add(name);
  }

  /** Links an installed package of the repository, or of a package of it, where it finds its own dependencies. */
  add(name: string, within = ""): void {
    const path = join(this.folder, "node_modules", name);
    mkdirSync(dirname(path), { recursive: true });
    const from = createRequire(join(root, "node_modules", within, "_")).resolve.paths(name) ?? [];
    const target = from.map((folder) => join(folder, name)).find((folder) => existsSync(folder));
    symlinkSync(target ?? join(root, "node_modules", name), path, "junction");
  }

  manifest(): Manifest {
    return JSON.parse(readFileSync(join(this.package, "package.json"), "utf8"));
  }

  /** An empty project beside the installed packages, with the files given. */
  project(name: string, manifest: object, files: Record<string, string>): Project {
    const project = new Project(join(this.folder, name));
    project.write({ "package.json": JSON.stringify({ name, private: true, ...manifest }), ...files });
    return project;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Milliseconds in which another process has packed the package. */
const longestPack = 120_000;

/**
 * The package, packed once for all test files of a run: a build takes longer than many of their tests. The first that asks packs
 * it in the folder of the run's compiled sources, and the others wait. @returns the tarball's path
 */
function tarball(): string {
  const folder = join(process.env.DBQ_COMPILED ?? mkdtempSync(join(tmpdir(), "dbq-package-")), packedFolder);
  const path = join(folder, "dbq-ts.tgz");
  for (const end = Date.now() + longestPack; !existsSync(path); Atomics.wait(never, 0, 0, 100)) {
    if (isMade(folder)) packTo(path);
    if (Date.now() > end) throw new Error(`the test file that packs the package has not done so: ${folder}`);
  }
  return path;
}

const never = new Int32Array(new SharedArrayBuffer(4));

/** Makes a folder. @returns false when it was there */
function isMade(folder: string): boolean {
  try {
    mkdirSync(folder);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Packs a copy of the tree, since the build of the tree may be in use. Where that fails, the next test file tries it. */
function packTo(path: string): void {
  const copy = mkdtempSync(join(tmpdir(), "dbq-package-"));
  try {
    renameSync(pack(copy, dirname(path)), path);
  } catch (error) {
    rmSync(dirname(path), { recursive: true });
    throw error;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** @returns the tarball's path */
function pack(copy: string, folder: string): string {
  const left = new Set(["node_modules", ".git", "dist", "site", "coverage"]);
  cpSync(root, copy, { recursive: true, filter: (path) => path === root || !left.has(basename(path)) });
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"), "junction");
  const { stdout } = expectSuccess(
    spawnSync("npm", ["pack", "--json", "--pack-destination", folder], {
      ...settings(copy),
      timeout: longestPack,
      shell: process.platform === "win32",
    }),
  );
  // npm prints the build's output before the JSON.
  const [{ filename }] = JSON.parse(stdout.slice(stdout.search(/^\[/m)));
  return join(folder, filename);
}

export class Project {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    mkdirSync(folder);
  }

  write(files: Record<string, string>): void {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.folder, name)), { recursive: true });
      writeFileSync(join(this.folder, name), text);
    }
  }

  /** Runs Node here, without input. A failure contains the output. @returns the output */
  node(...args: string[]): string {
    return expectSuccess(spawnSync(process.execPath, args, settings(this.folder))).stdout;
  }

  /** As `node`, for runs that may fail. */
  try(...args: string[]): { status: number | null; output: string } {
    const { status, stdout, stderr } = spawnSync(process.execPath, args, settings(this.folder));
    return { status, output: stdout + stderr };
  }

  /** Runs the file of a command that the package's manifest names. */
  command(packageName: string, file: string, ...args: string[]): string {
    return this.node(join(this.folder, "../node_modules", packageName, file), ...args);
  }
}

function expectSuccess(run: SpawnSyncReturns<string>): SpawnSyncReturns<string> {
  if (run.status === 0) return run;
  throw new Error(
    `it ended with ${run.status ?? run.signal ?? run.error?.message}:\n${run.stdout}${run.stderr}`,
  );
}

/** The environment of a shell, without what npm, vitest or a debugger has added to this test's. */
function settings(cwd: string): SpawnSyncOptionsWithStringEncoding {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(npm_|vitest|node_|dbq_|tsx_)/i.test(name) && name !== "INIT_CWD",
    ),
  );
  return { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: 60_000 };
}
