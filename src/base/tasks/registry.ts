/** The registry of task functions: which function the column `func` of a row means in this process. */

import { UnregisteredFunctionError } from "../../errors.ts";
import type { JsonObject } from "../../task.ts";
import { kindOf, show } from "../options/durations.ts";
import { label } from "../options/validators.ts";
import { processGlobal } from "../runtime/process-globals.ts";
import { type Checks, checksOf } from "../validation/checks.ts";
import type { InputOf, OutputOf, StandardSchema } from "../validation/standard-schema.ts";
import type { MarkUnstorable } from "./enqueueable.ts";
import { checkRedefinition, type DefinitionPlace, placeOfCall } from "./redefinition.ts";
import {
  type CallOptions,
  overridden,
  type ReadCallOptions,
  type ReadTaskOptions,
  readCallOptions,
  readRemoteOptions,
  readTaskOptions,
  type TaskOptions,
} from "./task-options.ts";

/** Any function, as a bound of type parameters. The function's own argument types are inferred. */
// biome-ignore lint/suspicious/noExplicitAny: with `never` a TaskFunction in an argument would not be inferred from.
export type AnyFunction = (...args: any[]) => unknown;

type DropLast<A extends unknown[]> = A extends [...infer Head, unknown?] ? Head : A;
/** The type of the last parameter; for parameters of unknown length, any JSON object. */
type Last<A extends unknown[]> =
  Required<A> extends [...unknown[], infer L] ? L : unknown extends A[number] ? JsonObject : never;

/**
 * A registered function. Calling it runs it here and now; `enqueueTask` takes it to run it later.
 * `All` are its parameters before `kwargs` replaced the last one.
 */
export interface TaskFunction<A extends unknown[] = never[], R = unknown, All extends unknown[] = A> {
  (...args: A): R;
  /** The name in the column `func` of its tasks. */
  readonly taskName: string;
  /** The same function with `kwargs` as its last argument. @throws TypeError for a wrong option */
  with(overrides: CallOptions & { kwargs: Last<All> }): TaskFunction<DropLast<All>, R, All>;
  /**
   * The same function with these options for the tasks that are enqueued with it.
   * @throws TypeError for a wrong option
   */
  with(overrides: CallOptions & { kwargs?: undefined }): TaskFunction<A, R, All>;
}

/** The type of a `this` that no caller has. A signature with it can be read from a type, but never called. */
declare const enqueued: unique symbol;

/**
 * A registered function with schemas. A direct call takes `A`, as the function itself does, and nothing is checked. `In` are the
 * arguments of an enqueue, from which the schema makes `A`; `Out` is the result of the task, which the schema makes of `R`.
 */
export interface CheckedTaskFunction<
  A extends unknown[],
  R,
  In extends unknown[],
  Out,
  All extends unknown[] = In,
> {
  (...args: A): R;
  /** Only in types: `Parameters` and `ReturnType`, and so each enqueue, see the last signature. */
  (this: typeof enqueued, ...args: In): Out;
  /** The name in the column `func` of its tasks. */
  readonly taskName: string;
  /** The same function with `kwargs` as its last argument. @throws TypeError for a wrong option */
  with(overrides: CallOptions & { kwargs: Last<All> }): CheckedTaskFunction<A, R, DropLast<All>, Out, All>;
  /**
   * The same function with these options for the tasks that are enqueued with it.
   * @throws TypeError for a wrong option
   */
  with(overrides: CallOptions & { kwargs?: undefined }): CheckedTaskFunction<A, R, In, Out, All>;
}

/** The arguments that an `input` describes: one, which may be left out if the schema takes `undefined`. */
type OnlyArgument<T> = undefined extends T ? [input?: T] : [input: T];
/** The arguments that the tuple of an `args` describes. */
type AllArguments<T> = T extends readonly [...infer A] ? [...A] : never;
/** What the function of a task with this `output` may return. Without one, TypeScript infers the constraint, a union with `undefined`. */
type ReturnFor<O> = O extends StandardSchema ? InputOf<O> | PromiseLike<InputOf<O>> : unknown;
/** The result of a task whose function returns `R`. */
type ResultFor<O, R> = [O] extends [StandardSchema] ? OutputOf<O> : Awaited<R>;

/** Retry policy, hooks and the place of its function belong to the process that runs the task. */
const noDecisions = {
  runIn: "main" as const,
  module: undefined,
  memory: undefined,
  group: undefined,
  limit: undefined,
  uses: undefined,
  backoff: undefined,
  retryOn: undefined,
  beforeRun: undefined,
  onSuccess: undefined,
  onFailure: undefined,
};

/** A registered name with its function and options. */
export interface TaskDefinition extends Omit<ReadTaskOptions, "schemas"> {
  name: string;
  /** Undefined, as for most functions: nothing is checked. */
  checks: Checks | undefined;
  /** Undefined for a `remoteTask`, which can be enqueued but not run here. */
  fn: ((...args: unknown[]) => unknown) | undefined;
}

/** A definition in the registry. */
interface Registered extends TaskDefinition {
  place: DefinitionPlace;
}

/** The definition behind a function, and the options of `.with`. */
interface Registration {
  definition: TaskDefinition;
  overrides: Partial<ReadCallOptions>;
  /** The options of its calls: those of the definition and those of `.with`, merged once for all calls. */
  options: Partial<ReadCallOptions>;
}

const registration = (
  definition: TaskDefinition,
  overrides: Partial<ReadCallOptions> = {},
): Registration => ({ definition, overrides, options: overridden(definition.call, overrides) });

const definitions = processGlobal("definitions", () => new Map<string, Registered>());
/** The names of functions that had groups or limits when they were defined. */
const sharing = processGlobal("sharing", () => new Set<string>());
/** Whether a function with a schema was ever defined. */
const checking = processGlobal("checking", () => ({ any: false }));
const registrations = processGlobal("registrations", () => new WeakMap<object, Registration>());

/** The options of a function without schemas. */
interface Unchecked {
  input?: undefined;
  args?: undefined;
  output?: undefined;
}

/**
 * Registers `fn` under `name`. When its module is loaded again in development or in a test, the new function replaces the
 * old one, with one process warning of type `DbqWarning`. A name that is defined twice otherwise is a mistake: in two
 * places, or in one place by a loop or a helper.
 *
 * With a schema of zod, valibot, arktype or any other library that follows Standard Schema, `input` describes the function's
 * only argument, or `args` the tuple of all, and `output` its result. Arguments are checked at each enqueue and before each
 * attempt, and results before they are stored; the function gets what the schema has made of the arguments. A direct call is
 * not checked.
 * @returns a function that runs `fn` when called, and that `enqueueTask` takes to run it later
 * @throws TypeError when another function has the name, or for a wrong option
 */
export function task<A extends unknown[], R>(
  name: string,
  fn: (...args: A) => R,
  options?: TaskOptions<Awaited<R>, A> & Unchecked,
): MarkUnstorable<A, Awaited<R>, TaskFunction<A, R>> & TaskFunction<A, R>;
export function task<
  const I extends StandardSchema,
  R extends ReturnFor<O>,
  O extends StandardSchema | undefined,
>(
  name: string,
  fn: (input: OutputOf<I>) => R,
  options: TaskOptions<ResultFor<O, R>, OnlyArgument<InputOf<I>>> & {
    input: I;
    args?: undefined;
    output?: O;
  },
): MarkUnstorable<
  OnlyArgument<InputOf<I>>,
  ResultFor<O, R>,
  CheckedTaskFunction<[input: OutputOf<I>], R, OnlyArgument<InputOf<I>>, ResultFor<O, R>>
> &
  CheckedTaskFunction<[input: OutputOf<I>], R, OnlyArgument<InputOf<I>>, ResultFor<O, R>>;
export function task<
  const T extends StandardSchema,
  R extends ReturnFor<O>,
  O extends StandardSchema | undefined,
>(
  name: string,
  fn: (...args: AllArguments<OutputOf<T>>) => R,
  options: TaskOptions<ResultFor<O, R>, AllArguments<InputOf<T>>> & {
    args: T;
    input?: undefined;
    output?: O;
  },
): MarkUnstorable<
  AllArguments<InputOf<T>>,
  ResultFor<O, R>,
  CheckedTaskFunction<AllArguments<OutputOf<T>>, R, AllArguments<InputOf<T>>, ResultFor<O, R>>
> &
  CheckedTaskFunction<AllArguments<OutputOf<T>>, R, AllArguments<InputOf<T>>, ResultFor<O, R>>;
export function task<A extends unknown[], const O extends StandardSchema, R extends ReturnFor<O>>(
  name: string,
  fn: (...args: A) => R,
  options: TaskOptions<OutputOf<O>, A> & { output: O; input?: undefined; args?: undefined },
): MarkUnstorable<A, OutputOf<O>, CheckedTaskFunction<A, R, A, OutputOf<O>>> &
  CheckedTaskFunction<A, R, A, OutputOf<O>>;
export function task(name: string, fn: AnyFunction, options?: unknown): unknown {
  return callable(registration(define(name, fn, options, placeOfCall(task))));
}

/**
 * Registers functions without wrapping them, each under its key in `functions`.
 * @throws TypeError when another function has the name, or for an array
 */
export function registerTasks(functions: Readonly<Record<string, AnyFunction>>): void {
  if (typeof functions !== "object" || functions === null || Array.isArray(functions))
    throw new TypeError(
      `registerTasks: expected an object whose keys are the names, such as registerTasks({ resize }), got ${show(functions)}`,
    );
  const place = placeOfCall(registerTasks);
  for (const [name, fn] of Object.entries(functions)) {
    const definition = define(name, fn, undefined, place);
    // A function that is registered already is still enqueued under its first name; this name only runs it.
    if (!isEnqueued(registrations.get(fn))) registrations.set(fn, registration(definition));
  }
}

/**
 * Removes a function from the registry: the workers of this process no longer run its tasks, and `enqueueTask` refuses it.
 * Another function may then have the name.
 * @param task the name, or the function
 * @returns whether it was registered
 * @throws TypeError for a value that is neither a name nor a function
 */
export function unregisterTask(task: string | AnyFunction): boolean {
  if (typeof task === "string") return definitions.delete(task);
  if (typeof task !== "function")
    throw new TypeError(`unregisterTask: expected a name or a function, got ${show(task)}`);
  const found = registrations.get(task);
  return found !== undefined && definitions.delete(found.definition.name);
}

/** Removes all functions from the registry, as `unregisterTask` does for one: for tests that define their own. */
export function clearTasks(): void {
  definitions.clear();
}

/**
 * The same function with these options for the tasks that are enqueued with it: `.with` for a function that `registerTasks`
 * registered.
 * @throws UnregisteredFunctionError; TypeError for a wrong option
 */
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
 * A task that another program runs. It can be enqueued by its name, without its code. The `maxRetries` and the `timeout`
 * that the caller does not say are those of the program that runs it. With the schema `input` of its only argument, or `args`
 * of the tuple of all, its arguments are checked at each enqueue.
 * @typeParam F the type of its function
 * @throws TypeError for a wrong option
 * @example const resize = remoteTask<(path: string, width: number) => Promise<void>>("resize");
 */
export function remoteTask<const I extends StandardSchema>(
  name: string,
  options: CallOptions & { input: I; args?: undefined },
): TaskFunction<OnlyArgument<InputOf<I>>, unknown>;
export function remoteTask<const T extends StandardSchema>(
  name: string,
  options: CallOptions & { args: T; input?: undefined },
): TaskFunction<AllArguments<InputOf<T>>, unknown>;
export function remoteTask<F extends AnyFunction = (...args: unknown[]) => unknown>(
  name: string,
  options?: CallOptions & {
    input?: StandardSchema<Parameters<F>[0], unknown>;
    args?: StandardSchema<Parameters<F>, unknown>;
  },
): TaskFunction<Parameters<F>, ReturnType<F>>;
export function remoteTask(name: string, options?: unknown): TaskFunction {
  const owner = `remoteTask "${name}"`;
  const { call, schemas } = readRemoteOptions(options, owner);
  const checks = checksOf(name, schemas, owner);
  const definition = { ...remoteDefinition(functionName(name, "remoteTask: name")), call, checks };
  return callable(registration(definition));
}

/** The definition of a function that this process does not know. */
export function remoteDefinition(name: string): TaskDefinition {
  return { name, fn: undefined, call: {}, checks: undefined, ...noDecisions };
}

/** Whether `enqueueTask` takes it: the function is not unregistered, or another program runs it. */
function isEnqueued(registration: Registration | undefined): registration is Registration {
  if (registration === undefined) return false;
  const { fn, name } = registration.definition;
  return fn === undefined || definitions.has(name);
}

function adviceFor(value: unknown): string {
  return typeof value === "string" ? `: remoteTask(${show(value)}) makes one of a task's name` : "";
}

/**
 * The registration of a function. `owner` is named in the `TypeError`.
 * @throws UnregisteredFunctionError; TypeError for a value that is not a function
 */
export function registrationOf(fn: unknown, owner?: string): Registration {
  const found = typeof fn === "function" ? registrations.get(fn) : undefined;
  if (isEnqueued(found)) return found;
  if (typeof fn !== "function")
    throw new TypeError(
      `${owner === undefined ? "" : `${owner}: `}expected a registered function, got ${show(fn)}${adviceFor(fn)}`,
    );
  throw new UnregisteredFunctionError(fn.name === "" ? "an anonymous function" : `function ${fn.name}`);
}

export function definitionNamed(name: string): TaskDefinition | undefined {
  return definitions.get(name);
}

/** Whether any function with a schema was defined in this process. Without one, an enqueue does not look for schemas. */
export function hasChecks(): boolean {
  return checking.any;
}

/** Of these functions, those that have groups, a limit or shared limits. Costs nothing while no function has. */
export function sharingAmong(names: readonly string[]): TaskDefinition[] {
  if (sharing.size === 0) return [];
  const found = names.flatMap((name) => (sharing.has(name) ? (definitions.get(name) ?? []) : []));
  return found.filter(({ group, limit, uses }) => (group ?? limit ?? uses) !== undefined);
}

/** The names of all functions that this process can run. */
export function registeredNames(): string[] {
  return [...definitions.keys()];
}

/**
 * Those of `names` that are registered now; without `names`, all. A claim asks each time, since functions may be registered,
 * replaced or unregistered after a worker has started.
 */
export function runnableNames(names: readonly string[] | undefined): readonly string[] {
  return names?.filter((name) => definitions.has(name)) ?? registeredNames();
}

/**
 * The arguments of a call. Non-empty `kwargs` become the last argument; omitted arguments before it are `undefined`.
 * `fn.length` does not count parameters with a default: with one, `kwargs` follow the given arguments.
 */
export function callArguments(fn: { length: number }, args: readonly unknown[], kwargs: unknown): unknown[] {
  if (typeof kwargs !== "object" || kwargs === null || Object.keys(kwargs).length === 0) return [...args];
  const leftOut = Math.max(0, fn.length - 1 - args.length);
  return [...args, ...new Array<undefined>(leftOut).fill(undefined), kwargs];
}

/** The function of a group's own task, which no worker runs: it is `waiting`, and ends when its members have. */
export const groupFunction = "dbq.group";

function functionName(value: unknown, name: string): string {
  if (value === groupFunction)
    throw new TypeError(`${name}: ${groupFunction} is dbq's own: choose another name`);
  return label(value, name);
}

function define(name: unknown, fn: unknown, options: unknown, place: DefinitionPlace): TaskDefinition {
  const checked = functionName(name, "task: name");
  if (typeof fn !== "function")
    throw new TypeError(`task "${checked}": expected a function, got ${show(fn)}`);
  if (kindOf(fn) === "GeneratorFunction" || kindOf(fn) === "AsyncGeneratorFunction") {
    throw new TypeError(
      `task "${checked}": a generator function cannot be a task: calling it runs none of its code`,
    );
  }
  const owner = `task "${checked}"`;
  const { schemas, ...read } = readTaskOptions(options, owner);
  const checks = checksOf(checked, schemas, owner);
  const definition = { name: checked, fn: fn as TaskDefinition["fn"], place, checks, ...read };
  const known = definitions.get(checked);
  if (known && known.fn !== fn) checkRedefinition(checked, known, definition);
  definitions.set(checked, definition);
  if (definition.group ?? definition.limit ?? definition.uses) sharing.add(checked);
  if (checks) checking.any = true;
  return definition;
}

function override({ definition, overrides }: Registration, given: unknown, owner: string): TaskFunction {
  const read = readCallOptions(given, owner);
  return callable(registration(definition, overridden(overrides, read)));
}

function callable<A extends unknown[], R>(registered: Registration): TaskFunction<A, R> {
  const { definition, options } = registered;
  const run = (...args: A): R => {
    if (definition.fn === undefined)
      throw new TypeError(`task "${definition.name}" runs in another program: enqueue it`);
    return definition.fn(...callArguments(definition.fn, args, options.kwargs)) as R;
  };
  const { name } = definition;
  const callable = Object.assign(run, {
    taskName: name,
    with: (overrides: CallOptions) => override(registered, overrides, `task "${name}".with`),
  });
  Object.defineProperties(callable, { name: { value: name }, length: { value: definition.fn?.length ?? 0 } });
  registrations.set(callable, registered);
  return callable as unknown as TaskFunction<A, R>;
}
