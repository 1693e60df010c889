/** Assertions about what was enqueued: a matcher for `expect`, and a function for other runners. */
import { AssertionError } from "node:assert";
import { inspect, isDeepStrictEqual } from "node:util";
import { type Duration, milliseconds, show } from "../../base/options/durations.ts";
import { wrong } from "../../base/options/validators.ts";
import { mapMaybe } from "../../base/runtime/maybe-promise.ts";
import type { Enqueueable } from "../../base/tasks/enqueueable.ts";
import { registrationOf } from "../../base/tasks/registry.ts";
import type { MaybePromise } from "../../store.ts";
import { type JsonObject, type Task, type TaskStatus, taskStatuses } from "../../task.ts";

/** What of a task must be as expected. Each value may also be an asymmetric matcher, such as `expect.any(Number)`. */
export interface EnqueuedOptions {
  /** From the enqueue to the time for which the task waits, in milliseconds for an asymmetric matcher. */
  delay?: Duration;
  waitUntil?: Date | null;
  priority?: number;
  queueName?: string;
  maxRetries?: number;
  timeout?: Duration;
  uniqueKey?: string | null;
  requestId?: string | null;
  group?: string | null;
  meta?: JsonObject;
  kwargs?: JsonObject;
  status?: TaskStatus;
  /** How many tasks are as expected. @default at least one */
  times?: number;
}

/** What a matcher of vitest or Jest returns. */
export interface MatcherResult {
  pass: boolean;
  /** What to print when the assertion fails. */
  message(): string;
}

/** A test queue on a server: an assertion about it is a promise. */
export interface OnServer {
  /** As of `TestMethods`. */
  enqueued(): Promise<unknown>;
}

type Equals = (actual: unknown, expected: unknown) => boolean;

/** Of a task, what each option is compared with. */
const actualOf: Readonly<Record<Exclude<keyof EnqueuedOptions, "times">, (task: Task) => unknown>> = {
  delay: ({ waitUntil, createdAt }) => (waitUntil ? waitUntil.getTime() - createdAt.getTime() : 0),
  waitUntil: (task) => task.waitUntil,
  priority: (task) => task.priority,
  queueName: (task) => task.queueName,
  maxRetries: (task) => task.maxRetries,
  timeout: (task) => task.timeout,
  uniqueKey: (task) => task.uniqueKey,
  requestId: (task) => task.requestId,
  group: (task) => task.groupKey,
  meta: (task) => task.meta,
  kwargs: (task) => task.kwargs,
  status: (task) => task.status,
};

/** The tasks that a failure shows: those that are nearest to what was expected. */
const mostShown = 5;

interface Expected {
  func: string;
  /** By the name of the option; the arguments are `args`. */
  values: [name: string, expected: unknown][];
  /** A number, or an asymmetric matcher. */
  times: unknown;
}

const isAsymmetric = (value: unknown): value is { asymmetricMatch(other: unknown): boolean } =>
  typeof (value as { asymmetricMatch?: unknown } | null | undefined)?.asymmetricMatch === "function";

/** Deep equality in which asymmetric matchers count, at any depth. */
export function equals(actual: unknown, expected: unknown): boolean {
  if (isAsymmetric(expected)) return expected.asymmetricMatch(actual);
  if (typeof expected !== "object" || expected === null || expected instanceof Date)
    return isDeepStrictEqual(actual, expected);
  if (typeof actual !== "object" || actual === null || Array.isArray(actual) !== Array.isArray(expected))
    return false;
  const [has, wants] = [actual, expected] as Record<string, unknown>[];
  // As in JSON, a property that is undefined is not there.
  const keys = new Set([...Object.keys(actual), ...Object.keys(expected)]);
  return [...keys].every((key) => equals(has?.[key], wants?.[key]));
}

const textOrNull = {
  what: "a text or null",
  is: (value: unknown) => value === null || typeof value === "string",
};
const number = { what: "a number", is: (value: unknown) => typeof value === "number" };
const object = {
  what: "an object",
  is: (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value),
};

/** What each option may be: of a wrong one no task could be as expected, and `not` would always pass. */
const kinds: Readonly<Record<string, { what: string; is(value: unknown): boolean }>> = {
  waitUntil: { what: "a Date or null", is: (value) => value === null || value instanceof Date },
  priority: number,
  queueName: { what: "a text", is: (value) => typeof value === "string" },
  maxRetries: number,
  uniqueKey: textOrNull,
  requestId: textOrNull,
  group: textOrNull,
  meta: object,
  kwargs: object,
  status: {
    what: `one of ${taskStatuses.join(", ")}`,
    is: (value) => (taskStatuses as readonly unknown[]).includes(value),
  },
  times: { what: "a whole number from 0", is: (value) => Number.isSafeInteger(value) && Number(value) >= 0 },
};

/** @throws TypeError for arguments that are no array, an option that does not exist, and a wrong value */
function readExpected(fn: unknown, args: unknown, options: unknown): Expected {
  const func = typeof fn === "string" ? fn : registrationOf(fn).definition.name;
  if (args !== undefined && !Array.isArray(args) && !isAsymmetric(args))
    throw wrong("toHaveEnqueued", "the function's arguments in an array", args);
  if (options !== undefined && !object.is(options))
    throw wrong("toHaveEnqueued", "an object of options", options);
  const values: Expected["values"] = args === undefined ? [] : [["args", args]];
  let times: unknown;
  for (const [name, value] of Object.entries((options ?? {}) as Record<string, unknown>)) {
    if (name !== "times" && !Object.hasOwn(actualOf, name))
      throw new TypeError(
        `toHaveEnqueued: there is no option ${show(name)}; there are ${Object.keys(actualOf).join(", ")}, times`,
      );
    if (value === undefined) continue;
    const read = readValue(name, value);
    if (name === "times") times = read;
    else values.push([name, read]);
  }
  return { func, values, times };
}

function readValue(name: string, value: unknown): unknown {
  if (isAsymmetric(value)) return value;
  const kind = kinds[name];
  if (!kind) return milliseconds(value, `toHaveEnqueued: ${name}`);
  if (kind.is(value)) return value;
  throw wrong(`toHaveEnqueued: ${name}`, kind.what, value);
}

const partOf = (task: Task, name: string): unknown =>
  name === "args" ? task.args : actualOf[name as keyof typeof actualOf](task);

/** The names of what of a task is not as expected. */
const differences = (task: Task, { values }: Expected, equal: Equals): string[] =>
  values.filter(([name, expected]) => !equal(partOf(task, name), expected)).map(([name]) => name);

const shown = (value: unknown): string =>
  inspect(value, { depth: 4, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 200 });

/** Such as `StringMatching</@/>`, for the matchers of vitest and Jest. */
function asymmetricText(matcher: object): string {
  const { toAsymmetricMatcher, sample } = matcher as { toAsymmetricMatcher?(): string; sample?: unknown };
  // That of `objectContaining` says nothing of what the object contains.
  if (toAsymmetricMatcher && !isPlain(sample)) return toAsymmetricMatcher.call(matcher);
  return `${String(matcher)}${sample === undefined ? "" : `<${textOf(sample)}>`}`;
}

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;

/** As `inspect`, but an asymmetric matcher, at any depth, is a word. */
const textOf = (expected: unknown): string => {
  if (isAsymmetric(expected)) return asymmetricText(expected);
  if (Array.isArray(expected)) return expected.length === 0 ? "[]" : `[ ${expected.map(textOf).join(", ")} ]`;
  if (!isPlain(expected) || !hasAsymmetric(expected)) return shown(expected);
  return `{ ${Object.entries(expected)
    .map(([name, value]) => `${name}: ${textOf(value)}`)
    .join(", ")} }`;
};

const hasAsymmetric = (value: unknown): boolean =>
  isAsymmetric(value) ||
  ((Array.isArray(value) || isPlain(value)) && Object.values(value).some(hasAsymmetric));

const expectedText = ({ func, values, times }: Expected): string => {
  const many = times === undefined ? "a task" : `${textOf(times)} ${times === 1 ? "task" : "tasks"}`;
  const details = values.map(([name, expected]) => `\n  ${name}: ${textOf(expected)}`).join("");
  return `${many} of "${func}"${details && " with"}${details}`;
};

/** One task, with what of it is not as expected. */
const missText = (task: Task, names: readonly string[]): string => {
  const found = names.map((name) => `${name}: ${shown(partOf(task, name))}`).join(", ");
  return `\n  task ${task.id} (${task.status}) has ${found}`;
};

function missesText(tasks: readonly Task[], expected: Expected, equal: Equals): string {
  const of = tasks.filter(({ func }) => func === expected.func);
  if (of.length === 0) {
    const others = [...new Set(tasks.map(({ func }) => `"${func}"`))];
    return others.length === 0
      ? "\nNo task was enqueued."
      : `\nNo task of this function was enqueued. There are tasks of ${others.join(", ")}.`;
  }
  const misses = of
    .map((task) => ({ task, names: differences(task, expected, equal) }))
    .filter(({ names }) => names.length > 0)
    .sort((a, b) => a.names.length - b.names.length);
  const more = misses.length > mostShown ? `\n  and ${misses.length - mostShown} more` : "";
  const near = misses.slice(0, mostShown).map(({ task, names }) => missText(task, names));
  return misses.length === 0 ? "" : `\nThese tasks are near it:${near.join("")}${more}`;
}

function judge(tasks: readonly Task[], expected: Expected, equal: Equals): MatcherResult {
  const found = tasks.filter(
    (task) => task.func === expected.func && differences(task, expected, equal).length === 0,
  );
  const pass = expected.times === undefined ? found.length > 0 : equal(found.length, expected.times);
  const ids = found.map(({ id }) => id).join(", ");
  const such = found.length === 1 ? "such task" : "such tasks";
  const got = found.length === 0 ? "" : `\nIt has ${found.length} ${such}: ${ids}.`;
  return {
    pass,
    message: () =>
      pass
        ? `expected the queue not to have ${expectedText(expected)}${got}`
        : `expected the queue to have ${expectedText(expected)}${got}${missesText(tasks, expected, equal)}`,
  };
}

/** @throws TypeError for what is no test queue */
function enqueuedIn(queue: unknown): MaybePromise<Task[]> {
  const { enqueued } = Object(queue) as { enqueued?: () => MaybePromise<Task[]> };
  if (typeof enqueued === "function") return enqueued();
  throw new TypeError(`toHaveEnqueued: expected a queue of testQueue(), got ${show(queue)}`);
}

/**
 * For `expect.extend(matchers)` of Jest; of vitest, `import "dbq-ts/testing/vitest"` does that, with the types. On SQLite the matcher
 * answers at once; on a server it returns a promise: `await expect(q).toHaveEnqueued(…)`.
 */
export const matchers = {
  /** The queue has a task of this function, with these arguments, as `EnqueuedOptions` say. */
  toHaveEnqueued(
    this: { equals?(actual: unknown, expected: unknown): boolean } | undefined,
    queue: unknown,
    fn: Enqueueable | string,
    args?: unknown,
    options?: EnqueuedOptions,
  ): MatcherResult | Promise<MatcherResult> {
    const equal: Equals = this?.equals
      ? (actual, expected) => this.equals?.(actual, expected) === true
      : equals;
    const expected = readExpected(fn, args, options);
    return mapMaybe(enqueuedIn(queue), (tasks) => judge(tasks, expected, equal));
  },
};

/**
 * The same for runners without `expect`, such as `node:test`.
 * @returns a promise on a server, which has to be awaited; on SQLite nothing
 * @throws AssertionError that shows the tasks that are nearest; TypeError
 */
export function assertEnqueued<Q extends object>(
  queue: Q,
  fn: Enqueueable | string,
  args?: readonly unknown[],
  options?: EnqueuedOptions,
): Q extends OnServer ? Promise<void> : void {
  const expected = readExpected(fn, args, options);
  const asserted = mapMaybe(enqueuedIn(queue), (tasks) => {
    const { pass, message } = judge(tasks, expected, equals);
    if (!pass) throw new AssertionError({ message: message(), stackStartFn: assertEnqueued });
  });
  return asserted as ReturnType<typeof assertEnqueued<Q>>;
}
