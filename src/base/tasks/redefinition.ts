/** Decides whether a second function under one name is its module loaded again, or a mistake. */
import module from "node:module";
import { warn } from "../../events.ts";
import { processGlobal } from "../runtime/process-globals.ts";

/** Where a name was defined: the caller of `task` or `registerTasks`. */
export interface DefinitionPlace {
  /** Undefined where the JavaScript engine does not say. */
  file: string | undefined;
  line: number | undefined;
  /** Without it, all of a minified file would be one place. */
  column: number | undefined;
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
  const [line, column] = [frame?.getLineNumber() ?? undefined, frame?.getColumnNumber() ?? undefined];
  return { file, line, column, tick: thisTick() };
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
 * A name is defined once in a file and a tick: in a second place, or in the same place by a loop or a helper, it is a mistake.
 * Only in a test the same place counts as its module loaded again, since `jest.resetModules` and `require` do that within a
 * tick. In later ticks:
 *
 * A module that is loaded again has new functions with the same file. So the second function replaces the first when both
 * come from one file, except in production, where no module is loaded again. In development, any function replaces: a bundler
 * may put the new version of a module into another file. A function with the same text is the same module, bundled or
 * loaded twice. Next bundles a module several times, for pages, routes and actions: into files that it minifies in different
 * ways, or into one file.
 *
 * @param environment NODE_ENV
 */
export function isMistake(before: Defined, now: Defined, environment: string | undefined): boolean {
  const [first, second] = [before.place, now.place];
  const sameFile = first.file !== undefined && first.file === second.file;
  const samePlace = isSamePlace(first, second);
  const sameText = isSameText(before.fn, now.fn);
  const ofNext = isBuiltByNext(first) && isBuiltByNext(second);
  if (ofNext && !samePlace && (sameText || !sameFile)) return false;
  if (sameFile && first.tick === second.tick) return !(samePlace && environment === "test");
  if (sameText) return environment === "production" && sameFile && !samePlace;
  if (environment === "production") return true;
  return environment !== "development" && !sameFile;
}

function isSamePlace(first: DefinitionPlace, second: DefinitionPlace): boolean {
  const { file, line, column } = first;
  return file !== undefined && file === second.file && line === second.line && column === second.column;
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
  const [first, second] = [shown(before.place), shown(now.place)];
  if (isMistake(before, now, process.env.NODE_ENV)) {
    const places = isSamePlace(before.place, now.place)
      ? `both at ${second}, by a loop, a helper, or its module loaded again`
      : `first at ${first}, now at ${second}`;
    throw new TypeError(
      `task "${name}" is already registered, with another function (${places}): give one of them another name, or call unregisterTask("${name}") first`,
    );
  }
  if (noted.has(name)) return;
  noted.add(name);
  warn(
    `task "${name}" was defined again (first at ${first}, now at ${second}): the new function replaces the old one, and runs from the next attempt`,
  );
}

/** The place in the source. Of a compiled file, the source map tells it, where the runtime has read one. */
function shown({ file, line = 1, column = 1 }: DefinitionPlace): string {
  if (file === undefined) return "an unknown place";
  // Not each runtime has the function.
  const { findSourceMap }: Partial<typeof module> = module;
  const entry = findSourceMap?.(file)?.findEntry(line - 1, column - 1);
  if (entry === undefined || !("originalLine" in entry)) return `${file}:${line}:${column}`;
  return `${file}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
}
