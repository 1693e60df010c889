/** Runs a program as a user does: in its own process and folder. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";

export interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Program {
  process: ChildProcess;
  /** Its output so far, of both streams. */
  output(): string;
  /** The first match in its output; rejects when the program ends without one. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
  /** Resolves when the program has ended and its output is complete. */
  ended: Promise<Ending>;
}

/**
 * Runs a TypeScript file in `cwd` with the `paths` of `tsconfig`, and kills it after the test. There is no `tsx` command around
 * the process, so that signals reach the program itself.
 */
export function program(
  file: string,
  options: { cwd: string; tsconfig?: string; env?: Record<string, string> },
): Program {
  const { DBQ_URL: _, ...env } = process.env;
  if (options.tsconfig !== undefined) env.TSX_TSCONFIG_PATH = options.tsconfig;
  const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), file], {
    cwd: options.cwd,
    env: { ...env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = outputOf(child);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await output.ended;
  });
  return { process: child, ...output };
}

function outputOf(child: ChildProcess): Omit<Program, "process"> {
  let output = "";
  const ended = once(child, "close").then(([code, signal]): Ending => ({ code, signal }));
  const look = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      for (const waiting of look) waiting();
    });
  }
  const printed = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const waiting = () => {
        const found = pattern.exec(output);
        if (found) resolve(found);
        return found !== null;
      };
      if (waiting()) return;
      look.add(waiting);
      void ended.then(() => reject(new Error(`it ended without printing ${pattern}:\n${output}`)));
    });
  return { output: () => output, printed, ended };
}
