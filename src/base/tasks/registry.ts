/** Functions under stable names: what a row's `func` means in this process. */

import { UnregisteredFunctionError } from "../../errors.ts";
import type { JsonObject } from "../../task.ts";
import { kindOf, show } from "../options/durations.ts";
import { label } from "../options/validators.ts";
import { processGlobal } from "../runtime/process-globals.ts";
import {
  type CallOptions,
  overridden,
  type ReadCallOptions,
  type ReadTaskOptions,
  readCallOptions,
  readTaskOptions,
  type TaskOptions,
} from "./task-options.ts";

/** Any function, for type parameters: what is called by it has its own argument types. */
// biome-ignore lint/suspicious/noExplicitAny: with `never` a TaskFunction in an argument would not be inferred from.
export type AnyFunction = (...args: any[]) => unknown;

type DropLast<A extends unknown[]> = A extends [...infer Head, unknown?] ? Head : A;
/** The last parameter; an array of unknown length may end in any object. */
type Last<A extends unknown[]> =
  Required<A> extends [...unknown[], infer L] ? L : unknown extends A[number] ? JsonObject : never;

/**
 * A registered function: still just a function, and what `enqueueTask` takes.
 * `All` are its parameters before `kwargs` stood for the last of them.
 */
export interface TaskFunction<A extends unknown[] = never[], R = unknown, All extends unknown[] = A> {
  (...args: A): R;
  /** The name that rows know it by. */
  readonly taskName: string;
  /** The same function with `kwargs` in place of its last parameter. @throws TypeError for wrong options */
  with(overrides: CallOptions & { kwargs: Last<All> }): TaskFunction<DropLast<All>, R, All>;
  /** The same function with other options for its next calls. @throws TypeError for wrong options */
  with(overrides: CallOptions & { kwargs?: undefined }): TaskFunction<A, R, All>;
}

/** A task that is not run here decides nothing here. */
const noDecisions = {
  backoff: undefined,
  retryOn: undefined,
  beforeRun: undefined,
  onSuccess: undefined,
  onFailure: undefined,
};

export interface TaskDefinition extends ReadTaskOptions {
  name: string;
  /** Undefined for a `remoteTask`: it can be enqueued here, not run. */
  fn: ((...args: unknown[]) => unknown) | undefined;
}

/** What a function given to `enqueueTask` stands for. */
interface Registration {
  definition: TaskDefinition;
  overrides: Partial<ReadCallOptions>;
}

const definitions = processGlobal("definitions", () => new Map<string, TaskDefinition>());
const registrations = processGlobal("registrations", () => new WeakMap<object, Registration>());

/**
 * Registers `fn` under `name`.
 * @returns a function that runs `fn` here and now, and that `enqueueTask` takes to run it later.
 * @throws TypeError when the name is taken by another function, or an option is wrong.
 */
export function task<A extends unknown[], R>(
  name: string,
  fn: (...args: A) => R,
  options?: TaskOptions<Awaited<R>>,
): TaskFunction<A, R> {
  return callable<A, R>({ definition: define(name, fn, options), overrides: {} });
}

/**
 * Registers functions that are left unwrapped, by the names that they have in `functions`.
 * @throws TypeError when a name is taken by another function.
 */
export function registerTasks(functions: Readonly<Record<string, AnyFunction>>): void {
  for (const [name, fn] of Object.entries(functions)) {
    const definition = define(name, fn, undefined);
    // A function that is a task already stays that task where it is enqueued; here it gets one more name to run by.
    if (!registrations.has(fn)) registrations.set(fn, { definition, overrides: {} });
  }
}

/** Options for one call of a function that `registerTasks` registered. @throws UnregisteredFunctionError, TypeError */
export function withOptions<F extends AnyFunction>(
  fn: F,
  overrides: CallOptions & { kwargs: Last<Parameters<F>> },
): TaskFunction<DropLast<Parameters<F>>, ReturnType<F>, Parameters<F>>;
export function withOptions<F extends AnyFunction>(
  fn: F,
  overrides: CallOptions & { kwargs?: undefined },
): TaskFunction<Parameters<F>, ReturnType<F>>;
export function withOptions(fn: AnyFunction, overrides: CallOptions): unknown {
  return override(registrationOf(fn), overrides, "withOptions");
}

/**
 * A task that another program runs: it can be enqueued by name, without its code.
 * @example const resize = remoteTask<(path: string, width: number) => Promise<void>>("resize");
 */
export function remoteTask<F extends AnyFunction = (...args: unknown[]) => unknown>(
  name: string,
  options?: CallOptions,
): TaskFunction<Parameters<F>, ReturnType<F>> {
  const call = readCallOptions(options, `remoteTask "${name}"`);
  const definition = { name: label(name, "remoteTask: name"), fn: undefined, call, ...noDecisions };
  return callable<Parameters<F>, ReturnType<F>>({ definition, overrides: {} });
}

/** @throws UnregisteredFunctionError; TypeError when it is not a function at all. */
export function registrationOf(fn: unknown): Registration {
  const found = typeof fn === "function" ? registrations.get(fn) : undefined;
  if (found) return found;
  if (typeof fn !== "function") throw new TypeError(`expected a registered function, got ${show(fn)}`);
  throw new UnregisteredFunctionError(fn.name === "" ? "an anonymous function" : `function ${fn.name}`);
}

export function definitionNamed(name: string): TaskDefinition | undefined {
  return definitions.get(name);
}

/** The names of all functions that can run in this process. */
export function registeredNames(): string[] {
  return [...definitions.keys()];
}

/**
 * The arguments of a call: `kwargs`, when there are any, are the last parameter, after those that were left out.
 * `length` does not count parameters that have a default; then they follow the arguments that were given.
 */
export function callArguments(fn: { length: number }, args: readonly unknown[], kwargs: unknown): unknown[] {
  if (typeof kwargs !== "object" || kwargs === null || Object.keys(kwargs).length === 0) return [...args];
  const leftOut = Math.max(0, fn.length - 1 - args.length);
  return [...args, ...new Array<undefined>(leftOut).fill(undefined), kwargs];
}

function define(name: unknown, fn: unknown, options: unknown): TaskDefinition {
  const checked = label(name, "task: name");
  if (typeof fn !== "function")
    throw new TypeError(`task "${checked}": expected a function, got ${show(fn)}`);
  if (kindOf(fn) === "GeneratorFunction" || kindOf(fn) === "AsyncGeneratorFunction") {
    throw new TypeError(
      `task "${checked}": a generator function cannot be a task: calling it runs none of its code`,
    );
  }
  const known = definitions.get(checked);
  if (known && known.fn !== fn)
    throw new TypeError(`task "${checked}" is already registered, with another function`);
  const definition = {
    name: checked,
    fn: fn as TaskDefinition["fn"],
    ...readTaskOptions(options, `task "${checked}"`),
  };
  definitions.set(checked, definition);
  return definition;
}

function override({ definition, overrides }: Registration, given: unknown, owner: string): TaskFunction {
  const read = readCallOptions(given, owner);
  return callable({ definition, overrides: overridden(overrides, read) });
}

function callable<A extends unknown[], R>(registration: Registration): TaskFunction<A, R> {
  const { definition } = registration;
  const run = (...args: A): R => {
    if (definition.fn === undefined)
      throw new TypeError(`task "${definition.name}" runs in another program: enqueue it`);
    const { kwargs } = { ...definition.call, ...registration.overrides };
    return definition.fn(...callArguments(definition.fn, args, kwargs)) as R;
  };
  const { name } = definition;
  const callable = Object.assign(run, {
    taskName: name,
    with: (overrides: CallOptions) => override(registration, overrides, `task "${name}".with`),
  });
  Object.defineProperties(callable, { name: { value: name }, length: { value: definition.fn?.length ?? 0 } });
  registrations.set(callable, registration);
  return callable as unknown as TaskFunction<A, R>;
}
