/** `--context`: the context of a worker or an agent, made by a module of the app. */

import { logError } from "./database.ts";
import { CommandError, describeThrown, reportFailure } from "./failure.ts";
import {
  defaultOf,
  type ImportOptions,
  importModule,
  type ModuleFile,
  type ModuleRole,
  nameOf,
  watched,
} from "./imports.ts";
import { moduleFiles } from "./modules.ts";

const ofContext: ModuleRole = {
  label: "--context",
  does: "exports the context, or a function that makes it, as default",
  unlike: "",
  stem: "context",
};

/** The exit code of Node when the command waits for a promise and nothing else is left to do. */
const unsettled = 13;

/** A context, and what ends it. */
export interface OpenContext {
  /** What `currentTask().context` gives. */
  value: unknown;
  /** Calls the context's method `close`, if it has one. Repeated calls share its promise. */
  close: () => Promise<void>;
}

/** @throws CommandError that names a missing file */
export function contextFile(given: string | undefined): ModuleFile | undefined {
  return given === undefined ? undefined : moduleFiles([given], ofContext)[0];
}

/**
 * Makes the context, runs `use`, and closes the context when `use` has ended, however it has. Without a file: `use` alone.
 * @throws CommandError that names the file, for a module that gives no context, or whose `close` fails
 */
export async function withContext(
  file: ModuleFile | undefined,
  options: ImportOptions,
  use: (context?: OpenContext) => Promise<void>,
): Promise<void> {
  if (file === undefined) return await use();
  const context = await openContext(file, options);
  try {
    await use(context);
  } catch (error) {
    await context.close().catch((closing: unknown) => logError(closing, "after an error", options.json));
    throw error;
  }
  await context.close();
}

async function openContext(file: ModuleFile, options: ImportOptions): Promise<OpenContext> {
  const made = defaultOf(await importModule(file, options));
  const value = typeof made === "function" ? await make(made as () => unknown, file, options) : made;
  if (value === undefined)
    throw new CommandError(
      "MODULE",
      `${nameOf(file)} ${made === undefined ? "has no default export" : "returns undefined"}: name the module that ${ofContext.does}`,
    );
  let closing: Promise<void> | undefined;
  return { value, close: () => (closing ??= close(value, file, options)) };
}

async function make(made: () => unknown, file: ModuleFile, options: ImportOptions): Promise<unknown> {
  return await watched(file, options, ["is still making the context", "its function"], async () => {
    try {
      return await made();
    } catch (error) {
      throw failed(file, "its function has thrown", error);
    }
  });
}

async function close(value: unknown, file: ModuleFile, { json }: ImportOptions): Promise<void> {
  // Nothing is left that could settle it, and Node ends the process without a word.
  const onExit = (code: number) => {
    if (![code, process.exitCode].includes(unsettled)) return;
    process.exitCode = 1;
    reportFailure(new CommandError("MODULE", `${nameOf(file)}: close waits for ever`), json);
  };
  process.once("exit", onExit);
  try {
    const { close: end } = Object(value) as { close?: unknown };
    if (typeof end === "function") await end.call(value);
  } catch (error) {
    throw failed(file, "close has thrown", error);
  } finally {
    process.off("exit", onExit);
  }
}

function failed(file: ModuleFile, what: string, error: unknown): CommandError {
  const { name, message } = describeThrown(error);
  const text = `${nameOf(file)}: ${what}: ${name}: ${message} (DBQ_DEBUG=1 shows the stack)`;
  return new CommandError("MODULE", text, { cause: error });
}
