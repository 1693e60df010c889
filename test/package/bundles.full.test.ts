/**
 * Apps whose bundler takes the packed package into the bundle: they build without the drivers that they do not use, run
 * tasks, and their workers have a heartbeat thread. Nothing is fetched; the bundlers are those of the repository.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bundled, bundledPrints, elsewhere, elsewhereApp } from "./programs.ts";
import { Installation } from "./project.ts";

const installation = new Installation();
beforeAll(() => {
  installation.install(["esbuild", "better-sqlite3"]);
  installation.add("vite", "vitest");
});
afterAll(() => installation.remove());

/** esbuild's script finds its own binary beside the folder that the link leads to. */
const bundler = `
import { buildSync } from "esbuild";
const [format, outfile] = process.argv.slice(2);
buildSync({ entryPoints: ["app.ts"], bundle: true, platform: "node", format, outfile, logLevel: "warning" });
`;

test.for([
  ["esm", "out/app.mjs"],
  ["cjs", "out/app.cjs"],
] as const)(
  "esbuild makes one file in format %s, whose worker has a heartbeat thread",
  ([format, outfile]) => {
    const project = installation.project(
      `esbuild-${format}`,
      { type: "module" },
      { "app.ts": bundled, "build.mjs": bundler },
    );
    const { status, output } = project.try("build.mjs", format, outfile);
    expect({ status, output }).toEqual({ status: 0, output: "" });
    const text = readFileSync(join(project.folder, outfile), "utf8");
    expect(text).not.toMatch(/(from |require\(|import\()"dbq-ts"/);
    expect(JSON.parse(project.node(outfile))).toEqual(bundledPrints);
  },
);

test.for([
  ["external", "undefined"],
  ["bundled", "true"],
] as const)(
  "Vite builds for the server with dbq %s, and the worker has a heartbeat thread",
  ([how, noExternal]) => {
    const config = `
export default {
  logLevel: "warn",
  build: { ssr: "app.ts", outDir: "out" },
  ssr: { noExternal: ${noExternal} },
};`;
    const project = installation.project(
      `vite-${how}`,
      { type: "module" },
      { "app.ts": bundled, "vite.config.mjs": config },
    );
    const { status, output } = project.try("../node_modules/vite/bin/vite.js", "build");
    expect({ status, output }).toEqual({ status: 0, output: "" });
    const text = readFileSync(join(project.folder, "out/app.js"), "utf8");
    expect(/from ?"dbq-ts"/.test(text)).toBe(how === "external");
    expect(JSON.parse(project.node("out/app.js"))).toEqual(bundledPrints);
  },
);

test("tasks in a bundle of their own run in threads and processes", () => {
  const build = `
import { buildSync } from "esbuild";
buildSync({
  entryPoints: ["app.ts", "tasks.ts"], bundle: true, splitting: true, platform: "node", format: "esm", outdir: "out",
  external: ["better-sqlite3", "pg", "mysql2", "drizzle-orm"], logLevel: "warning",
});
`;
  // Code that two bundles share is in a third file, which is none of them.
  const module = 'new URL("./tasks.js", import.meta.url)';
  const project = installation.project(
    "bundled-elsewhere",
    { type: "module" },
    { "app.ts": elsewhereApp, "tasks.ts": elsewhere(module), "build.mjs": build },
  );
  const { status, output } = project.try("build.mjs");
  expect({ status, output }).toEqual({ status: 0, output: "" });
  expect(JSON.parse(project.node("out/app.js"))).toEqual({ thread: true, process: true });
});
