/** Imports the modules that a user has named. A module may be the wrong file: each error says which file is meant. */
import { extname } from "node:path";
import { pathToFileURL } from "node:url";
import { CommandError, describeThrown, reportFailure } from "./failure.ts";
import { jsonNote, note } from "./output.ts";

/** What a module is for, as messages say it. */
export interface ModuleRole {
  /** Stands before the name of the module. */
  label: string;
  /** What the right module does. */
  does: string;
  /** Which wrong module a user may have named; empty: none. */
  unlike: string;
  /** The usual name of its file. */
  stem: string;
}

export const ofTasks: ModuleRole = {
  label: "module",
  does: "registers the tasks",
  unlike: ", not a program that uses them",
  stem: "tasks",
};

/** A module as the user has named it, and its file. */
export interface ModuleFile {
  given: string;
  path: string;
  role: ModuleRole;
}

/** What the modules see, and how their errors are printed. */
export interface ImportOptions {
  /** The target of the modules' default queue. */
  db: string;
  json?: true;
}

/** Milliseconds after which an import that has not ended is reported. */
const longImport = 10_000;

/** The module as messages name it. */
export const nameOf = ({ given, role }: ModuleFile): string => `${role.label} ${given}`;

const wantedOf = ({ role }: ModuleFile): string => `name the module that ${role.does}`;

/** The exports of a module. @throws CommandError for a module that cannot be imported */
export async function importModule(file: ModuleFile, options: ImportOptions): Promise<object> {
  return await watched(file, options, ["is still being imported", "a top-level await"], async () => {
    try {
      return (await import(pathToFileURL(file.path).href)) as object;
    } catch (error) {
      throw new CommandError("MODULE", reasonOf(error, file, options), { cause: error });
    }
  });
}

/** A module that a compiler has made CommonJS has its default export in the one that Node gives it. */
export function defaultOf(exports: { default?: unknown }): unknown {
  const { default: given } = exports;
  const isCompiled = typeof given === "object" && given !== null && "__esModule" in given;
  return isCompiled ? (given as { default?: unknown }).default : given;
}

/**
 * Runs code of a module. Reports it when it exits the process, or waits for something: both would end or hang without a word.
 * @param about what the module does after ten seconds, and what it waits in
 */
export async function watched<T>(
  file: ModuleFile,
  { json }: ImportOptions,
  [doing, waiting]: readonly [string, string],
  run: () => Promise<T>,
): Promise<T> {
  const name = nameOf(file);
  const why = `: ${wantedOf(file)}${file.role.unlike}`;
  const onExit = () => {
    process.exitCode = 1;
    const message = `${name} has ended the process, or waits for ever in ${waiting}${why}`;
    reportFailure(new CommandError("MODULE", message), json);
  };
  const onWait = () => {
    const message = `${name} ${doing} after ${longImport / 1_000} s: ${waiting} waits${why}`;
    if (json) jsonNote({ time: new Date(), event: "warning", message });
    else note(`${new Date().toISOString()} warning: ${message}`);
  };
  const timer = setTimeout(onWait, longImport).unref();
  process.once("exit", onExit);
  try {
    return await run();
  } finally {
    clearTimeout(timer);
    process.off("exit", onExit);
  }
}

/** Node writes the place of a syntax error above the stack: it may be in a file that the module loads. */
function placeOf(error: unknown): string {
  const [first = ""] = (error instanceof SyntaxError ? (error.stack ?? "") : "").split("\n");
  return /:\d+$/.test(first) ? `, at ${first}` : "";
}

function reasonOf(error: unknown, file: ModuleFile, { db }: ImportOptions): string {
  const { name, message, code } = describeThrown(error);
  const [module, wanted] = [nameOf(file), wantedOf(file)];
  const isUnknown = code === "ERR_UNKNOWN_FILE_EXTENSION" || code === "ERR_IMPORT_ATTRIBUTE_MISSING";
  if (isUnknown && /^\.[cm]?tsx?$/.test(extname(file.path))) {
    return `${module}: Node ${process.versions.node} does not run TypeScript: use Node 22.18 or newer, or tsx: node --import tsx node_modules/dbq-ts/bin.js …`;
  }
  if (isUnknown)
    return `${module} is neither JavaScript nor TypeScript: ${wanted}; a database is named by --db`;
  const thrown = `${module} cannot be imported: ${name}: ${message}`;
  const debug = "(DBQ_DEBUG=1 shows the stack)";
  // Such a module was found and could be read, so its own code has thrown.
  const hasRun = name !== "SyntaxError" && name !== "TransformError" && code !== "ERR_MODULE_NOT_FOUND";
  if (!hasRun) return `${thrown}${placeOf(error)} ${debug}`;
  // An app that connects by DBQ_URL finds the worker's database in it, and may take a path for a URL.
  const connects = /^(E[A-Z_]{4,}|28\w{3}|3D000)$/.test(code ?? "");
  const target = connects && !db.includes("@") ? ` (DBQ_URL was ${JSON.stringify(db)})` : "";
  return `${thrown}${target}: ${wanted}${file.role.unlike} ${debug}`;
}
