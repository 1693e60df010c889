/** `--redact`: a module of the app decides what commands show of tasks. */
import type { Queue, Show, Task } from "../../index.ts";
import { CommandError } from "./failure.ts";
import { defaultOf, type ImportOptions, importModule, type ModuleRole, nameOf } from "./imports.ts";
import { moduleFiles } from "./modules.ts";

export interface RedactOptions extends ImportOptions {
  /** The path of a module. */
  redact?: string;
}

const ofRedact: ModuleRole = {
  label: "--redact",
  does: "exports a function (task) => task as default",
  unlike: "",
  stem: "redact",
};

/** The default export of the module; without one, `undefined`. @throws CommandError for a module that exports no function */
export async function loadRedact(options: RedactOptions): Promise<((task: Task) => Task) | undefined> {
  if (options.redact === undefined) return undefined;
  const [file] = moduleFiles([options.redact], ofRedact);
  if (file === undefined) return undefined;
  const redact = defaultOf(await importModule(file, options));
  if (typeof redact === "function") return redact as (task: Task) => Task;
  const what = redact === undefined ? "has no default export" : "exports no function as default";
  throw new CommandError("MODULE", `${nameOf(file)} ${what}: name the module that ${ofRedact.does}`);
}

/** What may be seen of the queue's tasks. */
export async function showingOf(queue: Queue): Promise<Show> {
  const { redactOf, showing } = await import("../../index.ts");
  return showing(redactOf(queue));
}
