/** The options of limits and pauses: their types and validation. */
import { type Duration, show } from "./durations.ts";
import { duration, integer, label, labels, type Reader, readOptions, wrong } from "./validators.ts";

const scopeKinds = ["name", "queue", "func", "group", "code"] as const;

export const isScopeKind = (value: string): value is LimitScope["kind"] =>
  (scopeKinds as readonly string[]).includes(value);

/**
 * What a limit, a pause or a throttle is about. `name`: the functions that use this name. `queue`, `func`: this one.
 * `group`: one group of a function; an empty group: its tasks without one. `code`: a function, by its option in code.
 */
export interface LimitScope {
  kind: (typeof scopeKinds)[number];
  name: string;
  group: string;
}

export interface RateValues {
  /** Starts in each `per`. */
  limit: number;
  /** Milliseconds. */
  per: number;
  /** Starts that may come at once. */
  burst: number;
}

/** The values of a limit: at least one of them is not null. */
export interface LimitValues {
  /** How many tasks may run at once. */
  concurrency: number | null;
  rate: RateValues | null;
}

/** How often tasks may start: `limit` times in each `per`. */
export interface Rate {
  /** Starts in each `per`, from 1 to 1,000,000. They are spaced by `per / limit`. */
  limit: number;
  /** From 1 ms to 366 days. */
  per: Duration;
  /** How many starts may come at once, from 1 to `limit`: at most `limit + burst - 1` in any window of `per`. @default 1 */
  burst?: number;
}

/** The option `limit` of a task, and the values of `queue.setLimit`. At least one of both. */
export interface Limit {
  /** How many tasks may run at the same time, in all processes together, from 1 to 1,000,000. @default no limit */
  concurrency?: number;
  /** How often tasks may start, retries included. @default no limit */
  rate?: Rate;
}

/**
 * What a limit is about: a name that functions have in `uses`; or a queue; or a function, then each of its groups and
 * the tasks without a group by itself; or one group of a function.
 */
export type LimitTarget = string | { queueName: string } | { func: string; group?: string };

/** What a pause is about: a queue, a function with all of its groups, or one of its groups. */
export type PauseTarget = { queueName: string } | { func: string; group?: string };

const most = 1_000_000;

const readRate: Reader<NonNullable<LimitValues["rate"]>> = (value, name) => {
  if (typeof value !== "object" || value === null)
    throw wrong(name, 'an object such as { limit: 100, per: "1m" }', value);
  const {
    limit,
    per,
    burst = 1,
  } = readOptions(value, name, {
    limit: integer(1, most),
    per: duration({ min: 1, max: 366 * 24 * 60 * 60 * 1_000 }),
    burst: integer(1, most),
  });
  if (limit === undefined)
    throw new TypeError(`${name}: limit is missing: how many tasks may start in each per`);
  if (per === undefined)
    throw new TypeError(`${name}: per is missing, such as "1m": the time in which ${limit} may start`);
  if (burst > limit)
    throw new TypeError(`${name}: burst must not be above limit, which is ${limit}, got ${burst}`);
  return { limit, per, burst };
};

/** @throws TypeError */
export const readLimit: Reader<LimitValues> = (value, name) => {
  if (typeof value !== "object" || value === null)
    throw wrong(name, "an object with concurrency or rate", value);
  const { concurrency, rate } = readOptions(value, name, { concurrency: integer(1, most), rate: readRate });
  if (concurrency === undefined && rate === undefined)
    throw new TypeError(`${name}: expected concurrency, rate or both, got neither`);
  return { concurrency: concurrency ?? null, rate: rate ?? null };
};

/** @throws TypeError */
export const readUses: Reader<readonly string[]> = (value, name) => {
  if (!Array.isArray(value)) throw wrong(name, "an array of names", value);
  return labels(value, name);
};

const pauseForms = "{ queueName } or { func, group }";

/** @throws TypeError */
export function readPauseTarget(given: unknown, owner: string, forms = pauseForms): LimitScope {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new TypeError(`${owner}: expected ${forms}, got ${show(given)}`);
  const { queueName, func, group } = readOptions(given, owner, {
    queueName: label,
    func: label,
    group: label,
  });
  // `{ func, group: tenant }` with an undefined tenant must not be about all of them.
  for (const name of ["queueName", "func", "group"])
    if (Object.hasOwn(given, name) && (given as Record<string, unknown>)[name] === undefined)
      throw new TypeError(`${owner}: ${name} is undefined: leave it out if it is not meant`);
  if (queueName !== undefined && func !== undefined)
    throw new TypeError(`${owner}: queueName and func exclude each other`);
  if (queueName !== undefined && group !== undefined)
    throw new TypeError(`${owner}: group is of a function, not of a queue: expected ${forms}`);
  if (queueName !== undefined) return { kind: "queue", name: queueName, group: "" };
  if (func === undefined)
    throw new TypeError(`${owner}: expected ${forms}, got neither a queueName nor a func`);
  return group === undefined ? { kind: "func", name: func, group: "" } : { kind: "group", name: func, group };
}

/** @throws TypeError */
export function readLimitTarget(given: unknown, owner: string): LimitScope {
  if (typeof given === "string") return { kind: "name", name: label(given, `${owner}: name`), group: "" };
  return readPauseTarget(given, owner, `a name, ${pauseForms}`);
}
