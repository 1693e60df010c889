/** Tasks as commands, logs and the dashboard show them: without what the option `redact` of `openQueue` hides. */
import type { ListedTask } from "../../base/values/records.ts";
import { type Redact, redacted, withoutValues } from "../../base/values/redaction.ts";
import { report as reportError } from "../../events.ts";
import type { Task } from "../../task.ts";
import { internalsOf } from "../queue.ts";
import type { Run, RunStep } from "../workflows/methods.ts";

/** What may be seen of a task. It is the task that was given where nothing of it is hidden. @hidden */
export type Show = <T extends ListedTask>(task: T) => T;

type Report = (error: unknown, where: string) => void;

/**
 * What may be seen of tasks. Never throws: a task of which `redact` cannot say it comes without its values, and the reason is
 * reported, once for each kind of error.
 * @param redact without one, all may be seen
 */
export function showing(redact: Redact | undefined, report: Report = reportError): Show {
  if (!redact) return (task) => task;
  const reported = new Set<string>();
  return (task) => {
    try {
      return redacted(redact, task);
    } catch (error) {
      const failure = failureOf(error, task);
      const kind = error instanceof Error ? error.name : typeof error;
      if (!reported.has(kind)) report(failure, "redact");
      reported.add(kind);
      return withoutValues(task);
    }
  };
}

/** The option `redact` of the queue. */
export function redactOf(queue: object): Redact | undefined {
  return internalsOf(queue).options.redact;
}

/** The message of the error may have what `redact` should have hidden: only its name and its place are told. */
function failureOf(error: unknown, { id }: Task): Error {
  const name = error instanceof Error ? error.name : `a value of type ${typeof error}`;
  const failure = new Error(`redact has failed with ${name}, so values of task ${id} are not shown`);
  const stack = error instanceof Error ? (error.stack ?? "") : "";
  const frames = stack.split("\n").filter((line) => /^ {4}at .+:\d+:\d+\)?$/.test(line));
  failure.stack = [`Error: ${failure.message}`, ...frames].join("\n");
  return failure;
}

/** A run as it is shown. */
export interface ShownRun extends Run {
  task: ListedTask;
  children: ShownRun[];
  /** Whether values and errors of its steps are left out, since `redact` has changed the task. */
  hidesSteps: boolean;
}

/** The run without what `redact` hides. Of a task that it has changed, the values and errors of steps are left out. */
export function shownRun(run: Run, show: (task: ListedTask) => ListedTask): ShownRun {
  const task = show(run.task);
  const hidesSteps = task !== run.task;
  return {
    task,
    steps: hidesSteps ? run.steps.map(withoutOutcome) : run.steps,
    waits: run.waits,
    children: run.children.map((child) => shownRun(child, show)),
    more: run.more,
    ...(run.leftOut && { leftOut: run.leftOut }),
    hidesSteps,
  };
}

const withoutOutcome = ({ undoError: _, ...step }: RunStep): RunStep => ({
  ...step,
  value: undefined,
  error: null,
});
