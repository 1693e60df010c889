/** A folder with the package installed as from the registry, for programs that know nothing else. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { Installation } from "../package/project.ts";
import { root } from "./pages.ts";

export interface Ran {
  code: number;
  output: string;
}

/** A reader's compiler options: `strict` and Node's own resolution. A page must not need more than these. */
export const readersOptions = {
  strict: true,
  target: "es2023",
  lib: ["es2023", "esnext.disposable"],
  module: "nodenext",
  moduleDetection: "force",
  skipLibCheck: true,
  types: ["node"],
};

/** The package, packed from the current sources, with the servers' drivers and what the pages use beside it. */
export function installed(): Installation {
  const installation = new Installation();
  installation.install([
    ...[
      "better-sqlite3",
      "pg",
      "mysql2",
      "bullmq",
      "ioredis",
      "prom-client",
      "zod",
      "drizzle-kit",
      "typescript",
      "tsx",
      "vitest",
    ],
    ...["@types/node", "@types/better-sqlite3", "@types/pg"],
    ...["api", "context-async-hooks", "sdk-metrics", "sdk-trace-base"].map(
      (name) => `@opentelemetry/${name}`,
    ),
  ]);
  return installation;
}

/** Runs the compiler. */
export function tsc(args: readonly string[], cwd: string): Promise<Ran> {
  return run([join(root, "node_modules/typescript/bin/tsc"), ...args], cwd);
}

/** Runs Node until it exits; returns both streams as one text. */
export function run(
  args: readonly string[],
  cwd: string,
  more: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const { DBQ_URL: _, ...inherited } = process.env;
  const env = { ...inherited, ...more };
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd, env, timeout: 60_000 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ code, output: stdout + stderr });
    });
  });
}
