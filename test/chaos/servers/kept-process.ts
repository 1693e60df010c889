/** A server process of the chaos tests. It may be killed and started again, and it ends when the test process ends. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

/**
 * Starts a command, prints its pid, and exits as it does. When the parent process is gone, it kills the command.
 * Signals of a terminal reach neither, so the parent decides the order of their ends.
 */
const keeper = `
  trap "" INT TERM
  exec 3<&0
  "$@" </dev/null 3<&- & server=$!
  echo $server
  { cat <&3 >/dev/null; kill -9 $server; } 2>/dev/null &
  watcher=$!
  wait $server
  status=$?
  kill $watcher
  exit $status`;

/** The user for a server that refuses to run as root. */
export interface User {
  uid: number;
  gid: number;
}

export class KeptProcess {
  readonly pid: number;
  /** Resolves when it has exited. */
  readonly ended: Promise<void>;
  #gone = false;

  private constructor(pid: number, ended: Promise<void>) {
    this.pid = pid;
    this.ended = ended.then(() => {
      this.#gone = true;
    });
  }

  /** Whether it has exited. */
  get gone(): boolean {
    return this.#gone;
  }

  /** Its output is appended to a file. */
  static async start(command: readonly string[], log: string, user: User | undefined): Promise<KeptProcess> {
    const output = openSync(log, "a");
    const child = spawn("sh", ["-c", keeper, "sh", ...command], { stdio: ["pipe", "pipe", output], ...user });
    closeSync(output);
    const { stdin, stdout } = child as ChildProcess & { stdin: Writable; stdout: Readable };
    const ended = once(child, "exit").then(() => void stdin.end());
    const [pid] = (await once(createInterface(stdout), "line")) as [string];
    return new KeptProcess(Number(pid), ended);
  }

  /** Sends a signal, and waits until the process is gone. */
  async end(signal: NodeJS.Signals): Promise<void> {
    try {
      process.kill(this.pid, signal);
    } catch {
      // It is already gone.
    }
    await this.ended;
  }
}

/** Kills a process and its children. It is stopped first, so that it makes no others. */
export function killWithChildren(pid: number): void {
  try {
    process.kill(pid, "SIGSTOP");
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    for (const each of [pid, ...children.split(" ").filter(Boolean)]) process.kill(Number(each), "SIGKILL");
  } catch {
    // It is already gone.
  }
}

/** The user with this name, for a process of root; undefined for any other user, who runs the server as himself. */
export function userFor(name: string): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (what: string) => Number(execFileSync("id", [what, name], { encoding: "utf8" }));
  return { uid: idOf("-u"), gid: idOf("-g") };
}

/**
 * Unused ports of this machine, below those of outgoing connections (from 32,768 on, on Linux): such a connection could
 * take the port of a killed server before it starts again.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = randomInt(10_000, 32_000);
    if (!ports.includes(port) && (await isFree(port))) ports.push(port);
  }
  return ports;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  await once(server.close(), "close");
  return true;
}
