/** Finds what is wrong in the facts of one look. Each kind of cause is one function of the facts. */
import { roughSpan } from "../../base/text/durations.ts";
import { groupBy } from "../../base/values/group-by.ts";
import type { LimitInfo } from "../limits/methods.ts";
import { type CrashedAttempt, isFrozen } from "./contract.ts";
import { dateAt, type Facts, type Found, keyOf, tasksWait } from "./facts.ts";
import { held } from "./limits.ts";
import { type Cause, causeSeverities } from "./methods.ts";
import {
  advised,
  cancelHung,
  cancelPile,
  endPiling,
  lookAtAttempts,
  lookAtDatabase,
  lookAtHost,
  lookForReasons,
  pauseFunction,
  resumeRepaired,
  thaw,
} from "./repairs.ts";
import { behind, starved } from "./waiting.ts";

/** Attempts of a function from which it is known how long one usually takes. */
const enoughAttempts = 20;

export function causesIn(facts: Facts): Cause[] {
  const kinds = [database, frozen, unserved, failing, crashing, hung, behind, starved, piling, held];
  const found = kinds.flatMap((kind) => kind(facts));
  return found.map((cause) => ({ ...cause, severity: causeSeverities[cause.kind] })).sort(worstFirst);
}

/** Critical ones first; of the same severity those that hold up more tasks, then the older ones. */
const worstFirst = (a: Cause, b: Cause): number =>
  Number(b.severity === "critical") - Number(a.severity === "critical") ||
  (b.tasks ?? 0) - (a.tasks ?? 0) ||
  a.since.getTime() - b.since.getTime() ||
  Number(a.key > b.key) - Number(a.key < b.key);

// ---- the database ------------------------------------------------------------------------------

function database({ database: facts, now }: Facts): Found[] {
  return facts.flatMap(({ name, warning }) =>
    warning === undefined
      ? []
      : [
          {
            key: keyOf("database", name),
            kind: "database",
            since: dateAt(now),
            why: `${name}: ${warning}`,
            fix: lookAtDatabase,
          },
        ],
  );
}

// ---- workers -----------------------------------------------------------------------------------

function frozen({ health, thresholds }: Facts): Found[] {
  const silent = health.workers.filter((worker) => isFrozen(worker, thresholds.frozenShare));
  return silent.map(({ id, host, pid, heartbeatAt, heartbeatAge, lease }) => ({
    key: keyOf("frozen", id),
    kind: "frozen",
    since: dateAt(heartbeatAt),
    workerId: id,
    why: `worker ${id} on ${host} has sent no heartbeat for ${roughSpan(heartbeatAge)}: its tasks are rescued after ${roughSpan(lease)} without one`,
    fix: thaw({ host, pid }),
  }));
}

function unserved({ health, backlog, thresholds, now }: Facts): Found[] {
  const isBound = (func: string, queueName: string) =>
    backlog.some((one) => one.more && one.func === func && one.queueName === queueName);
  return health.unservedFunctions.flatMap(({ func, queueName, tasks, pendingFor, reason, advice }) =>
    pendingFor === null || pendingFor < thresholds.unservedAfter
      ? []
      : [
          {
            key: keyOf("unserved", queueName, func),
            kind: "unserved",
            since: dateAt(now - pendingFor),
            queueName,
            func,
            tasks,
            oldestAge: pendingFor,
            why: `${tasksWait(tasks, ` of ${func} in the queue ${queueName}`, isBound(func, queueName))} for ${roughSpan(pendingFor)}: ${reason}`,
            fix: advised(advice),
          },
        ],
  );
}

// ---- functions ---------------------------------------------------------------------------------

function failing({ recent, limits, thresholds, now }: Facts): Found[] {
  const byFunc = new Map<string, { count: number; failed: number }>();
  for (const { func, count, failed } of recent) {
    const sum = byFunc.get(func) ?? { count: 0, failed: 0 };
    byFunc.set(func, { count: sum.count + count, failed: sum.failed + failed });
  }
  const { failingAttempts, failingShare, failingWithin } = thresholds;
  return [...byFunc]
    .filter(([, { count, failed }]) => count >= failingAttempts && failed >= failingShare * count)
    .map(([func, { count, failed }]) => ({
      key: keyOf("failing", func),
      kind: "failing",
      since: dateAt(now - failingWithin),
      func,
      ...untilPaused(
        func,
        `${failed} of the last ${count} attempts of ${func} have failed, within ${roughSpan(failingWithin)}`,
        lookForReasons(func),
        limits,
      ),
    }));
}

/** A function that is paused already needs no second pause. @param advice where to look for the reason */
function untilPaused(
  func: string,
  why: string,
  advice: string,
  limits: readonly LimitInfo[],
): Pick<Found, "why" | "fix"> {
  return limits.some(({ target, pausedAt }) => pausedAt !== null && isWhole(target, func))
    ? { why: `${why}; it is paused now`, fix: resumeRepaired(func, advice) }
    : { why, fix: pauseFunction(func, advice) };
}

/** The function itself, and not one of its groups. */
const isWhole = (target: LimitInfo["target"], func: string): boolean =>
  typeof target !== "string" && "func" in target && target.func === func && target.group === undefined;

/** Functions whose attempts end their process. Where none does so again and again, hosts on which workers die. */
function crashing({ crashes, limits, thresholds, now }: Facts): Found[] {
  const within = roughSpan(thresholds.crashingWithin);
  const dying = (of: "func" | "host", subjectOf: (crash: CrashedAttempt) => string | undefined) =>
    [...groupBy(crashes, subjectOf)].flatMap(([name, own]) => {
      const died = new Set(own.map(({ workerId }) => workerId)).size;
      if (name === undefined || died < thresholds.crashingWorkers) return [];
      const since = dateAt(now - Math.max(...own.map(({ age }) => age)));
      const { taskId } = own[0] as CrashedAttempt;
      return [
        { name, died, taskId, cause: { key: keyOf("crashing", of, name), kind: "crashing" as const, since } },
      ];
    });
  const functions = dying("func", ({ func }) => func).map(({ name, died, taskId, cause }) => ({
    ...cause,
    func: name,
    ...untilPaused(
      name,
      `${workers(died)} died within ${within} while ${died === 1 ? "it" : "they"} ran ${name}`,
      lookAtAttempts(taskId),
      limits,
    ),
  }));
  if (functions.length > 0) return functions;
  return dying("host", ({ workerId }) => hostOf(workerId)).map(({ name, died, cause }) => ({
    ...cause,
    host: name,
    why: `${workers(died)} on the host ${name} died within ${within}, and no function is common to them`,
    fix: lookAtHost,
  }));
}

const workers = (count: number): string => (count === 1 ? "1 worker" : `${count} workers`);

/** The id of a worker ends with its process and a random text. */
const hostOf = (workerId: string): string | undefined => /^(.+):\d+:[^:]*$/.exec(workerId)?.[1];

function hung({ running, usual, thresholds, now }: Facts): Found[] {
  const { hungAfter, hungFactor } = thresholds;
  return running.flatMap(({ taskId, func, queueName, age, timeout }): Found[] => {
    const stats = usual.find((each) => each.func === func && each.queueName === queueName);
    const usually = (stats?.count ?? 0) < enoughAttempts ? null : (stats?.run.p95 ?? null);
    const isLate = timeout !== null && age > timeout + hungAfter;
    const isLong = usually !== null && age > hungFactor * usually && age > hungAfter;
    if (!isLate && !isLong) return [];
    const than = isLate
      ? `its timeout is ${roughSpan(timeout)}`
      : `95 % of the attempts of the last hour took ${roughSpan(usually ?? 0)} at most`;
    return [
      {
        key: keyOf("hung", String(taskId)),
        kind: "hung",
        since: dateAt(now - age),
        queueName,
        func,
        taskId,
        why: `task ${taskId} (${func}) has run for ${roughSpan(age)}: ${than}`,
        fix: cancelHung(taskId),
      },
    ];
  });
}

// ---- schedules -------------------------------------------------------------------------------

function piling({ piles, now }: Facts): Found[] {
  return piles.map((pile) => ({
    key: keyOf("piling", pile.schedule),
    kind: "piling",
    since: dateAt(now - pile.oldestAge),
    schedule: pile.schedule,
    tasks: pile.unfinished,
    oldestAge: pile.oldestAge,
    why: `the schedule ${pile.schedule} has ${pile.unfinished} unfinished ${pile.unfinished === 1 ? "task" : "tasks"}, the oldest for ${roughSpan(pile.oldestAge)}`,
    fix: endPiling(pile),
    otherFix: cancelPile(pile),
  }));
}
