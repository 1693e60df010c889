/**
 * What Managers and agents send each other: JSON over HTTP/1.1, described in `docs/manager-openapi.json`. Any language can speak
 * it, so each request is validated here.
 */
import { longestWait as longestDelay } from "../../base/options/durations.ts";
import type { LimitValues } from "../../base/options/limits.ts";
import { readLimit } from "../../base/options/limits.ts";
import {
  boolean,
  duration,
  integer,
  label,
  oneOf,
  type Reader,
  wrong,
} from "../../base/options/validators.ts";
import { longestLine } from "../../base/tasks/history.ts";
import { beginning } from "../../base/values/thrown.ts";
import type { TaskError, TaskRecord } from "../../task.ts";
import { longestNote } from "../../worker/task-context.ts";
import type { Sharing } from "../limits/contract.ts";

/** A task at one generation, as the wire names it. */
export interface Version {
  id: number;
  generation: number;
}

export interface ClaimBody {
  session: string;
  requestId: string;
  /** Tasks that the agent can start at once. */
  slots: number;
  /** Tasks to claim beyond them, which the agent starts as soon as others have ended. */
  ahead: number;
  funcs: readonly string[];
  /** Milliseconds. */
  wait: number;
  /** Bytes that the agent can hold of the tasks in the answer. */
  maxBytes: number | undefined;
  /** Attempts that have ended: they are settled in the same write. */
  settle: readonly SettledTask[];
  /** Tasks in the slots that may start a little later, at their turn at a rate; undefined: the agent waits for no turn. */
  later: number | undefined;
  /** How the tasks of these functions share; undefined: none of the functions has groups or shared limits. */
  sharing: ReadonlyMap<string, Sharing> | undefined;
}

/** The limit of a function, as the wire has it: at least one of both. */
export interface ToldLimit {
  concurrency?: number;
  /** `per`: milliseconds. */
  rate?: { limit: number; per: number; burst: number };
}

/** The limits of an agent's functions by its code. */
export interface LimitsBody {
  session: string;
  limits: readonly { func: string; values: LimitValues | null }[];
}

/** How one attempt ended. */
export type SettledTask = Version &
  (
    | { status: "completed"; result?: unknown }
    | {
        status: "failed";
        error?: unknown;
        /** False: no retry. With a delay in milliseconds: the retry comes after it, if the task has one left. */
        retry?: boolean | { delay: number };
      }
    | { status: "cancelled"; error?: unknown }
    | { status: "snoozed"; delay: number }
    /** Snoozed, and no task of its group, or without groups of its function, starts for that long. */
    | { status: "throttled"; delay: number }
    | { status: "released" }
  );

export interface SettleBody {
  session: string;
  tasks: readonly SettledTask[];
}

export interface BeatBody {
  session: string;
  running: readonly Version[];
}

/** What an agent tells of a task that runs. */
export interface ToldTask extends Version {
  progress?: number;
  note?: string | null;
  /** Lines that the task logged; `at`: milliseconds since 1970. */
  log?: readonly { at: number; message: string }[];
  /** For a task whose caller left `maxRetries` to the worker. */
  maxRetries?: number;
}

export interface ProgressBody {
  session: string;
  tasks: readonly ToldTask[];
}

/** A claimed task. `args`, `kwargs`, `meta` and `traceContext` are JSON, as they were enqueued. Times: milliseconds since 1970. */
export type ClaimedTask = Version &
  Pick<
    TaskRecord,
    | "func"
    | "retryCount"
    | "maxRetries"
    | "timeout"
    | "requestId"
    | "queueName"
    | "priority"
    | "createdAt"
    | "startedAt"
  > & {
    args: unknown[];
    kwargs: Record<string, unknown>;
    meta: Record<string, unknown>;
    traceContext: Record<string, unknown> | null;
    /** Whether the agent says, by `POST /v1/progress`, what `maxRetries` is. */
    fillDefaults: boolean;
    /** The schedule that made the task; `slot`: milliseconds since 1970. Absent for any other task. */
    schedule?: { name: string; slot: number | null };
    /** Milliseconds until the task is to start: its turn at a rate. Absent: at once. */
    startsIn?: number;
  };

export interface ClaimAnswer {
  tasks: ClaimedTask[];
  /** Of the attempts in `settle`. */
  settled?: number[];
  lost?: number[];
}

export interface SettleAnswer {
  settled: number[];
  lost: number[];
}

export interface BeatAnswer {
  cancel: number[];
  /** Why the tasks in `cancel` were cancelled, by their ids. Managers of earlier versions leave it out. */
  reasons?: Record<string, string>;
  lost: number[];
  quiet: boolean;
}

export interface ProgressAnswer {
  lost: number[];
}

/** Tasks in one request. */
const mostTasks = 10_000;
/** Milliseconds that a claim may wait. */
const longestWait = 60_000;

const object: Reader<Record<string, unknown>> = (value, name) => {
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw wrong(name, "an object", value);
};

const list =
  <T>(item: Reader<T>, most: number): Reader<T[]> =>
  (value, name) => {
    if (!Array.isArray(value)) throw wrong(name, "an array", value);
    if (value.length > most)
      throw new TypeError(`${name}: expected at most ${most} items, got ${value.length}`);
    return value.map((each, i) => item(each, `${name}[${i}]`));
  };

const session: Reader<string> = (value, name) => {
  if (typeof value === "string" && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(value))
    return value.toLowerCase();
  throw wrong(name, "a UUID", value);
};

const version = (given: Record<string, unknown>, name: string): Version => ({
  id: integer(Number.MIN_SAFE_INTEGER)(given.id, `${name}.id`),
  generation: integer(1)(given.generation, `${name}.generation`),
});

const delay = duration(longestDelay);

const statuses = oneOf("completed", "failed", "cancelled", "snoozed", "throttled", "released");

const settledTask: Reader<SettledTask> = (value, name) => {
  const given = object(value, name);
  const status = statuses(given.status, `${name}.status`);
  const task = version(given, name);
  switch (status) {
    case "completed":
      return { ...task, status, result: given.result };
    case "failed":
      return { ...task, status, error: given.error, ...retryOf(given.retry, `${name}.retry`) };
    case "cancelled":
      return { ...task, status, error: given.error };
    case "snoozed":
    case "throttled":
      return { ...task, status, delay: delay(given.delay, `${name}.delay`) };
    case "released":
      return { ...task, status };
  }
};

function retryOf(value: unknown, name: string): { retry?: boolean | { delay: number } } {
  if (value === undefined || value === null) return {};
  if (typeof value === "boolean") return { retry: boolean(value, name) };
  return { retry: { delay: delay(object(value, name).delay, `${name}.delay`) } };
}

/** Names of shared limits that one function may have. */
const mostUses = 100;

const sharingOf: Reader<Sharing> = (value, name) => {
  const { groups = false, uses = [] } = object(value, name);
  return {
    groups: boolean(groups, `${name}.groups`),
    uses: list(label, mostUses)(uses, `${name}.uses`),
  };
};

function sharingAmong(funcs: readonly string[], value: unknown): ReadonlyMap<string, Sharing> | undefined {
  if (value === undefined) return undefined;
  const named = new Set(funcs);
  const found = Object.entries(object(value, "sharing")).map(([func, of]) => {
    if (!named.has(func)) throw wrong("sharing", "functions that funcs has", func);
    return [func, sharingOf(of, `sharing[${JSON.stringify(func)}]`)] as const;
  });
  return found.length === 0 ? undefined : new Map(found);
}

/** The end of the year 9999, in milliseconds: MySQL stores no later time. */
const latestTime = 253_402_300_799_999;

const logLine: Reader<{ at: number; message: string }> = (value, name) => {
  const { at, message } = object(value, name);
  if (typeof message !== "string") throw wrong(`${name}.message`, "a string", message);
  return { at: integer(0, latestTime)(at, `${name}.at`), message: beginning(message, longestLine) };
};

const toldTask: Reader<ToldTask> = (value, name) => {
  const given = object(value, name);
  const { progress, note, log, maxRetries } = given;
  const told: ToldTask = version(given, name);
  if (progress !== undefined) {
    if (typeof progress !== "number" || !Number.isFinite(progress))
      throw wrong(`${name}.progress`, "a number", progress);
    if (note !== undefined && note !== null && typeof note !== "string")
      throw wrong(`${name}.note`, "a string or null", note);
    told.progress = progress;
    told.note = typeof note === "string" ? beginning(note, longestNote) : null;
  }
  if (log !== undefined) told.log = list(logLine, mostTasks)(log, `${name}.log`);
  if (maxRetries !== undefined) told.maxRetries = integer(0, 2_147_483_647)(maxRetries, `${name}.maxRetries`);
  return told;
};

/** @throws TypeError that names what is wrong */
export function readClaim(body: unknown): ClaimBody {
  const given = object(body, "the body");
  const ahead = integer(0)(given.ahead ?? 0, "ahead");
  const funcs = [...new Set(list(label, mostTasks)(given.funcs, "funcs"))];
  return {
    session: session(given.session, "session"),
    requestId: label(given.requestId, "requestId"),
    slots: integer(ahead > 0 ? 0 : 1)(given.slots, "slots"),
    ahead,
    funcs,
    wait: Math.min(duration()(given.wait ?? 0, "wait"), longestWait),
    maxBytes: given.maxBytes === undefined ? undefined : integer(1)(given.maxBytes, "maxBytes"),
    settle: list(settledTask, mostTasks)(given.settle ?? [], "settle"),
    later: given.later === undefined ? undefined : integer(0)(given.later, "later"),
    sharing: sharingAmong(funcs, given.sharing),
  };
}

/** @throws TypeError that names what is wrong */
export function readLimits(body: unknown): LimitsBody {
  const given = object(body, "the body");
  const named = Object.entries(object(given.limits, "limits"));
  if (named.length > mostTasks)
    throw new TypeError(`limits: expected at most ${mostTasks} functions, got ${named.length}`);
  return {
    session: session(given.session, "session"),
    limits: named.map(([name, value]) => {
      const func = label(name, "limits");
      return { func, values: value === null ? null : readLimit(value, `limits[${JSON.stringify(func)}]`) };
    }),
  };
}

/** @throws TypeError that names what is wrong */
export function readSettle(body: unknown): SettleBody {
  const given = object(body, "the body");
  return {
    session: session(given.session, "session"),
    tasks: list(settledTask, mostTasks)(given.tasks, "tasks"),
  };
}

/** @throws TypeError that names what is wrong */
export function readBeat(body: unknown): BeatBody {
  const given = object(body, "the body");
  const running: Reader<Version> = (value, name) => version(object(value, name), name);
  return {
    session: session(given.session, "session"),
    running: list(running, mostTasks)(given.running, "running"),
  };
}

/** @throws TypeError that names what is wrong */
export function readProgress(body: unknown): ProgressBody {
  const given = object(body, "the body");
  return {
    session: session(given.session, "session"),
    tasks: list(toldTask, mostTasks)(given.tasks, "tasks"),
  };
}

const text = (value: unknown, otherwise: string): string => (typeof value === "string" ? value : otherwise);

/**
 * The error as an `Error` with the same name, message and stack, so that it is stored as any thrown value is. A body has a bounded number
 * of levels, and so an error of causes.
 */
export function toThrown(error: unknown): Error {
  const { name, message, stack, code, issues, cause } =
    typeof error === "object" && error !== null ? (error as Partial<Record<keyof TaskError, unknown>>) : {};
  const thrown = new Error(text(message, typeof error === "string" ? error : ""));
  const named = text(name, "Error");
  Object.defineProperty(thrown, "name", { value: named });
  Object.defineProperty(thrown, "stack", {
    value: typeof stack === "string" ? stack : `${named}: ${thrown.message}`,
  });
  if (typeof code === "string") Object.assign(thrown, { code });
  if (Array.isArray(issues)) Object.assign(thrown, { issues });
  if (typeof cause === "object" && cause !== null) thrown.cause = toThrown(cause);
  return thrown;
}

/**
 * The answer to a claim as text: the JSON of a row goes into it as it is.
 * @param answer to what the claim has settled
 * @param startsIn milliseconds until the turn of a task; undefined: it starts at once
 */
export function claimAnswer(
  tasks: readonly TaskRecord[],
  answer: SettleAnswer | undefined,
  startsIn: (task: TaskRecord) => number | undefined,
): string {
  const settled = answer ? `,${JSON.stringify(answer).slice(1)}` : "}";
  return `{"tasks":[${tasks.map((task) => claimedTask(task, startsIn(task))).join(",")}]${settled}`;
}

function claimedTask(task: TaskRecord, startsIn: number | undefined): string {
  const plain = {
    id: task.id,
    generation: task.generationId,
    func: task.func,
    retryCount: task.retryCount,
    maxRetries: task.maxRetries,
    fillDefaults: task.fillDefaults === 1,
    timeout: task.timeout,
    requestId: task.requestId,
    queueName: task.queueName,
    priority: task.priority,
    createdAt: task.createdAt,
    startedAt: task.startedAt,
    ...(task.scheduleName === null ? {} : { schedule: { name: task.scheduleName, slot: task.slot } }),
    startsIn,
  };
  return `${JSON.stringify(plain).slice(0, -1)},"args":${task.args},"kwargs":${task.kwargs},"meta":${task.meta},"traceContext":${task.traceContext ?? "null"}}`;
}
