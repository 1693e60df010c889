/** Imports the module of a task, in TypeScript too. */
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isMainThread } from "node:worker_threads";

/** @throws Error that names the module, with the cause */
export async function importModule(module: string): Promise<void> {
  try {
    if (needsTsx(module)) await registerTsx(module);
    await import(module);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const advice =
      code === "ERR_UNKNOWN_FILE_EXTENSION"
        ? `: Node ${process.versions.node} does not run TypeScript: use Node 22.18 or newer, or install tsx`
        : "";
    throw new Error(`the module of the task, ${module}, cannot be imported: ${messageOf(error)}${advice}`, {
      cause: error,
    });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/**
 * Whether tsx has to be registered here. A process inherits the worker's flags, such as `--import tsx`; in a thread some versions
 * of Node ignore the hooks that these flags install.
 */
function needsTsx(module: string): boolean {
  const byFlag = /\btsx\b/.test(`${process.execArgv.join(" ")} ${process.env.NODE_OPTIONS ?? ""}`);
  if (byFlag) return !isMainThread;
  const { typescript } = process.features as { typescript?: unknown };
  return /\.[cm]?tsx?$/.test(new URL(module).pathname) && !typescript;
}

/** Registers the app's own tsx, if it has one. */
async function registerTsx(module: string): Promise<void> {
  const require = createRequire(fileURLToPath(module));
  let file: string;
  try {
    file = require.resolve("tsx/esm/api");
  } catch {
    // Without tsx, the import of the module fails, and its error says why.
    return;
  }
  (require("tsx/cjs/api") as { register(): void }).register();
  // `require.resolve` gives the file for CommonJS, but Node loads hooks only from the one for ES modules.
  const api = pathToFileURL(file.replace(/\.cjs$/, ".mjs")).href;
  ((await import(api)) as { register(): void }).register();
}
