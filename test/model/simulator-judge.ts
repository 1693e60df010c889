/** Watches a simulation, and records each broken promise. */

import { isCrashSensitive } from "../../src/base/tasks/crash-sensitive.ts";
import type { Outcome, SettleAndClaim, SettleAndClaimResult, StoredAttempt } from "../../src/store.ts";
import { isFinished, type TaskRecord } from "../../src/task.ts";
import type { Clock } from "./simulator-clock.ts";
import type { Process, Settled, Witness } from "./simulator-wire.ts";

/** The current rows. */
export interface Tables {
  tasks: readonly TaskRecord[];
  attempts: readonly StoredAttempt[];
  workers: readonly { id: string; concurrency: number }[];
}

/** A claim of one generation, and what happened to it. */
interface Run {
  task: TaskRecord;
  started: boolean;
  /** Whether the handler only waits for its signal. */
  waits: boolean;
  /** How the handler ended, if it has. */
  ended?: "returned" | "threw" | "snoozed" | "cancelled";
  accepted: Outcome["kind"][];
}

const keyOf = ({ id, generationId }: { id: number; generationId: number }) => `${id}:${generationId}`;

export class Judge implements Witness {
  /** The broken promises, in words. */
  readonly verdicts: string[] = [];
  /** The acknowledged tasks. */
  readonly acknowledged = new Set<number>();
  /** The tasks that an operator has asked to cancel. */
  readonly cancelled = new Set<number>();
  /** The tasks whose handlers have seen the abort signal. */
  readonly aborted = new Set<number>();
  /** The workers that have been asked to stop. */
  readonly stopping = new Set<string>();
  /** Whether tasks of the queue "aside" may be deleted. */
  purged = false;
  /** Whether a worker sends heartbeats, so that it must not be rescued. */
  beats: (workerId: string) => boolean = () => false;
  /** The number of unfinished rows. */
  unfinished = 0;
  readonly #clock: Clock;
  readonly #read: () => Tables;
  readonly #runs = new Map<string, Run>();
  #last = new Map<number, TaskRecord>();
  /** When a task was seen to have ended. */
  readonly #endedAt = new Map<number, number>();
  #charges = new Map<number, number>();

  constructor(clock: Clock, read: () => Tables) {
    this.#clock = clock;
    this.#read = read;
  }

  /** Records a broken promise unless the condition holds. */
  must(holds: boolean, verdict: () => string): void {
    if (holds) return;
    const text = verdict();
    this.verdicts.push(text);
    this.#clock.note(`BROKEN PROMISE: ${text}`, "judge");
  }

  // ---- calls that take effect ----------------------------------------------------------------

  tookEffect(process: Process, method: string, args: readonly unknown[], answer: unknown): void {
    if (isNothing(method, answer)) return;
    this.#clock.note(() => `  ${method} ${callText(method, args, answer)}`, process.name);
    if (method === "settleAndClaim") this.#turned(args[0] as SettleAndClaim, answer as SettleAndClaimResult);
    if (method === "transaction")
      for (const { outcome, accepted } of args as Settled[]) if (accepted) this.#accepted(outcome);
    if (method === "rescue") this.#rescued(String(args[0]));
    this.#look(method);
  }

  #rescued(workerId: string): void {
    const removed = !this.registered().includes(workerId);
    this.must(
      !removed || !this.beats(workerId),
      () => `worker ${workerId} sends heartbeats, and was rescued`,
    );
  }

  #turned({ outcomes }: SettleAndClaim, { settled, claimed }: SettleAndClaimResult): void {
    for (const [i, outcome] of outcomes.entries()) if (settled[i]) this.#accepted(outcome);
    for (const task of claimed) {
      const key = keyOf(task);
      this.must(!this.#runs.has(key), () => `generation ${key} was claimed twice`);
      this.#runs.set(key, { task, started: false, waits: false, accepted: [] });
    }
  }

  #accepted(outcome: Outcome): void {
    const key = keyOf(outcome);
    const run = this.#runs.get(key);
    run?.accepted.push(outcome.kind);
    this.must(
      run?.accepted.length === 1,
      () => `generation ${key} has ended as ${run?.accepted.join(" and ")}`,
    );
    if (run) this.must(isEarned(run, outcome), () => `generation ${key} is ${outcome.kind}: ${run.ended}`);
  }

  // ---- handlers ------------------------------------------------------------------------------

  started(held: { id: number; generationId: number }, waits: boolean): void {
    const key = keyOf(held);
    const run = this.#runs.get(key);
    this.must(run !== undefined, () => `generation ${key} runs without a claim`);
    this.must(run?.started !== true, () => `generation ${key} started twice`);
    if (!run) return;
    run.started = true;
    run.waits = waits;
    this.must(
      !this.stopping.has(run.task.workerId ?? ""),
      () => `generation ${key} was started by a stopping worker`,
    );
  }

  ended(held: { id: number; generationId: number }, how: NonNullable<Run["ended"]>): void {
    const run = this.#runs.get(keyOf(held));
    if (run) run.ended = how;
  }

  // ---- the rows ------------------------------------------------------------------------------

  #isRunning(task: TaskRecord): boolean {
    const run = this.#runs.get(keyOf(task));
    return run?.started === true && run.ended === undefined;
  }

  #look(method: string): void {
    const { tasks, attempts, workers } = this.#read();
    for (const { id, concurrency } of workers) {
      const held = tasks.filter(({ status, workerId }) => status === "running" && workerId === id);
      const runs = held.filter((task) => this.#isRunning(task)).length;
      this.must(runs <= concurrency, () => `worker ${id} runs ${runs} tasks, and has ${concurrency} slots`);
      const crashSensitive = held.filter(isCrashSensitive).length;
      this.must(
        crashSensitive <= concurrency,
        () => `worker ${id} holds ${crashSensitive} crash-sensitive tasks, more than it has slots`,
      );
    }
    const charges = charged(attempts);
    const now = new Map(tasks.map((task) => [task.id, task]));
    for (const task of tasks) {
      const before = this.#last.get(task.id);
      if (before === task) continue;
      if (before)
        this.#moved(before, task, method, (charges.get(task.id) ?? 0) - (this.#charges.get(task.id) ?? 0));
      this.#stands(task);
    }
    for (const [id, task] of this.#last) if (!now.has(id)) this.#deleted(task);
    this.#last = now;
    this.#charges = charges;
    this.unfinished = tasks.filter(({ status }) => !isFinished(status)).length;
    const keys = tasks.filter(({ uniqueKey, status }) => uniqueKey !== null && !isFinished(status));
    const different = new Set(keys.map(({ uniqueKey }) => uniqueKey));
    this.must(different.size === keys.length, () => "two unfinished tasks hold the same unique key");
  }

  #moved(before: TaskRecord, task: TaskRecord, method: string, newCharges: number): void {
    const grown = task.generationId - before.generationId;
    const same = grown === 0 && task.status === before.status;
    this.must(grown > 0 || same, () => `task ${task.id} went from ${stateOf(before)} to ${stateOf(task)}`);
    if (method === "retry") return;
    // The last failure of a task is an attempt, but not a retry.
    const last = task.status === "failed" && before.status !== "failed" ? 1 : 0;
    const retries = task.retryCount - before.retryCount;
    this.must(
      retries === newCharges - last,
      () => `task ${task.id}: ${newCharges} attempts were charged ${retries} retries: ${stateOf(task)}`,
    );
  }

  /** How many milliseconds ago a task ended; negative when it has not. */
  endedFor(id: number): number {
    return this.#clock.now - (this.#endedAt.get(id) ?? Number.POSITIVE_INFINITY);
  }

  #stands(task: TaskRecord): void {
    if (!isFinished(task.status)) this.#endedAt.delete(task.id);
    else if (!this.#endedAt.has(task.id)) this.#endedAt.set(task.id, this.#clock.now);
    const { id, retryCount, maxRetries, status, workerId } = task;
    this.must(retryCount <= maxRetries, () => `task ${id} has ${retryCount} of ${maxRetries} retries`);
    this.must(status !== "failed" || retryCount === maxRetries, () => `task ${id} failed with retries left`);
    this.must(status !== "running" || workerId !== null, () => `task ${id} is running without a worker`);
    this.must(
      status !== "cancelled" || this.#wasCancelled(task),
      () => `task ${id} is cancelled without a request`,
    );
  }

  #wasCancelled({ id, generationId }: TaskRecord): boolean {
    const run = this.#runs.get(keyOf({ id, generationId: generationId - 1 }));
    return this.cancelled.has(id) || run?.ended === "cancelled";
  }

  #deleted({ id, queueName }: TaskRecord): void {
    this.must(this.purged && queueName === "aside", () => `task ${id} was deleted without a request`);
  }

  /** The running tasks of these workers. */
  heldBy(workerIds: readonly string[]): readonly TaskRecord[] {
    const isHeld = ({ status, workerId }: TaskRecord) =>
      status === "running" && workerIds.includes(workerId ?? "");
    return this.#read().tasks.filter(isHeld);
  }

  /** The workers that have a row. */
  registered(): string[] {
    return this.#read().workers.map(({ id }) => id);
  }

  /** At the end: every acknowledged task exists and has ended, and no worker is left. */
  conclude(): void {
    this.#look("the end");
    const { tasks, workers } = this.#read();
    for (const task of tasks)
      this.must(isFinished(task.status), () => `task ${task.id} has never ended: ${stateOf(task)}`);
    const there = new Set(tasks.map(({ id }) => id));
    for (const id of this.acknowledged)
      this.must(this.purged || there.has(id), () => `task ${id} was acknowledged, and does not exist`);
    this.must(
      workers.length === 0,
      () => `workers are left behind: ${workers.map(({ id }) => id).join(", ")}`,
    );
  }
}

/** Whether the handler ended as the outcome says. A handler that timed out need not have ended. */
function isEarned({ ended, waits, task }: Run, outcome: Outcome): boolean {
  switch (outcome.kind) {
    case "completed":
      return ended === "returned";
    case "snoozed":
    case "cancelled":
      return ended === outcome.kind;
    case "interrupted":
      return true;
    default:
      return ended === "threw" || (task.timeout !== null && !waits && outcome.attempt?.outcome === "timeout");
  }
}

/** The number of charged attempts of each task. */
function charged(attempts: readonly StoredAttempt[]): Map<number, number> {
  const charges = new Map<number, number>();
  for (const { taskId, outcome } of attempts)
    if (outcome !== "cancelled") charges.set(taskId, (charges.get(taskId) ?? 0) + 1);
  return charges;
}

function stateOf({ status, generationId, workerId, retryCount }: TaskRecord): string {
  return `${status} (generation ${generationId}, worker ${workerId}, ${retryCount} retries)`;
}

/** Most calls find nothing to do. */
function isNothing(method: string, answer: unknown): boolean {
  if (method === "promote") return (answer as { promoted: number }).promoted === 0;
  if (method !== "settleAndClaim") return (answer === 0 && method !== "rescue") || looks.includes(method);
  const { settled, claimed, registered } = answer as SettleAndClaimResult;
  return settled.length === 0 && claimed.length === 0 && registered;
}

const looks = [
  "heartbeat",
  "workers",
  "idle",
  "findEnded",
  "heldBy",
  "taskStates",
  "get",
  "attempts",
  "count",
];

/** A call as a line of the trace. */
function callText(method: string, args: readonly unknown[], answer: unknown): string {
  if (method !== "settleAndClaim")
    return `${JSON.stringify(args)} -> ${JSON.stringify(answer)}`.slice(0, 300);
  const { outcomes, claim } = args[0] as SettleAndClaim;
  const { settled, claimed, registered } = answer as SettleAndClaimResult;
  const ends = outcomes.map((one, i) => `${keyOf(one)} ${one.kind}${settled[i] ? "" : " (refused)"}`);
  const gone = registered ? "" : " (its row is gone)";
  const limit = claim ? ` claims up to ${claim.limit}:` : "";
  return `settles [${ends.join(", ")}]${limit} [${claimed.map(keyOf).join(", ")}]${gone}`;
}
