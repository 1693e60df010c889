import type { Command } from "commander";
import type { Queue, Task } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { exitCodeOf, reportFailure } from "../failure.ts";
import { json, line } from "../output.ts";
import { label, taskId } from "../parse.ts";

const retryExamples = `
Examples:
  $ dbq retry 4711
  $ dbq list --status failed --json | jq '.[].id' | xargs dbq retry`;

export function addRetry(program: Command): void {
  program
    .command("retry")
    .summary("run finished or scheduled tasks again now")
    .description("Make finished and scheduled tasks pending now, with no retries charged.")
    .argument("<id...>", "task ids")
    .addHelpText("after", retryExamples)
    .action(async (ids: string[], _: unknown, self: Command) => {
      const act = (queue: Queue, id: number) => queue.retryTask(id);
      await operate(ids, self.optsWithGlobals<CommonOptions>(), act);
    });
}

interface CancelCommandOptions extends CommonOptions {
  reason?: string;
}

const cancelExamples = `
Examples:
  $ dbq cancel 4711
  $ dbq cancel 4711 4712 --reason "sent twice"`;

export function addCancel(program: Command): void {
  program
    .command("cancel")
    .summary("cancel unfinished tasks")
    .description("Cancel unfinished tasks. The signal of a running task is aborted within a second.")
    .argument("<id...>", "task ids")
    .option("--reason <text>", 'the message of the task\'s error (default: "cancelled by dbq cancel")', label)
    .addHelpText("after", cancelExamples)
    .action(async (ids: string[], _: unknown, self: Command) => {
      const { reason = "cancelled by dbq cancel", ...options } = self.optsWithGlobals<CancelCommandOptions>();
      const act = (queue: Queue, id: number) => queue.cancelTask(id, { reason });
      await operate(ids, options, act, ({ status }) =>
        status === "cancelled" ? "is cancelled" : `had ended before: it is ${status}`,
      );
    });
}

/** Acts on each task; an error about one task does not stop the others. */
async function operate(
  given: readonly string[],
  options: CommonOptions,
  act: (queue: Queue, id: number) => Promise<Task>,
  outcomeOf = ({ status }: Task): string => `is ${status}`,
): Promise<void> {
  const ids = given.map(taskId);
  await withExistingQueue(options, async (queue) => {
    const tasks: Task[] = [];
    for (const id of ids) {
      try {
        const task = await act(queue, id);
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
