/** Imports the modules that a user has named. A module may be the wrong file: each error says which file is meant. */
import { extname } from "node:path";
import { pathToFileURL } from "node:url";
import { CommandError, describeThrown, reportFailure } from "./failure.ts";
import { jsonNote, note } from "./output.ts";

/** A module as the user has named it, and its file. */
export interface ModuleFile {
  given: string;
  path: string;
}

/** What the modules see, and how their errors are printed. */
export interface ImportOptions {
  /** The target of the modules' default queue. */
  db: string;
  json?: true;
}

/** Milliseconds after which an import that has not ended is reported. */
const longImport = 10_000;

const wanted = "name the module that registers the tasks";

/** The exports of a module. @throws CommandError for a module that cannot be imported */
export async function importModule(file: ModuleFile, options: ImportOptions): Promise<object> {
  const watched = watchImport(file, options);
  try {
    return (await import(pathToFileURL(file.path).href)) as object;
  } catch (error) {
    throw new CommandError("MODULE", reasonOf(error, file, options), { cause: error });
  } finally {
    watched.end();
  }
}

/** Reports a module that exits the process, or that waits for something. Both would end or hang without a word. */
function watchImport({ given }: ModuleFile, { json }: ImportOptions): { end(): void } {
  const why = `: ${wanted}, not a program that uses them`;
  const onExit = () => {
    process.exitCode = 1;
    const message = `module ${given} has ended the process, or waits for ever in a top-level await${why}`;
    reportFailure(new CommandError("MODULE", message), json);
  };
  const onWait = () => {
    const message = `module ${given} is still being imported after ${longImport / 1_000} s: a top-level await waits${why}`;
    if (json) jsonNote({ time: new Date(), event: "warning", message });
    else note(`${new Date().toISOString()} warning: ${message}`);
  };
  const timer = setTimeout(onWait, longImport).unref();
  process.once("exit", onExit);
  return {
    end() {
      clearTimeout(timer);
      process.off("exit", onExit);
    },
  };
}

/** Node writes the place of a syntax error above the stack: it may be in a file that the module loads. */
function placeOf(error: unknown): string {
  const [first = ""] = (error instanceof SyntaxError ? (error.stack ?? "") : "").split("\n");
  return /:\d+$/.test(first) ? `, at ${first}` : "";
}

function reasonOf(error: unknown, { given, path }: ModuleFile, { db }: ImportOptions): string {
  const { name, message, code } = describeThrown(error);
  const isUnknown = code === "ERR_UNKNOWN_FILE_EXTENSION" || code === "ERR_IMPORT_ATTRIBUTE_MISSING";
  if (isUnknown && /^\.[cm]?tsx?$/.test(extname(path))) {
    return `module ${given}: Node ${process.versions.node} does not run TypeScript: use Node 22.18 or newer, or tsx: node --import tsx node_modules/dbq-ts/bin.js …`;
  }
  if (isUnknown)
    return `module ${given} is neither JavaScript nor TypeScript: ${wanted}; a database is named by --db`;
  const thrown = `module ${given} cannot be imported: ${name}: ${message}`;
  const debug = "(DBQ_DEBUG=1 shows the stack)";
  // Such a module was found and could be read, so its own code has thrown.
  const hasRun = name !== "SyntaxError" && name !== "TransformError" && code !== "ERR_MODULE_NOT_FOUND";
  if (!hasRun) return `${thrown}${placeOf(error)} ${debug}`;
  // An app that connects by DBQ_URL finds the worker's database in it, and may take a path for a URL.
  const connects = /^(E[A-Z_]{4,}|28\w{3}|3D000)$/.test(code ?? "");
  const target = connects && !db.includes("@") ? ` (DBQ_URL was ${JSON.stringify(db)})` : "";
  return `${thrown}${target}: ${wanted}, not a program that uses them ${debug}`;
}
