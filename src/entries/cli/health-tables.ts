/** The health of a queue as text, for `stats`, `doctor`, `top` and `causes`. */
import type { Cause, DrainLag, LimitInfo, LimitTarget, UnclaimedTasks, WorkerHealth } from "../../index.ts";
import { type Cell, type Color, line, sentence, table } from "./output.ts";
import { shortened, span, typedDuration } from "./text.ts";

export function printWorkers(workers: readonly WorkerHealth[]): void {
  if (workers.length === 0) line("no worker is registered");
  else table(["WORKER", "QUEUES", "CONCURRENCY", "HEARTBEAT", ""], workers.map(workerRow));
}

function workerRow({ id, queueNames, concurrency, heartbeatAge, liveness }: WorkerHealth): Cell[] {
  const alive: Cell = { text: liveness, color: liveness === "alive" ? "green" : "red" };
  const queues = shortened(queueNames.join(","), 60);
  return [shortened(id, 80), queues, concurrency, `${span(heartbeatAge)} ago`, alive];
}

/** The problem with a worker; `undefined` for a worker that is alive. */
export function workerProblem({
  id,
  liveness,
  reason,
  heartbeatAge,
  lease,
}: WorkerHealth): string | undefined {
  if (reason === null) return undefined;
  const why = {
    "process-ended": "its process has ended",
    "session-ended": "its database session has ended",
    "lease-expired": `its last heartbeat was ${span(heartbeatAge)} ago, its lease is ${span(lease)}`,
  };
  return `worker ${id} is ${liveness}: ${why[reason]}; the next live worker on this database frees its tasks`;
}

/** The lag of each drain, after an empty line; nothing where there is none. */
export function printDrains(drains: readonly DrainLag[]): void {
  if (drains.length === 0) return;
  line("");
  table(["DRAINED QUEUE", "UNSENT", "OLDEST", ""], drains.map(drainRow));
}

function drainRow({ queueName, unsent, oldestUnsentAge, active }: DrainLag): Cell[] {
  const who: Cell = active ? { text: "carried", color: "green" } : { text: "no drain", color: "red" };
  const age = oldestUnsentAge === null ? "" : `${span(oldestUnsentAge)} ago`;
  return [shortened(queueName, 60), unsent, age, who];
}

/** The same after an empty line; nothing where there is none. */
export function printLimitsOf(limits: readonly LimitInfo[]): void {
  if (limits.length === 0) return;
  line("");
  printLimits(limits);
}

export const limitHeadings: readonly string[] = [
  "LIMIT OF",
  "CONCURRENCY",
  "RATE",
  "RUNNING",
  "WAITING",
  "PUT OFF",
  "",
];

/** Limits, pauses and throttles. */
export function printLimits(limits: readonly LimitInfo[]): void {
  table(limitHeadings, limitRows(limits));
}

/** A row for each limit. The row of a limit in code says so, and whether a limit of the database replaces it. */
export function limitRows(limits: readonly LimitInfo[]): Cell[][] {
  const set = limits.filter(({ fromCode, concurrency, rate }) => !fromCode && (concurrency ?? rate) !== null);
  const replacing = new Set(set.map(({ target }) => targetKey(target)));
  return limits.map((limit) => limitRow(limit, replacing.has(targetKey(limit.target))));
}

const targetKey = (target: LimitTarget) =>
  JSON.stringify(typeof target === "string" ? target : Object.entries(target).sort());

function limitRow(limit: LimitInfo, isReplaced: boolean): Cell[] {
  const { target, fromCode, concurrency, rate, running, waiting, putOff, hasGroups } = limit;
  const { nextFreeAt, pausedAt, putOffSince } = limit;
  const each = hasGroups ? " each group" : "";
  const speed = rate === null ? "" : `${rateText(rate)}${each}`;
  const atOnce = concurrency === null ? "" : `${concurrency}${each}`;
  const states = [
    fromCode ? ["from code"] : [],
    fromCode && isReplaced ? ["replaced"] : [],
    pausedAt === null ? [] : [`paused since ${pausedAt.toISOString()}`],
    pausedAt !== null || nextFreeAt === null ? [] : [`next start ${nextFreeAt.toISOString()}`],
    putOffSince === null ? [] : [`put off since ${putOffSince.toISOString()}`],
  ].flat();
  const state: Cell = pausedAt === null ? states.join(", ") : { text: states.join(", "), color: "yellow" };
  return [targetText(target), atOnce, speed, running, waiting ?? "", putOff ?? "", state];
}

/** A rate as it is typed. */
export function rateText({ limit, per, burst }: NonNullable<LimitInfo["rate"]>): string {
  return `${limit}/${typedDuration(per)}${burst === 1 ? "" : ` (burst ${burst})`}`;
}

/** What a limit or a pause is about. */
export function targetText(target: LimitTarget): string {
  if (typeof target === "string") return `name ${shortened(target, 60)}`;
  if ("queueName" in target) return `queue ${shortened(target.queueName, 60)}`;
  const group = target.group === undefined ? "" : `, group ${shortened(target.group, 60)}`;
  return `function ${shortened(target.func, 60)}${group}`;
}

/** A shared name that the database has learnt from tasks. */
export const unsetNameText = (name: string): string =>
  `tasks use the limit by the name ${JSON.stringify(shortened(name, 80))}, which nobody has set: it may be misspelt; dbq limit sets one`;

export function unclaimedText({ func, queueName, tasks, pendingFor, reason }: UnclaimedTasks): string {
  const how = pendingFor === null ? "scheduled" : `pending for ${span(pendingFor)}`;
  return `${tasks} of ${shortened(func, 80)} in queue ${shortened(queueName, 80)}, ${how}: ${reason}`;
}

/** The same, and what to do about it. */
export const unclaimedProblem = (tasks: UnclaimedTasks): string => `${unclaimedText(tasks)}; ${tasks.advice}`;

/** All causes, after an empty line; nothing where nothing is wrong. The kind is the word by which `--json` and the docs name it. */
export function printCauses(causes: readonly Cause[]): void {
  if (causes.length > 0) line("");
  for (const { severity, kind, why, fix } of causes) {
    sentence(severityCell(severity, `${severity} ${kind}:`), why);
    const repair = fix.command ?? fix.advice;
    if (repair !== null) line(`  ${repair}`);
  }
}

export const severityCell = (severity: Cause["severity"], text: string): { text: string; color: Color } => ({
  ...{ text, color: severity === "critical" ? "red" : "yellow" },
});

/** Why, and below it the repairs: a command stands alone on its line, so that it can be copied. */
export function printCause({ severity, why, fix, otherFix }: Cause): void {
  sentence(severityCell(severity, `${severity}:`), why);
  for (const { command, advice } of otherFix === undefined ? [fix] : [fix, otherFix]) {
    if (command !== null) line(`  ${command}`);
    if (advice !== null) line(`  ${advice}`);
  }
}
