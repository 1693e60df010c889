/** Loads the modules that register tasks, and finds the dbq-ts that they register them with. */
import { existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { CommandError, describeThrown } from "./failure.ts";

/** What `import "dbq-ts"` gives. */
export type Library = typeof import("../index.ts");

/** A module as it was named, and its file. */
export interface ModuleFile {
  given: string;
  path: string;
}

/** The files of modules, relative to the current folder. @throws CommandError naming the one that is no file */
export function moduleFiles(modules: readonly string[]): ModuleFile[] {
  return modules.map((given) => {
    const path = resolve(given);
    if (statSync(path, { throwIfNoEntry: false })?.isFile()) return { given, path };
    const meant = [".js", ".mjs", ".cjs", ".ts", ".mts"].find((extension) => existsSync(path + extension));
    const hint = meant === undefined ? "" : `: did you mean ${given}${meant}?`;
    throw new CommandError("MODULE", `module ${given}: there is no file ${path}${hint}`);
  });
}

/**
 * Imports modules for the tasks that they register.
 * @param db what their default queue is, should they use it
 * @returns the dbq-ts that they registered them with, which then has to run them.
 * @throws CommandError for one that cannot be imported, or registers nothing
 */
export async function loadModules(files: readonly ModuleFile[], db: string): Promise<Library> {
  process.env.DBQ_URL = db;
  const own = await import("../index.ts");
  let library: Library | undefined;
  for (const file of files) {
    const before = own.registeredNames().length;
    const exports = await imported(file);
    const found =
      own.registeredNames().length > before || exportsTask(exports, own) ? own : await copyOf(file);
    if (found === undefined) throw noTask(file);
    if (library !== undefined && library !== found) throw twoCopies(file);
    library = found;
  }
  return library ?? own;
}

async function imported(file: ModuleFile): Promise<object> {
  try {
    return (await import(pathToFileURL(file.path).href)) as object;
  } catch (error) {
    throw new CommandError("MODULE", reasonOf(error, file), { cause: error });
  }
}

function reasonOf(error: unknown, { given, path }: ModuleFile): string {
  const { name, message, code } = describeThrown(error);
  if (code === "ERR_UNKNOWN_FILE_EXTENSION" && /^\.[cm]?tsx?$/.test(extname(path))) {
    return `module ${given}: Node ${process.versions.node} does not run TypeScript: use Node 22.18 or newer, or tsx: node --import tsx node_modules/.bin/dbq …`;
  }
  return `module ${given} cannot be imported: ${name}: ${message} (DBQ_DEBUG=1 shows the stack)`;
}

/** A module that another one has imported before registers nothing new. */
function exportsTask(exports: object, { registeredNames }: Library): boolean {
  const known: unknown[] = registeredNames();
  const isTask = (value: unknown) =>
    typeof value === "function" && "taskName" in value && known.includes(value.taskName);
  return Object.values(exports).some(isTask);
}

/**
 * The module's own copy of dbq-ts, if tasks are registered with it: this command may be installed elsewhere, and tsx
 * gives modules that are CommonJS a copy of each package that is not.
 */
async function copyOf({ path }: ModuleFile): Promise<Library | undefined> {
  const require = createRequire(path);
  const load = [
    async (): Promise<Library> => require("dbq-ts"),
    async (): Promise<Library> => await import(pathToFileURL(require.resolve("dbq-ts")).href),
  ];
  for (const copy of load) {
    const library = await copy().catch(() => undefined);
    if (library !== undefined && library.registeredNames().length > 0) return library;
  }
  return undefined;
}

function noTask({ given }: ModuleFile): CommandError {
  return new CommandError(
    "MODULE",
    `module ${given} registers no task: it has to call task() or registerTasks()`,
  );
}

function twoCopies({ given }: ModuleFile): CommandError {
  return new CommandError(
    "MODULE",
    `module ${given} has another copy of dbq-ts than the modules before it: give each copy a worker of its own`,
  );
}
