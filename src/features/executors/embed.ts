/**
 * Bundles a program that threads or processes run. Only the repository needs this: the package has the program as text, because
 * an app's bundle has no files beside it.
 */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

/** @param beside the URL of a module in the same folder: its extension is that of the program, compiled or not */
export function bundleProgram(name: string, beside: string): string {
  const { outputFiles } = buildSync({
    entryPoints: [fileURLToPath(new URL(`./${name}${extname(new URL(beside).pathname)}`, beside))],
    bundle: true,
    write: false,
    platform: "node",
    format: "cjs",
    target: "node20",
    minifySyntax: true,
    minifyWhitespace: true,
  });
  return outputFiles.map(({ text }) => text).join("");
}
