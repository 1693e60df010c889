/** Whether a worker lives, and what tells it. */
import type { WorkerRecord } from "../../store.ts";

/**
 * `dead`: the failure detector would let a worker rescue its tasks now. `silent`: the worker shows no sign of life, but it
 * is not yet proven that it could have. `alive`: all else.
 */
export type Liveness = "alive" | "silent" | "dead";

/** Why a worker is not `alive`: what was seen of its process, of its database session, or of its heartbeat. */
export type LivenessReason = "process-ended" | "session-ended" | "lease-expired";

/** A registered worker, and whether it lives. */
export interface WorkerHealth extends WorkerRecord {
  /** Whether the worker lives, by the rule that rescues follow. */
  liveness: Liveness;
  /** `null` for a worker that is `alive`. */
  reason: LivenessReason | null;
}
