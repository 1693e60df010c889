/** A server of chaos' own: a process that may be killed and started again, and that is gone when chaos is. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

/**
 * Starts a command, says its number, and ends as it does; when whoever started this is gone, kills it. A signal from a
 * terminal reaches neither: they end in their order.
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

/** Whom a server runs as, where it refuses to be root's. */
export interface User {
  uid: number;
  gid: number;
}

export class KeptProcess {
  readonly pid: number;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;

  private constructor(pid: number, ended: Promise<void>) {
    this.pid = pid;
    this.ended = ended;
  }

  /** What it says goes to the end of a file. */
  static async start(command: readonly string[], log: string, user: User | undefined): Promise<KeptProcess> {
    const output = openSync(log, "a");
    const child = spawn("sh", ["-c", keeper, "sh", ...command], { stdio: ["pipe", "pipe", output], ...user });
    closeSync(output);
    const { stdin, stdout } = child as ChildProcess & { stdin: Writable; stdout: Readable };
    const ended = once(child, "exit").then(() => void stdin.end());
    const [pid] = (await once(createInterface(stdout), "line")) as [string];
    return new KeptProcess(Number(pid), ended);
  }

  /** Sends it a signal, and waits until it is gone. */
  async end(signal: NodeJS.Signals): Promise<void> {
    try {
      process.kill(this.pid, signal);
    } catch {
      // It is gone already.
    }
    await this.ended;
  }
}

/** The user of this name, as root needs one; undefined for anybody else, who is himself. */
export function userFor(name: string): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (what: string) => Number(execFileSync("id", [what, name], { encoding: "utf8" }));
  return { uid: idOf("-u"), gid: idOf("-g") };
}

/**
 * Ports of this machine that nobody uses now: none of those that connections go out by (from 32,768 on, on Linux), of which
 * one could have it when a server that was killed wants it again.
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
