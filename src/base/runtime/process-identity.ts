/** Who this process is to others on its host, and whether another one is still alive. */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { ProcessIdentity } from "../../store.ts";

/** `dead` is certain. `unknown`: it cannot be seen, or it is there but may hang; its heartbeat has to tell. */
export type Liveness = "dead" | "unknown";

let self: ProcessIdentity | undefined;

/** On Linux: boot id, pid namespace and start time, so that neither a reboot, nor a container, nor a reused pid deceives. */
export function thisProcess(): ProcessIdentity {
  self ??= {
    host: hostname(),
    bootId: quietly(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    pidNamespace: quietly(() => readlinkSync("/proc/self/ns/pid")),
    pid: process.pid,
    processStart: statusOf(process.pid)?.start ?? null,
  };
  return self;
}

/** Whether the process behind a row of `dbq_workers` has ended, as far as it can be seen from this one. */
export function livenessOf(other: ProcessIdentity): Liveness {
  if (!isVisible(other)) return "unknown";
  const status = statusOf(other.pid);
  // No status: no such process, or a /proc that hides those of other users.
  if (status === undefined) return exists(other.pid) ? "unknown" : "dead";
  // A zombie has ended; only its parent has not asked yet.
  if (status.state === "Z" || status.state === "X") return "dead";
  // Stopped (SIGSTOP, a debugger) or hung is alive here; its heartbeat decides.
  return other.processStart !== null && other.processStart !== status.start ? "dead" : "unknown";
}

/** Whether this process can see the other one, if that lives. */
export function isVisible(other: ProcessIdentity): boolean {
  const here = thisProcess();
  // Another boot id is another machine of the same name, or this one before a reboot: it cannot be told which.
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
  const stat = quietly(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  if (stat === null) return undefined;
  // Field 2, the command, may itself hold spaces and brackets: what follows its last bracket is regular.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state, start] = [fields[0], fields[19]];
  return state === undefined || start === undefined ? undefined : { state, start };
}

function quietly(read: () => string): string | null {
  try {
    return read();
  } catch {
    return null;
  }
}
