/** Decides whether a second function under one name is its module loaded again, or a mistake. */
import { warn } from "../../events.ts";
import { processGlobal } from "../runtime/process-globals.ts";

/** Where a name was defined: the caller of `task` or `registerTasks`. */
export interface DefinitionPlace {
  /** Undefined where the JavaScript engine does not say. */
  file: string | undefined;
  line: number | undefined;
  /** The same object for all definitions of one tick: a module runs from its first line to its last in one. */
  tick: object;
}

export interface Defined {
  fn: unknown;
  place: DefinitionPlace;
}

let tick: object | undefined;

function thisTick(): object {
  if (tick) return tick;
  tick = {};
  // Not `queueMicrotask`, which tests may fake.
  void Promise.resolve().then(() => {
    tick = undefined;
  });
  return tick;
}

/** The place of the code that called `callee`. */
export function placeOfCall(callee: (...args: never[]) => unknown): DefinitionPlace {
  const frame = callerOf(callee);
  // A reloaded module has another query in its URL, such as `?t=1763888400000` in Vite.
  const file = (frame?.getScriptNameOrSourceURL() ?? undefined)?.replace(/^file:\/\/|[?#].*$/g, "");
  return { file, line: frame?.getLineNumber() ?? undefined, tick: thisTick() };
}

/** The stack frame that called `callee`; undefined where the engine offers no frames, or its `Error` is frozen. */
function callerOf(callee: (...args: never[]) => unknown): NodeJS.CallSite | undefined {
  const { prepareStackTrace, stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = 1;
    Error.prepareStackTrace = (_, frames) => frames;
    const holder: { stack?: NodeJS.CallSite[] } = {};
    Error.captureStackTrace(holder, callee);
    return holder.stack?.[0];
  } catch {
    return undefined;
  } finally {
    restore({ prepareStackTrace, stackTraceLimit });
  }
}

function restore(before: Partial<ErrorConstructor>): void {
  try {
    Object.assign(Error, before);
  } catch {
    // Frozen: nothing was changed.
  }
}

/**
 * Whether the second definition of a name is a mistake.
 *
 * A module that is loaded again has new functions with the same file. So the second function replaces the first when both
 * come from one file, except in production, where no module is loaded again. In development, any function replaces: a bundler
 * may put the new version of a module into another file. A function with the same text is the same module, bundled or
 * loaded twice. Next bundles a module once for pages and once for routes, minified in two ways.
 *
 * @param environment NODE_ENV
 */
export function isMistake(before: Defined, now: Defined, environment: string | undefined): boolean {
  const [first, second] = [before.place, now.place];
  const isSameFile = first.file !== undefined && first.file === second.file;
  const isOtherLine = isSameFile && first.line !== second.line;
  // Two definitions that one run of the module reaches.
  if (isOtherLine && first.tick === second.tick) return true;
  if (isSameText(before.fn, now.fn)) return environment === "production" && isOtherLine;
  if (!isSameFile && isBuiltByNext(first) && isBuiltByNext(second)) return false;
  if (environment === "production") return true;
  return environment !== "development" && !isSameFile;
}

function isBuiltByNext({ file }: DefinitionPlace): boolean {
  return file !== undefined && /[/\\]\.next[/\\]/.test(file);
}

function isSameText(a: unknown, b: unknown): boolean {
  const text = textOf(a);
  return text === textOf(b) && !text.endsWith("{ [native code] }");
}

function textOf(fn: unknown): string {
  return typeof fn === "function" ? Function.prototype.toString.call(fn) : "{ [native code] }";
}

const noted = processGlobal("redefined", () => new Set<string>());

/**
 * Accepts the second definition of a name, with one warning for each name and process.
 * @throws TypeError when it is a mistake
 */
export function checkRedefinition(name: string, before: Defined, now: Defined): void {
  const places = `first at ${shown(before.place)}, now at ${shown(now.place)}`;
  if (isMistake(before, now, process.env.NODE_ENV)) {
    throw new TypeError(
      `task "${name}" is already registered, with another function (${places}): give one of them another name, or call unregisterTask("${name}") first`,
    );
  }
  if (noted.has(name)) return;
  noted.add(name);
  warn(
    `task "${name}" was defined again (${places}): the new function replaces the old one, and runs from the next attempt`,
  );
}

function shown({ file, line }: DefinitionPlace): string {
  return file === undefined ? "an unknown place" : `${file}:${line}`;
}
