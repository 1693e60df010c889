/** Translates between the wire and an attempt: a claimed task into a record, an outcome into a request to a Manager. */
import type { LimitValues } from "../../../base/options/limits.ts";
import type { WithParts } from "../../../base/tasks/part.ts";
import type { LogLine, Outcome, TaskVersion } from "../../../store.ts";
import type { TaskRecord } from "../../../task.ts";
import { limitsAnswered, limitsAsked, type Sharing } from "../../limits/contract.ts";
import type { ClaimedTask, SettledTask, ToldLimit, ToldTask } from "../wire.ts";

/** @param workerId what the agent calls its session */
export function recordOf(task: ClaimedTask, workerId: string): TaskRecord {
  const { id, generation, func, retryCount, timeout, requestId, queueName, priority, createdAt, startedAt } =
    task;
  return {
    id,
    generationId: generation,
    func,
    args: JSON.stringify(task.args),
    kwargs: JSON.stringify(task.kwargs),
    meta: JSON.stringify(task.meta),
    traceContext: task.traceContext === null ? null : JSON.stringify(task.traceContext),
    retryCount,
    maxRetries: task.maxRetries,
    fillDefaults: task.fillDefaults ? 1 : 0,
    timeout,
    requestId,
    queueName,
    priority,
    createdAt,
    startedAt,
    updatedAt: startedAt ?? createdAt,
    workerId,
    status: "running",
    result: null,
    error: null,
    waitUntil: null,
    finishedAt: null,
    uniqueKey: null,
    uniqueUntil: null,
    scheduleName: task.schedule?.name ?? null,
    slot: task.schedule?.slot ?? null,
    progress: null,
    progressNote: null,
    groupKey: null,
    parentId: null,
    rootId: null,
    expiresAt: null,
  };
}

/** The row of a task that was cancelled while it ran. `reason`: undefined where the Manager is of an earlier version. */
export const cancelledOf = (record: TaskRecord, reason: string | undefined): TaskRecord => ({
  ...record,
  status: "cancelled",
  generationId: record.generationId + 1,
  error: reason === undefined ? null : JSON.stringify({ name: "TaskCancelled", message: reason }),
});

const parsed = (text: string): unknown => JSON.parse(text);

export function toldOf(outcome: Outcome): SettledTask {
  const version = { id: outcome.id, generation: outcome.generationId };
  switch (outcome.kind) {
    case "completed":
      return {
        ...version,
        status: "completed",
        ...(outcome.result === null ? {} : { result: parsed(outcome.result) }),
      };
    case "failed":
      return { ...version, status: "failed", error: parsed(outcome.error), retry: false };
    case "retry":
      return { ...version, status: "failed", error: parsed(outcome.error), retry: { delay: outcome.delay } };
    case "cancelled":
      return { ...version, status: "cancelled", error: parsed(outcome.error) };
    case "snoozed":
      return { ...version, status: outcome.throttled ? "throttled" : "snoozed", delay: outcome.delay };
    case "interrupted":
      return { ...version, status: "released" };
  }
}

/** The limits of functions, by their names. */
export function toldLimits(
  limits: readonly { func: string; values: LimitValues | null }[],
): Record<string, ToldLimit | null> {
  return Object.fromEntries(limits.map(({ func, values }) => [func, values && toldLimit(values)]));
}

function toldLimit({ concurrency, rate }: LimitValues): ToldLimit {
  return { ...(concurrency !== null && { concurrency }), ...(rate !== null && { rate }) };
}

/** What the agent's side of limits adds to a claim. */
export function toldAsk(asked: WithParts): { sharing?: Record<string, Sharing>; later?: number } {
  const { sharing, held } = limitsAsked.of(asked) ?? {};
  return {
    ...(sharing && { sharing: Object.fromEntries(sharing) }),
    ...(held !== undefined && { later: held }),
  };
}

/** What the Manager says of the tasks' turns, for the agent's side of limits. */
export function heardOf(tasks: readonly ClaimedTask[]): WithParts {
  const startsIn = new Map(
    tasks.flatMap(({ id, startsIn: wait }) => (wait === undefined ? [] : [[id, wait]])),
  );
  return startsIn.size === 0 ? {} : limitsAnswered.with({ startsIn });
}

const versionOf = ({ id, generationId }: TaskVersion) => ({ id, generation: generationId });

export function toldProgress(
  notes: readonly (TaskVersion & { progress: number; note: string | null })[],
): ToldTask[] {
  return notes.map(({ progress, note, ...task }) => ({ ...versionOf(task), progress, note }));
}

export function toldLines(lines: readonly LogLine[]): ToldTask[] {
  return lines.map(({ at, message, ...task }) => ({ ...versionOf(task), log: [{ at, message }] }));
}

export function toldDefaults(tasks: readonly (TaskVersion & { maxRetries: number })[]): ToldTask[] {
  return tasks.map(({ maxRetries, ...task }) => ({ ...versionOf(task), maxRetries }));
}
