/** Imports the modules that register tasks. */
import { existsSync, statSync } from "node:fs";
import { extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Queue, QueueHealth } from "../../index.ts";
import { CommandError, describeThrown } from "./failure.ts";

/** The exports of dbq-ts. */
export type Library = typeof import("../../index.ts");

/** A module as the user has named it, and its file. */
export interface ModuleFile {
  given: string;
  path: string;
}

/** The files of modules, relative to the current folder. @throws CommandError that names a missing file */
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
 * Imports modules for the tasks that they register. A module may import another copy of dbq-ts than this command's: all
 * copies in a process share their registered tasks.
 * @param db the target of the modules' default queue
 * @throws CommandError for a module that cannot be imported, or registers no task
 */
export async function loadModules(files: readonly ModuleFile[], db: string): Promise<Library> {
  process.env.DBQ_URL = db;
  const own = await import("../../index.ts");
  for (const file of files) {
    const before = own.registeredNames().length;
    const exports = await imported(file);
    if (own.registeredNames().length === before && !exportsTask(exports, own)) throw noTask(file);
  }
  return own;
}

/** Inspects the queue. Where modules are given, the functions that they register are those that workers know. */
export async function inspectWith(
  queue: Queue,
  files: readonly ModuleFile[],
  db: string,
): Promise<QueueHealth> {
  const { inspectQueue } = await import("../../index.ts");
  if (files.length === 0) return await inspectQueue(queue);
  const { registeredNames } = await loadModules(files, db);
  return await inspectQueue(queue, { functions: registeredNames() });
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
    return `module ${given}: Node ${process.versions.node} does not run TypeScript: use Node 22.18 or newer, or tsx: node --import tsx node_modules/dbq-ts/bin.js …`;
  }
  return `module ${given} cannot be imported: ${name}: ${message} (DBQ_DEBUG=1 shows the stack)`;
}

/** A module that another one has already imported registers no new task, but exports tasks. */
function exportsTask(exports: object, { registeredNames }: Library): boolean {
  const known: unknown[] = registeredNames();
  const isTask = (value: unknown) =>
    typeof value === "function" && "taskName" in value && known.includes(value.taskName);
  return Object.values(exports).some(isTask);
}

function noTask({ given }: ModuleFile): CommandError {
  return new CommandError(
    "MODULE",
    `module ${given} registers no task: it must call task() or registerTasks()`,
  );
}
