/** Packages that an app may not have installed: a bundler must neither look for them nor take them into a bundle. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * Imports a package from `node_modules` at run time, in a bundle too. The name is a variable for esbuild and Rollup; the
 * comments keep webpack, Turbopack and Vite from looking for it.
 */
export async function importPackage<T>(name: string): Promise<T> {
  return (await import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ name)) as T;
}

/** Whether an import failed because there is no such package. Node has a code of its own for `require`. */
export function isMissingPackage(error: unknown): boolean {
  return ["ERR_MODULE_NOT_FOUND", "MODULE_NOT_FOUND"].includes(String((error as { code?: unknown })?.code));
}

/** The file of a package, for a thread to load; undefined when it is not in a `node_modules` that this process sees. */
export function packageFile(name: string): string | undefined {
  for (const base of bases()) {
    try {
      return createRequire(base).resolve(name);
    } catch {
      // The next one may find it.
    }
  }
  return undefined;
}

/** From where to look: this file or the bundle that it is in, then the program, then the current folder. */
function bases(): string[] {
  // In a CommonJS bundle there is no URL, and some bundlers write that of the file before bundling.
  const { url } = import.meta as { url?: string };
  const here = typeof __filename === "string" ? pathToFileURL(__filename).href : undefined;
  const program = process.argv[1] && pathToFileURL(process.argv[1]).href;
  const folder = pathToFileURL(join(process.cwd(), "_")).href;
  return [url, here, program, folder].filter((base) => base?.startsWith("file:")) as string[];
}
