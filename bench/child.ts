/** Runs one measurement in a child process, in a new folder. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Benchmark, type Figures, programBeside, type Settings } from "./benchmark.ts";
import type { Reply, Request } from "./measurement.ts";
import { dropAbandoned } from "./server/databases.ts";
import { nodeForServers } from "./server/node.ts";

/** Milliseconds after which a measurement is aborted, unless its benchmark has its own limit. */
const usualLimit = 600_000;

const program = programBeside(import.meta.url, "measurement");

export interface ChildOptions {
  /** A folder for CPU profiles. */
  readonly profile: string | undefined;
  readonly signal: AbortSignal;
}

export interface Asked {
  readonly benchmark: Benchmark;
  readonly contender: string;
  readonly settings: Omit<Settings, "directory">;
}

/** @throws Error with the child's output when it did not measure */
export async function measureInChild(asked: Asked, options: ChildOptions): Promise<Figures> {
  const { benchmark, contender, settings } = asked;
  const directory = mkdtempSync(join(tmpdir(), "dbq-bench-"));
  const request = { benchmark: benchmark.name, contender, settings: { ...settings, directory } };
  try {
    return await ask(request, benchmark, options);
  } finally {
    rmSync(directory, { recursive: true, force: true });
    // The child drops its databases itself, unless it was killed.
    if (benchmark.on === "postgres" || benchmark.on === "mariadb") await dropAbandoned(benchmark.on);
  }
}

async function ask(
  request: Request,
  { on = "sqlite", limit = usualLimit, contenders }: Benchmark,
  { profile, signal }: ChildOptions,
): Promise<Figures> {
  const { recentNode = on !== "sqlite" } = contenders.find(({ name }) => name === request.contender) ?? {};
  const child = fork(program, {
    execPath: recentNode ? nodeForServers().path : process.execPath,
    execArgv: profile === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", profile],
    // A process group, so that all processes of the measurement can be killed.
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const timeout = AbortSignal.timeout(limit);
  const end = () => killGroup(child);
  for (const each of [timeout, signal]) each.addEventListener("abort", end);
  const said = listen(child);
  const answer = once(child, "message") as Promise<[Reply]>;
  const exit = once(child, "exit");
  child.send(request);
  try {
    const replied = await Promise.race([answer, exit.then(() => undefined)]);
    await exit;
    if (timeout.aborted) throw new Error(`it took longer than ${limit / 1_000} s`);
    return figuresOf(replied?.[0], child, said());
  } finally {
    for (const each of [timeout, signal]) each.removeEventListener("abort", end);
    killGroup(child);
  }
}

function figuresOf(reply: Reply | undefined, child: ChildProcess, said: string): Figures {
  if (reply && "figures" in reply) return reply.figures;
  const why = reply?.error ?? `it ended with ${child.exitCode ?? child.signalCode} and no figures`;
  throw new Error(said === "" ? why : `${why}\n${said}`);
}

/** The child's output: empty when all is well. */
function listen({ stdout, stderr }: ChildProcess): () => string {
  let said = "";
  for (const stream of [stdout, stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-4_000);
    });
  }
  return () => said.trim();
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // All processes of the group have exited.
  }
}
