import type { Command } from "commander";
import type { Queue, Task, TaskStatus } from "../../../index.ts";
import { type Action, actOnMatching, type BulkCommandOptions, isBulk } from "../bulk.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { exitCodeOf, reportFailure, UsageError } from "../failure.ts";
import { addFilter, filterOf } from "../filter.ts";
import { json, line } from "../output.ts";
import { given, label, taskId, whole } from "../parse.ts";
import { showingOf } from "../redact.ts";

interface RetryCommandOptions extends BulkCommandOptions {
  fromStep?: string;
  undo?: boolean;
}

const retryExamples = `
Examples:
  $ dbq retry 4711
  $ dbq retry 4711 --from-step book
  $ dbq retry 4711 --undo
  $ dbq retry --status failed --func charge --since 2h
  $ dbq retry --status failed --meta tenant=acme --limit 1000 --yes
  $ dbq retry --failure 3f1c09a7b2de       all tasks of one kind of failure`;

export function addRetry(program: Command): void {
  withBulk(program.command("retry").argument("[id...]", "task ids"), "retry")
    .summary("run finished or scheduled tasks again now")
    .description(
      "Make finished and scheduled tasks pending now, with no retries charged. The steps that a task has stored do not run again.",
    )
    .option("--from-step <name>", "run this step again, and those stored after it", label)
    .option("--undo", "undo once more what was not undone of a failed task")
    .addHelpText("after", retryExamples)
    .action(async (ids: string[], _: unknown, self: Command) => {
      const { fromStep, undo, ...options } = self.optsWithGlobals<RetryCommandOptions>();
      const isMany = isBulk(ids, options);
      const forOne = fromStep === undefined ? undo && "--undo" : `--from-step ${JSON.stringify(fromStep)}`;
      if (isMany && forOne)
        throw new UsageError(
          `${forOne} needs the ids of tasks: options that choose tasks cannot stand beside it`,
        );
      const retry = (queue: Queue, id: number) => queue.retryTask(id, given({ fromStep, undo }));
      if (!isMany) await operate(ids, options, retry, ({ status, undoing }) => outcomeText(status, undoing));
      else if (options.status || options.failure !== undefined) await actOnMatching(options, retrying);
      else
        throw new UsageError(
          "name the --status of the tasks to retry, such as failed, or their --failure: completed ones would run again, too",
        );
    });
}

const retrying: Action = {
  verb: "retry",
  done: "retried",
  among: ["scheduled", "completed", "failed", "cancelled"],
  act: (queue, filter, options) => queue.retryTasks(filter, options),
};

interface CancelCommandOptions extends BulkCommandOptions {
  reason?: string;
  /** False: `--no-tree`. */
  tree: boolean;
}

const cancelExamples = `
Examples:
  $ dbq cancel 4711
  $ dbq cancel 4711 4712 --reason "sent twice"
  $ dbq cancel 4711 --no-tree
  $ dbq cancel --func invoice --status pending,scheduled --yes`;

export function addCancel(program: Command): void {
  withBulk(program.command("cancel").argument("[id...]", "task ids"), "cancel")
    .summary("cancel unfinished tasks")
    .description(
      "Cancel unfinished tasks, with their children and theirs. The signal of a running task is aborted within a second.",
    )
    .option("--reason <text>", 'the message of the task\'s error (default: "cancelled by dbq cancel")', label)
    .option("--tree", "cancel the children of these tasks too, and theirs", true)
    .option("--no-tree", "cancel only the tasks of these ids, and not their children")
    .addHelpText("after", cancelExamples)
    .action(async (ids: string[], _: unknown, self: Command) => {
      const all = self.optsWithGlobals<CancelCommandOptions>();
      const { reason = "cancelled by dbq cancel", tree, ...options } = all;
      const isMany = isBulk(ids, options);
      if (isMany && !tree)
        throw new UsageError(
          "--no-tree needs the ids of tasks: a cancel of the tasks that options choose always takes their children",
        );
      if (isMany) await actOnMatching(options, cancelling(reason));
      else await operate(ids, options, (queue, id) => queue.cancelTask(id, { reason, tree }), cancelled);
    });
}

const cancelling = (reason: string): Action => ({
  verb: "cancel",
  done: "cancelled",
  among: ["pending", "scheduled", "waiting", "running"],
  act: (queue, filter, options) => queue.cancelTasks(filter, { ...options, reason }),
});

function cancelled({ status, undoing }: Task): string {
  if (undoing || status === "cancelled") return outcomeText(status, undoing);
  return `had ended before: it is ${status}`;
}

const outcomeText = (status: TaskStatus, undoing: boolean): string =>
  undoing ? "undoes its steps, and ends then" : `is ${status}`;

const deleteExamples = `
Examples:
  $ dbq delete --status completed --before 30d
  $ dbq delete --func resize --status failed,cancelled --yes
  $ dbq delete --failure 3f1c09a7b2de`;

export function addDelete(program: Command): void {
  withBulk(program.command("delete"), "delete")
    .summary("delete tasks that match")
    .description("Delete the tasks that match, with their attempts and log lines. Running tasks stay.")
    .addHelpText("after", deleteExamples)
    .action(async (_: unknown, self: Command) => {
      const options = self.optsWithGlobals<BulkCommandOptions>();
      if (Object.keys(filterOf(options)).length > 0) await actOnMatching(options, deleting);
      else
        throw new UsageError("name the tasks to delete by options such as --status completed --before 30d");
    });
}

const deleting: Action = {
  verb: "delete",
  done: "deleted",
  among: ["pending", "scheduled", "waiting", "completed", "failed", "cancelled"],
  act: (queue, filter, options) => queue.deleteTasks(filter, options),
};

/** Adds the options by which a command chooses many tasks. */
function withBulk(command: Command, verb: string): Command {
  return addFilter(command)
    .option("--limit <number>", "at most so many tasks, the newest first", whole(1))
    .option("--yes", `${verb} without asking; where nobody can be asked, show how many and exit with 2`);
}

/** Acts on each task; an error about one task does not stop the others. */
async function operate(
  texts: readonly string[],
  options: CommonOptions,
  act: (queue: Queue, id: number) => Promise<Task>,
  outcomeOf: (task: Task) => string,
): Promise<void> {
  const ids = texts.map(taskId);
  await withExistingQueue(options, async (queue) => {
    const tasks: Task[] = [];
    const show = await showingOf(queue);
    for (const id of ids) {
      try {
        const task = show(await act(queue, id));
        tasks.push(task);
        if (!options.json) line(`task ${id} (${task.func}) ${outcomeOf(task)}`);
      } catch (error) {
        reportFailure(error, options.json);
        process.exitCode = exitCodeOf(error);
      }
    }
    if (options.json) json(tasks);
  });
}
