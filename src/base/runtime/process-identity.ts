/** Identifies this process to the others on its host, and tells whether another process has ended. */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { ProcessIdentity } from "../../store.ts";

/** `dead` is certain. `unknown`: the process cannot be observed, or it exists but may hang; its heartbeat decides. */
export type Liveness = "dead" | "unknown";

let self: ProcessIdentity | undefined;

/** On Linux with boot id, pid namespace and start time, to recognise a reboot, another container and a reused pid. */
export function thisProcess(): ProcessIdentity {
  self ??= {
    host: hostname(),
    bootId: readOrNull(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    pidNamespace: readOrNull(() => readlinkSync("/proc/self/ns/pid")),
    pid: process.pid,
    processStart: statusOf(process.pid)?.start ?? null,
  };
  return self;
}

/** Whether the process of a row in `dbq_workers` has ended, as far as this process can observe it. */
export function livenessOf(other: ProcessIdentity): Liveness {
  if (!isVisible(other)) return "unknown";
  const status = statusOf(other.pid);
  // Without a status there is no such process, or /proc hides the processes of other users.
  if (status === undefined) return exists(other.pid) ? "unknown" : "dead";
  // A zombie has ended, and its parent has not read its exit status yet.
  if (status.state === "Z" || status.state === "X") return "dead";
  // A stopped process (SIGSTOP, a debugger) or a hung one exists; its heartbeat decides.
  return other.processStart !== null && other.processStart !== status.start ? "dead" : "unknown";
}

/** Whether this process can observe the other one while that exists. */
export function isVisible(other: ProcessIdentity): boolean {
  const here = thisProcess();
  // Another boot id means another machine with the same name, or this one before a reboot.
  return other.host === here.host && other.bootId === here.bootId && other.pidNamespace === here.pidNamespace;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** State and start time (in clock ticks since boot) of a process: fields 3 and 22 of proc_pid_stat(5). */
function statusOf(pid: number): { state: string; start: string } | undefined {
  const stat = readOrNull(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  if (stat === null) return undefined;
  // Field 2, the command, may contain spaces and brackets; the fields after its last bracket do not.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state, start] = [fields[0], fields[19]];
  return state === undefined || start === undefined ? undefined : { state, start };
}

function readOrNull(read: () => string): string | null {
  try {
    return read();
  } catch {
    return null;
  }
}
