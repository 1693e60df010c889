/** What a task's schemas check: the arguments of its function, and what it returns. */
import { InvalidArgumentsError, InvalidResultError } from "../../errors.ts";
import type { MaybePromise } from "../../store.ts";
import { show } from "../options/durations.ts";
import { wrong } from "../options/validators.ts";
import { pathStep } from "../values/codec.ts";
import type { ValidationIssue } from "./issue.ts";
import type { SchemaIssue, StandardSchema } from "./standard-schema.ts";

/** The checks of a task. Both give what the schema has made of the value, and are as synchronous as the schema is. */
export interface Checks {
  /** @param given all arguments of the function, its `kwargs` among them. @throws InvalidArgumentsError */
  readonly args: ((given: readonly unknown[]) => MaybePromise<readonly unknown[]>) | undefined;
  /** @throws InvalidResultError */
  readonly result: ((value: unknown) => MaybePromise<unknown>) | undefined;
}

/** The schemas among the options of a task. */
export interface ReadSchemas {
  /** Of the function's only argument. */
  input: StandardSchema | undefined;
  /** Of the tuple of all arguments. */
  args: StandardSchema | undefined;
  /** Of what the function returns. */
  output: StandardSchema | undefined;
}

/** Undefined: there is nothing to check. @throws TypeError for `input` together with `args` */
export function checksOf(
  func: string,
  { input, args, output }: Partial<ReadSchemas>,
  owner: string,
): Checks | undefined {
  if (input && args)
    throw new TypeError(
      `${owner}: input and args exclude each other: input describes the only argument, args the tuple of all`,
    );
  const ofArgs = input ? onlyArgument(func, input) : args ? allArguments(func, args) : undefined;
  const ofResult = output ? resultOf(func, output) : undefined;
  return ofArgs || ofResult ? { args: ofArgs, result: ofResult } : undefined;
}

/** The error for a schema that has answered with a promise in a transaction on SQLite. It handles that promise's rejection. */
export function asyncSchema(what: string, checking: Promise<unknown>): TypeError {
  checking.catch(() => undefined);
  return new TypeError(
    `${what}: the schema is asynchronous, and a transaction on SQLite is not: check the value before the transaction, or use a synchronous schema`,
  );
}

function onlyArgument(func: string, schema: StandardSchema): Checks["args"] {
  const refuse = refusalOf(func, "input");
  const name = `task "${func}": the schema input`;
  return ([value, ...others]) => {
    if (others.length > 0)
      throw refuse([{ message: `expected one argument, got ${others.length + 1}`, path: [] }]);
    return validate({ schema, name, refuse }, value, (output) => [output]);
  };
}

function allArguments(func: string, schema: StandardSchema): Checks["args"] {
  const refuse = refusalOf(func, "args");
  return (given) =>
    validate({ schema, name: `task "${func}": the schema args`, refuse }, given, (output) => {
      if (Array.isArray(output)) return output;
      throw wrong(`task "${func}": what the schema args makes`, "an array of all arguments", output);
    });
}

function resultOf(func: string, schema: StandardSchema): Checks["result"] {
  const refuse = (issues: readonly ValidationIssue[]) =>
    new InvalidResultError(`task "${func}": the result is invalid: ${inWords(issues, "result")}`, issues);
  const name = `task "${func}": the schema output`;
  return (value) => validate({ schema, name, refuse }, value, (output) => output);
}

const refusalOf = (func: string, root: string) => (issues: readonly ValidationIssue[]) =>
  new InvalidArgumentsError(`task "${func}": the arguments are invalid: ${inWords(issues, root)}`, issues);

interface Check {
  schema: StandardSchema;
  /** Such as `task "pay": the schema input`. */
  name: string;
  refuse: (issues: readonly ValidationIssue[]) => Error;
}

/** @throws what `refuse` makes of the issues; whatever the schema throws; TypeError for an answer that no schema gives */
function validate<T>(
  { schema, name, refuse }: Check,
  value: unknown,
  use: (output: unknown) => T,
): MaybePromise<T> {
  const judge = (result: unknown): T => {
    if (!isObject(result))
      throw wrong(name, "an answer { value } or { issues }, or a promise of one", result);
    const { issues, value: output } = result as { issues?: unknown; value?: unknown };
    // Some libraries say null where others say undefined.
    if (issues === undefined || issues === null) return use(output);
    if (!Array.isArray(issues)) throw wrong(`${name}: issues`, "an array", issues);
    throw refuse(issues.map(toIssue));
  };
  const found: unknown = schema["~standard"].validate(value);
  // By `then`, since a library may have a promise of its own.
  const isPromise = isObject(found) && typeof (found as { then?: unknown }).then === "function";
  return isPromise ? Promise.resolve(found).then(judge) : judge(found);
}

const isObject = (value: unknown): value is object =>
  (typeof value === "object" && value !== null) || typeof value === "function";

/** A schema's own mistake in an issue must not hide what the issue says: the value is invalid in any case. */
function toIssue(issue: unknown): ValidationIssue {
  const { message, path } = (isObject(issue) ? issue : { message: issue }) as Partial<SchemaIssue>;
  // A library may have a class of its own for paths, whose `map` is another.
  const steps = isObject(path) && Symbol.iterator in path ? Array.from<unknown>(path) : [];
  return { message: message === undefined ? "no message" : textOf(message), path: steps.map(toKey) };
}

function toKey(step: unknown): string | number {
  const key = isObject(step) && "key" in step ? step.key : step;
  // JSON, which keeps the path, has no other numbers.
  return typeof key === "number" && Number.isFinite(key) ? key : textOf(key);
}

/** `String` throws for an object without a `toString`. */
const textOf = (value: unknown): string => (isObject(value) ? show(value) : String(value));

/** How many issues a message names. */
const mostNamed = 5;

function inWords(issues: readonly ValidationIssue[], root: string): string {
  if (issues.length === 0) return "the schema gave no issue";
  const named = issues
    .slice(0, mostNamed)
    .map(({ message, path }) => `${root}${path.map(pathStep).join("")}: ${message}`);
  const more = issues.length - named.length;
  return `${named.join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
}
