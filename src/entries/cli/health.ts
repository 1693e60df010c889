/** What the database tells of its workers, and of tasks that nobody takes. For `stats` and `doctor`. */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { Diagnosis, Queue, TaskCount, WorkerRecord } from "../../index.ts";
import { type Cell, line, table } from "./output.ts";
import { shortened, span } from "./text.ts";

/** `dead`: its process, or its session on a server, has ended. `silent`: its last heartbeat is older than its lease. */
export type Liveness = "alive" | "silent" | "dead";

export type WorkerHealth = WorkerRecord & { liveness: Liveness };

async function workersOf(queue: Queue): Promise<WorkerHealth[]> {
  return (await queue.listWorkers()).map((worker) => ({ ...worker, liveness: livenessOf(worker) }));
}

function livenessOf(worker: WorkerRecord): Liveness {
  if (hasEnded(worker) || worker.sessionLives === false) return "dead";
  return worker.heartbeatAge > worker.lease ? "silent" : "alive";
}

/** Whether it can be seen from here that there is no such process. */
export function hasEnded({ host, bootId, pidNamespace, pid }: WorkerRecord): boolean {
  const here =
    host === hostname() &&
    bootId === quietly(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()) &&
    pidNamespace === quietly(() => readlinkSync("/proc/self/ns/pid"));
  if (!here) return false;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

function quietly(read: () => string): string | null {
  try {
    return read();
  } catch {
    return null;
  }
}

export function printWorkers(workers: readonly WorkerHealth[]): void {
  if (workers.length === 0) line("no worker is registered");
  else table(["WORKER", "QUEUES", "CONCURRENCY", "HEARTBEAT", ""], workers.map(workerRow));
}

function workerRow({ id, queueNames, concurrency, heartbeatAge, liveness }: WorkerHealth): Cell[] {
  const alive: Cell = { text: liveness, color: liveness === "alive" ? "green" : "red" };
  const queues = shortened(queueNames.join(","), 60);
  return [shortened(id, 80), queues, concurrency, `${span(heartbeatAge)} ago`, alive];
}

export interface Health {
  database: Diagnosis[];
  workers: WorkerHealth[];
  /** What a move has every writer be refused with; undefined: tasks can be taken. */
  sealed: string | undefined;
  untaken: Untaken[];
}

/** `names`: of the functions that modules register; undefined: no modules were given. */
export async function healthOf(queue: Queue, names: readonly string[] | undefined): Promise<Health> {
  const database = await queue.diagnose();
  const workers = await workersOf(queue);
  const sealed = sealOf(database);
  return { database, workers, sealed, untaken: await untakenOf(queue, workers, names, sealed) };
}

function sealOf(database: readonly Diagnosis[]): string | undefined {
  return database.find(({ name }) => name === "move")?.warning;
}

/** Tasks of one function in one queue that are not taken, and why not. */
export interface Untaken {
  func: string;
  queueName: string;
  tasks: number;
  /** Milliseconds that the longest of the newest ones has been pending; null where they are not due yet. */
  pendingFor: number | null;
  reason: string;
}

/** Milliseconds; a free worker takes a task within its poll interval, by default 1 s. */
const soon = 2_000;

/**
 * Finds the tasks that wait for something other than their turn. The database knows what a worker's queues are, not
 * which functions it has: with the `names` that modules register it is certain, without them it is concluded from
 * tasks that stay pending although a live worker of their queue has a free slot. While a move has the database `sealed`,
 * none: that is what they wait for.
 */
async function untakenOf(
  queue: Queue,
  workers: readonly WorkerHealth[],
  names: readonly string[] | undefined,
  sealed: string | undefined,
): Promise<Untaken[]> {
  if (sealed !== undefined) return [];
  const counts = await queue.listCounts({ status: ["pending", "scheduled", "running"] });
  const alive = workers.filter(({ liveness }) => liveness === "alive");
  const found: Untaken[] = [];
  for (const { func, queueName, status, count } of counts) {
    if (status === "running") continue;
    const unknown = names !== undefined && !names.includes(func);
    if (status === "scheduled" && !unknown) continue;
    const pendingFor = status === "pending" ? await longestPending(queue, func, queueName) : null;
    const reason = unknown
      ? "none of the given modules registers it"
      : reasonFor(queueName, pendingFor ?? 0, alive, counts);
    if (reason !== undefined) found.push({ func, queueName, tasks: count, pendingFor, reason });
  }
  return found;
}

function reasonFor(
  queueName: string,
  pendingFor: number,
  alive: readonly WorkerHealth[],
  counts: readonly TaskCount[],
): string | undefined {
  if (pendingFor < soon) return undefined;
  const serving = alive.filter(({ queueNames }) => queueNames.includes(queueName));
  if (serving.length === 0) return "no live worker serves its queue";
  if (freeSlots(serving, counts) <= 0) return undefined;
  const who = serving.length === 1 ? "the live worker" : `the ${serving.length} live workers`;
  return `${who} of its queue had a free slot and did not take it: probably none registers the function`;
}

/** At least this many: tasks of other workers in the same queues are counted as theirs. */
function freeSlots(workers: readonly WorkerHealth[], counts: readonly TaskCount[]): number {
  const queues = new Set(workers.flatMap(({ queueNames }) => queueNames));
  const slots = workers.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const running = counts.filter(({ status, queueName }) => status === "running" && queues.has(queueName));
  return slots - running.reduce((sum, { count }) => sum + count, 0);
}

/** Of the newest ones, which can be listed cheaply; what was written to run later counts from then on. */
async function longestPending(queue: Queue, func: string, queueName: string): Promise<number> {
  const newest = await queue.listTasks({ status: "pending", func, queueName, limit: 10 });
  const since = newest
    .map(({ updatedAt, waitUntil }) => Math.max(updatedAt.getTime(), waitUntil?.getTime() ?? 0))
    .filter((time) => !Number.isNaN(time));
  return since.length === 0 ? 0 : Math.max(0, Date.now() - Math.min(...since));
}

export function untakenText({ func, queueName, tasks, pendingFor, reason }: Untaken): string {
  const how = pendingFor === null ? "scheduled" : `pending for ${span(pendingFor)}`;
  return `${tasks} of ${shortened(func, 80)} in queue ${shortened(queueName, 80)}, ${how}: ${reason}`;
}
