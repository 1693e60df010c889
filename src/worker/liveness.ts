/** The one rule that says whether a worker lives: for rescues, `dbq move`, `doctor` and `stats` alike. */
import { livenessOf } from "../base/runtime/process-identity.ts";
import { sleep } from "../base/runtime/timers.ts";
import type { LivenessReason, WorkerHealth } from "../base/tasks/worker-health.ts";
import type { WorkerRecord } from "../store.ts";
import { FailureDetector } from "./failure-detector.ts";

/** Milliseconds between looks at a worker whose session has ended. */
const shortestPause = 20;
const longestPause = 1_000;
/** The detector confirms the end of a session within two looks; a third one covers a timer that fires early. */
const mostLooks = 3;

/** A store's part that tells about workers. */
interface WorkerSource {
  workers(): Promise<WorkerRecord[]>;
  heartbeat(workerId: string): Promise<boolean>;
}

/** Whether a worker shows a sign of life: its session is open, as far as it has one, and its lease has not run out. */
export function showsLife({ sessionLives, heartbeatAge, lease }: WorkerRecord): boolean {
  return sessionLives !== false && heartbeatAge < lease;
}

/**
 * Asks the failure detector about every registered worker. Takes 0.3 s when a worker's session has ended: the worker may
 * be connecting again. Changes nothing.
 */
export async function checkWorkers(store: WorkerSource): Promise<WorkerHealth[]> {
  const detector = new FailureDetector();
  for (let looks = 1; ; looks++) {
    const workers = await store.workers();
    const dead = await findDead(detector, workers, store);
    const isDead = (worker: WorkerRecord) => dead?.includes(worker) ?? livenessOf(worker) === "dead";
    const isOpen = workers.some((worker) => worker.sessionLives === false && !isDead(worker));
    if (!isOpen || dead === undefined || looks === mostLooks)
      return workers.map((worker) => healthOf(worker, isDead(worker)));
    await sleep(Math.max(shortestPause, Math.min(detector.nextLook, longestPause)));
  }
}

/** What one look shows of every registered worker, without a write and without waiting. */
export async function lookAtWorkers(store: Pick<WorkerSource, "workers">): Promise<WorkerHealth[]> {
  const workers = await store.workers();
  return workers.map((worker) => healthOf(worker, livenessOf(worker) === "dead"));
}

/**
 * The detector confirms a suspicion only when a write succeeds. A heartbeat of no worker is a write that changes nothing.
 * @returns `undefined` when the write fails, as it does for a database user without the right to it
 */
async function findDead(
  detector: FailureDetector,
  workers: readonly WorkerRecord[],
  store: WorkerSource,
): Promise<WorkerRecord[] | undefined> {
  try {
    return await detector.findDead(workers, () => store.heartbeat(""));
  } catch {
    return undefined;
  }
}

function healthOf(worker: WorkerRecord, isDead: boolean): WorkerHealth {
  if (!isDead && showsLife(worker)) return { ...worker, liveness: "alive", reason: null };
  return { ...worker, liveness: isDead ? "dead" : "silent", reason: reasonOf(worker) };
}

function reasonOf(worker: WorkerRecord): LivenessReason {
  if (livenessOf(worker) === "dead") return "process-ended";
  return worker.sessionLives === false ? "session-ended" : "lease-expired";
}
