/** Runs the demo as a program: what `tsc` has compiled of it, which starts in a third of the time. `npm run demo` runs the sources. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";

const project = fileURLToPath(new URL("../..", import.meta.url));
const compiled = process.env.DBQ_COMPILED;
const program =
  compiled === undefined ? ["--import", "tsx", "demo/main.ts"] : [join(compiled, "demo/main.js")];

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
});

/** A running demo. `ended` resolves when neither the demo nor any of its workers has the pipes open. */
export interface Running {
  child: ChildProcess;
  ended: Promise<Ended>;
  /** Resolves when its stderr has the text; rejects when the demo ends without it. */
  says(text: string): Promise<void>;
}

export function startDemo(...args: string[]): Running {
  const child = spawn(process.execPath, [...program, ...args], {
    cwd: project,
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text) => (output.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (output.stderr += text));
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code) => resolve({ code, ...output }));
  });
  const says = (text: string) =>
    new Promise<void>((resolve, reject) => {
      const look = () => output.stderr.includes(text) && resolve();
      look();
      child.stderr.on("data", look);
      child.on("close", () =>
        reject(new Error(`it ended without ${JSON.stringify(text)}: ${output.stderr}`)),
      );
    });
  return { child, ended, says };
}

export function runDemo(...args: string[]): Promise<Ended> {
  return startDemo(...args).ended;
}
