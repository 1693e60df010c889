/** Assertions about what was enqueued: a matcher for `expect`, and a function for other runners. */
import { AssertionError } from "node:assert";
import { inspect, isDeepStrictEqual } from "node:util";
import { type Duration, milliseconds, show } from "../../base/options/durations.ts";
import { mapMaybe } from "../../base/runtime/maybe-promise.ts";
import type { Enqueueable } from "../../base/tasks/enqueueable.ts";
import { registrationOf } from "../../base/tasks/registry.ts";
import type { MaybePromise } from "../../store.ts";
import type { JsonObject, Task, TaskStatus } from "../../task.ts";

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
  times: number | undefined;
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

/** @throws TypeError for an option that does not exist, or a wrong duration */
function readExpected(fn: unknown, args: unknown, options: unknown): Expected {
  const func = typeof fn === "string" ? fn : registrationOf(fn).definition.name;
  const values: Expected["values"] = args === undefined ? [] : [["args", args]];
  let times: number | undefined;
  for (const [name, value] of Object.entries((options ?? {}) as Record<string, unknown>)) {
    if (value === undefined) continue;
    if (name === "times") times = value as number;
    else if (!Object.hasOwn(actualOf, name))
      throw new TypeError(
        `toHaveEnqueued: there is no option ${show(name)}; there are ${Object.keys(actualOf).join(", ")}, times`,
      );
    else values.push([name, readValue(name, value)]);
  }
  return { func, values, times };
}

function readValue(name: string, value: unknown): unknown {
  const isDuration = name === "delay" || name === "timeout";
  return isDuration && !isAsymmetric(value) ? milliseconds(value, `toHaveEnqueued: ${name}`) : value;
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
  if (toAsymmetricMatcher) return toAsymmetricMatcher.call(matcher);
  return `${String(matcher)}${sample === undefined ? "" : `<${shown(sample)}>`}`;
}

const textOf = (expected: unknown): string => {
  if (isAsymmetric(expected)) return asymmetricText(expected);
  if (!Array.isArray(expected)) return shown(expected);
  return expected.length === 0 ? "[]" : `[ ${expected.map(textOf).join(", ")} ]`;
};

const expectedText = ({ func, values, times }: Expected): string => {
  const many = times === undefined ? "a task" : `${times} ${times === 1 ? "task" : "tasks"}`;
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
  const pass = expected.times === undefined ? found.length > 0 : found.length === expected.times;
  const ids = found.map(({ id }) => id).join(", ");
  const got = found.length === 0 ? "" : `\nAs expected: ${found.length} (${ids}).`;
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
