/** Other processes on the same database. */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { Command } from "./child.ts";

/** Compiled for these tests, a process starts in a third of the time (`scripts/compile-fixtures.mjs`). */
const compiled = process.env.DBQ_COMPILED;
const child =
  compiled === undefined
    ? fileURLToPath(new URL("./child.ts", import.meta.url))
    : join(compiled, "test/queue/child.js");
const execArgv = compiled === undefined ? ["--import", import.meta.resolve("tsx")] : [];

/** A process that has loaded dbq and waits for its start signal. */
export interface Waiting<T> {
  process: ChildProcess;
  ready: Promise<unknown>;
  /** Sends the start signal, and resolves with the command's result once the process has ended. */
  go(): Promise<T>;
}

/** The answer of a child process. */
export type Answer<T> = { given: T } | { thrown: string };

export function startProcess<T>(command: Command, ...args: string[]): Waiting<T> {
  const started = fork(child, [command, ...args], { execArgv });
  onTestFinished(() => void started.kill("SIGKILL"));
  const ready = once(started, "message");
  const go = async () => {
    await ready;
    const ended = new Promise<never>((_, reject) => {
      started.once("exit", (code) => reject(new Error(`${command} ended with ${code} before it answered`)));
    });
    const answer = once(started, "message");
    started.send("go");
    const [message] = (await Promise.race([answer, ended])) as [Answer<T>];
    ended.catch(() => undefined);
    if ("thrown" in message) throw new Error(`${command}: ${message.thrown}`);
    return message.given;
  };
  return { process: started, ready, go };
}

/** Runs a command in a process of its own. */
export async function inProcess<T>(command: Command, ...args: string[]): Promise<T> {
  return await startProcess<T>(command, ...args).go();
}

/** Runs a command in `count` processes that start it at the same time. */
export async function inProcesses<T>(count: number, command: Command, ...args: string[]): Promise<T[]> {
  const waiting = Array.from({ length: count }, () => startProcess<T>(command, ...args));
  await Promise.all(waiting.map(({ ready }) => ready));
  return await Promise.all(waiting.map(({ go }) => go()));
}

/** Runs a command in another process, as another user or with another environment, and returns its output. */
export async function runProcess(
  command: Command,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv; uid?: number; gid?: number } = {},
): Promise<string> {
  const started = spawn(process.execPath, [...execArgv, child, command, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    ...options,
  });
  const texts = ["", ""];
  started.stdout.on("data", (data) => {
    texts[0] += data;
  });
  started.stderr.on("data", (data) => {
    texts[1] += data;
  });
  const [code] = await once(started, "close");
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${texts[1]}`);
  return texts[0] ?? "";
}
