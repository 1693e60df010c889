/** Finds what is wrong in the facts of one look. Each kind of cause is one function of the facts. */
import { roughSpan, typedDuration } from "../../base/text/durations.ts";
import { printable } from "../../base/text/escapes.ts";
import { groupBy } from "../../base/values/group-by.ts";
import type { LimitInfo } from "../limits/methods.ts";
import type { CrashedAttempt } from "./contract.ts";
import { dateAt, type Facts, type Found, keyOf, noFix, tasksWait } from "./facts.ts";
import { type Cause, type CauseAction, causeSeverities } from "./methods.ts";
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

/**
 * A name in a command for the shell. Characters that a terminal acts on, or that nobody sees, are escapes of `$'…'`, which
 * bash, zsh and ksh read: the command is printable, and still means the same name.
 */
function quoted(name: string): string {
  const shown = printable(name);
  if (shown !== name) return `$'${[...name].map(escapedForShell).join("")}'`;
  return /^[\w.@/-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
}

function escapedForShell(character: string): string {
  if (character === "'" || character === "\\") return `\\${character}`;
  if (printable(character) === character) return character;
  return [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
}

/** A name as an argument, which is no option although it may look like one. */
const argument = (name: string): string => `${name.startsWith("-") ? "-- " : ""}${quoted(name)}`;

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
            fix: { command: "dbq doctor", action: null },
          },
        ],
  );
}

// ---- workers -----------------------------------------------------------------------------------

function frozen({ health, thresholds }: Facts): Found[] {
  const silent = health.workers.filter(
    ({ liveness, heartbeatAge, lease }) =>
      liveness !== "dead" && heartbeatAge > thresholds.frozenShare * lease,
  );
  return silent.map(({ id, host, heartbeatAt, heartbeatAge, lease }) => ({
    key: keyOf("frozen", id),
    kind: "frozen",
    since: dateAt(heartbeatAt),
    workerId: id,
    why: `worker ${id} on ${host} has sent no heartbeat for ${roughSpan(heartbeatAge)}: its tasks are rescued after ${roughSpan(lease)} without one`,
    fix: noFix,
  }));
}

function unserved({ health, backlog, thresholds, now }: Facts): Found[] {
  const isBound = (func: string, queueName: string) =>
    backlog.some((one) => one.more && one.func === func && one.queueName === queueName);
  return health.unservedFunctions.flatMap(({ func, queueName, tasks, pendingFor, reason }) =>
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
            fix: noFix,
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
        limits,
      ),
    }));
}

/** A function that does harm is paused while somebody looks for the reason. One that is paused already needs no second pause. */
function untilPaused(func: string, why: string, limits: readonly LimitInfo[]): Pick<Found, "why" | "fix"> {
  if (limits.some(({ target, pausedAt }) => pausedAt !== null && isWhole(target, func)))
    return { why: `${why}; it is paused now`, fix: noFix };
  return {
    why,
    fix: {
      command: `dbq pause --func ${quoted(func)}`,
      action: { on: "functions", action: "pause", fields: { name: func } },
    },
  };
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
      return [{ name, died, cause: { key: keyOf("crashing", of, name), kind: "crashing" as const, since } }];
    });
  const functions = dying("func", ({ func }) => func).map(({ name, died, cause }) => ({
    ...cause,
    func: name,
    ...untilPaused(
      name,
      `${workers(died)} died within ${within} while ${died === 1 ? "it" : "they"} ran ${name}`,
      limits,
    ),
  }));
  if (functions.length > 0) return functions;
  return dying("host", ({ workerId }) => hostOf(workerId)).map(({ name, died, cause }) => ({
    ...cause,
    host: name,
    why: `${workers(died)} on the host ${name} died within ${within}, and no function is common to them: look at its memory and its log`,
    fix: noFix,
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
        fix: {
          command: `dbq cancel ${taskId}`,
          action: { on: "tasks", action: "cancel", fields: { id: String(taskId) } },
        },
      },
    ];
  });
}

// ---- schedules, limits, pauses -----------------------------------------------------------------

function piling({ piles, now }: Facts): Found[] {
  return piles.map(({ schedule, overlaps, unfinished, oldestAge }) => ({
    key: keyOf("piling", schedule),
    kind: "piling",
    since: dateAt(now - oldestAge),
    schedule,
    tasks: unfinished,
    oldestAge,
    why: `the schedule ${schedule} has ${unfinished} unfinished ${unfinished === 1 ? "task" : "tasks"}, the oldest for ${roughSpan(oldestAge)}`,
    // One that skips already has these tasks by hand, or by a backfill.
    fix: overlaps
      ? {
          command: `dbq schedule edit ${schedule.startsWith("-") ? `--overlap skip ${argument(schedule)}` : `${quoted(schedule)} --overlap skip`}`,
          action: { on: "schedules", action: "edit", fields: { name: schedule, overlap: "skip" } },
        }
      : {
          command: `dbq schedule pause ${argument(schedule)}`,
          action: { on: "schedules", action: "pause", fields: { name: schedule } },
        },
  }));
}

/** Limits and pauses that tasks have waited for too long. One that is paused is not also limited. */
function held(facts: Facts): Found[] {
  return facts.limits.flatMap((limit) => {
    const oldestAge = oldestOf(limit, facts);
    if (limit.pausedAt !== null) return paused(limit, limit.pausedAt, oldestAge, facts);
    return limited(limit, oldestAge, facts);
  });
}

/**
 * How long the longest waiting task that a limit is about has waited, in milliseconds; undefined: not known, since the ages of
 * pending tasks are those of functions, not of groups or of shared limits.
 */
function oldestOf({ target, putOffSince }: LimitInfo, { backlog, now }: Facts): number | undefined {
  const putOff = putOffSince === null ? [] : [now - putOffSince.getTime()];
  if (typeof target === "string" || ("func" in target && target.group !== undefined)) return putOff[0];
  const own = backlog.filter(({ queueName, func }) =>
    "queueName" in target ? target.queueName === queueName : target.func === func,
  );
  return Math.max(0, ...putOff, ...own.map(({ oldestPendingAge }) => oldestPendingAge ?? 0));
}

function paused(
  { target, waiting }: LimitInfo,
  pausedAt: Date,
  oldestAge: number | undefined,
  { thresholds, now }: Facts,
): Found[] {
  const since = now - pausedAt.getTime();
  const waited = Math.min(oldestAge ?? since, since);
  if (!waiting || waited < thresholds.pausedAfter) return [];
  const { subject, said, options, action } = about(target);
  return [
    {
      key: keyOf("paused", ...subjectKey(subject)),
      kind: "paused",
      since: pausedAt,
      ...subject,
      tasks: waiting,
      ...(oldestAge === undefined ? {} : { oldestAge }),
      why: `${said} is paused since ${pausedAt.toISOString()}, and ${tasksWait(waiting)}`,
      fix: {
        command: options === null ? null : `dbq resume ${options}`,
        action: action === null ? null : { ...action, action: "resume" },
      },
    },
  ];
}

function limited(
  { target, concurrency, running, waiting, putOff, nextFreeAt, rate }: LimitInfo,
  known: number | undefined,
  { thresholds, now }: Facts,
): Found[] {
  const oldestAge = known ?? 0;
  const isFull = concurrency !== null && running >= concurrency;
  const isUsedUp = nextFreeAt !== null || isFull;
  const tasks = (waiting ?? 0) + (putOff ?? 0);
  // What waits behind a rate starts at its pace: the last one after all others.
  const lastIn = rate === null ? 0 : (tasks / rate.limit) * rate.per;
  const isLong = Math.max(oldestAge, lastIn) >= thresholds.limitedAfter;
  if (tasks === 0 || !isLong || (!isUsedUp && lastIn < thresholds.limitedAfter)) return [];
  const { subject, said, options, fields } = about(target);
  const isPaced = rate !== null && (nextFreeAt !== null || lastIn >= thresholds.limitedAfter);
  // The command replaces the whole limit: what is not used up stays as it is.
  const values = [
    ...(concurrency === null ? [] : [`--concurrency ${isFull ? "N" : concurrency}`]),
    ...(rate === null ? [] : [`--rate ${isPaced ? "N" : rate.limit}/${typedDuration(rate.per)}`]),
    ...(rate === null || rate.burst === 1 ? [] : [`--burst ${rate.burst}`]),
  ];
  const name = typeof target === "string" ? [argument(target)] : [];
  // The action has twice of what is used up, which a person may change before.
  const raised = {
    ...(concurrency === null ? {} : { concurrency: String(isFull ? 2 * concurrency : concurrency) }),
    ...(rate === null ? {} : { rate: `${isPaced ? 2 * rate.limit : rate.limit}/${typedDuration(rate.per)}` }),
    ...(rate === null || rate.burst === 1 ? {} : { burst: String(rate.burst) }),
  };
  const pace = rate === null ? "" : `; at its rate the last one starts in ${roughSpan(lastIn)}`;
  return [
    {
      key: keyOf("limited", ...subjectKey(subject)),
      kind: "limited",
      since: dateAt(now - oldestAge),
      ...subject,
      tasks,
      ...(known === undefined ? {} : { oldestAge }),
      ...(nextFreeAt === null ? {} : { nextAt: nextFreeAt }),
      why: `${tasksWait(tasks)} for the limit of ${said}${known === undefined ? "" : `, the oldest for ${roughSpan(oldestAge)}`}${pace}`,
      fix: {
        command:
          values.length === 0
            ? null
            : ["dbq limit", ...(options === null ? [] : [options]), ...values, ...name].join(" "),
        action:
          values.length === 0 ? null : { on: "limits", action: "limit", fields: { ...fields, ...raised } },
      },
    },
  ];
}

interface About {
  subject: { queueName?: string; func?: string; group?: string; limit?: string };
  said: string;
  /** The options by which a command names it; `null`: the command has it as its argument. */
  options: string | null;
  action: Omit<CauseAction, "action"> | null;
  /** The fields by which the dashboard's action on limits names it. */
  fields: Record<string, string>;
}

/** A queue and a function may have the same name. */
const subjectKey = (subject: About["subject"]): string[] => Object.entries(subject).flat();

function about(target: LimitInfo["target"]): About {
  if (typeof target === "string")
    return {
      ...{ subject: { limit: target }, said: `the limit ${target}`, options: null, action: null },
      fields: { about: "name", name: target },
    };
  if ("queueName" in target) {
    const { queueName } = target;
    const action = { on: "queues", fields: { name: queueName } } as const;
    return {
      subject: { queueName },
      said: `the queue ${queueName}`,
      options: `--queue ${quoted(queueName)}`,
      action,
      fields: { about: "queue", name: queueName },
    };
  }
  const { func, group } = target;
  const ofGroup = group === undefined ? {} : { group };
  return {
    subject: { func, ...ofGroup },
    said: group === undefined ? `the function ${func}` : `the group ${group} of ${func}`,
    options: `--func ${quoted(func)}${group === undefined ? "" : ` --group ${quoted(group)}`}`,
    action: { on: "functions", fields: { name: func, ...ofGroup } },
    fields: { about: "func", name: func, ...ofGroup },
  };
}
