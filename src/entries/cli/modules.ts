/** Imports the modules that register tasks. */
import { existsSync, statSync } from "node:fs";
import { resolve, sep } from "node:path";
import type { Queue, QueueHealth } from "../../index.ts";
import { CommandError } from "./failure.ts";
import {
  type ImportOptions,
  importModule,
  type ModuleFile,
  type ModuleRole,
  nameOf,
  ofTasks,
} from "./imports.ts";

/** The exports of dbq-ts. */
export type Library = typeof import("../../index.ts");

const extensions = [".js", ".mjs", ".cjs", ".ts", ".mts"];

/** The files of modules, relative to the current folder. @throws CommandError that names a missing file */
export function moduleFiles(modules: readonly string[], role: ModuleRole = ofTasks): ModuleFile[] {
  return modules.map((given) => {
    const { label } = role;
    // The rest of a URL may have a password.
    const [scheme] = /^[a-z][a-z0-9+.-]+:(?=\/\/)/i.exec(given) ?? [];
    if (scheme !== undefined)
      throw new CommandError(
        "MODULE",
        `${label} ${scheme}//…: this is a URL: name a database by --db, and a module by the path of its file`,
      );
    const path = resolve(given);
    const found = statSync(path, { throwIfNoEntry: false });
    if (found?.isFile()) return { given, path, role };
    const what = found?.isDirectory() ? `${path} is a folder` : `there is no file ${path}`;
    throw new CommandError("MODULE", `${label} ${given}: ${what}: ${adviceFor(given, path, role)}`);
  });
}

function adviceFor(given: string, path: string, { does, stem }: ModuleRole): string {
  const near = [...extensions, ...extensions.map((end) => `${sep}${stem}${end}`)];
  const meant = near.find((end) => existsSync(path + end));
  return meant === undefined
    ? `name the file that ${does}, relative to the current folder`
    : `did you mean ${given.replace(/[/\\]$/, "")}${meant}?`;
}

/**
 * Imports modules for the tasks that they register. A module may import another copy of dbq-ts than this command's: all
 * copies in a process share their registered tasks. A module before another one may register none, such as one that sets up
 * tracing.
 * @throws CommandError for a module that cannot be imported; for the last one, when it registers no task
 */
export async function loadModules(files: readonly ModuleFile[], options: ImportOptions): Promise<Library> {
  process.env.DBQ_URL = options.db;
  const own = await import("../../index.ts");
  for (const file of files) {
    const before = own.registeredNames().length;
    const exports = await importModule(file, options);
    const hasTask = own.registeredNames().length > before || exportsTask(exports, own);
    if (file === files.at(-1) && !hasTask) throw noTask(file);
  }
  return own;
}

/** Inspects the queue. Where modules are given, the functions that they register are those that workers know. */
export async function inspectWith(
  queue: Queue,
  files: readonly ModuleFile[],
  options: ImportOptions,
): Promise<QueueHealth> {
  const { inspectQueue } = await import("../../index.ts");
  if (files.length === 0) return await inspectQueue(queue);
  const { registeredNames } = await loadModules(files, options);
  return await inspectQueue(queue, { functions: registeredNames() });
}

/** A module that another one has already imported registers no new task, but exports tasks. */
function exportsTask(exports: object, { registeredNames }: Library): boolean {
  const known: unknown[] = registeredNames();
  const isTask = (value: unknown) =>
    typeof value === "function" && "taskName" in value && known.includes(value.taskName);
  return Object.values(exports).some(isTask);
}

function noTask(file: ModuleFile): CommandError {
  return new CommandError(
    "MODULE",
    `${nameOf(file)} registers no task: name a module that calls task() or registerTasks()`,
  );
}
