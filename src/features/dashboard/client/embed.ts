/**
 * Bundles what the dashboard's pages load. Only the repository needs this: the package has the files as text, because an app's
 * bundle has no files beside it.
 */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

/** @param beside the URL of a module in the same folder: the script's extension is the same, compiled or not */
export function bundleScript(beside: string): string {
  return bundle(`./main${extname(new URL(beside).pathname)}`, beside);
}

export function bundleStyle(beside: string): string {
  return bundle("./style.css", beside);
}

function bundle(file: string, beside: string): string {
  const { outputFiles } = buildSync({
    entryPoints: [fileURLToPath(new URL(file, beside))],
    bundle: true,
    write: false,
    platform: "browser",
    format: "iife",
    target: "es2022",
    minify: true,
    // The licence of uPlot asks for its notice.
    legalComments: "inline",
  });
  return outputFiles.map(({ text }) => text).join("");
}
