import type { Command } from "commander";
import type { Queue, Task } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { exitCodeOf, reportFailure } from "../failure.ts";
import { json, line } from "../output.ts";
import { taskId } from "../parse.ts";

const retryExamples = `
Examples:
  $ dbq retry 4711
  $ dbq list --status failed --func resize --json | jq '.[].id' | xargs dbq retry`;

export function addRetry(program: Command): void {
  program
    .command("retry")
    .summary("make tasks pending now")
    .description("Make tasks that have ended, or wait, pending now, with no retry charged.")
    .argument("<id...>", "the tasks' ids")
    .addHelpText("after", retryExamples)
    .action(async (ids: string[], _: unknown, self: Command) => {
      const act = (queue: Queue, id: number) => queue.retryTask(id);
      await operate(ids, self.optsWithGlobals<CommonOptions>(), act);
    });
}

const cancelExamples = `
Examples:
  $ dbq cancel 4711
  $ dbq cancel 4711 4712 --json`;

export function addCancel(program: Command): void {
  program
    .command("cancel")
    .summary("end unfinished tasks")
    .description(
      "End unfinished tasks as cancelled; running ones hear of it by their signal within a second.",
    )
    .argument("<id...>", "the tasks' ids")
    .addHelpText("after", cancelExamples)
    .action(async (ids: string[], _: unknown, self: Command) => {
      const act = (queue: Queue, id: number) => queue.cancelTask(id);
      await operate(ids, self.optsWithGlobals<CommonOptions>(), act);
    });
}

/** One task that cannot be acted on leaves the others as they are to be. */
async function operate(
  given: readonly string[],
  options: CommonOptions,
  act: (queue: Queue, id: number) => Promise<Task>,
): Promise<void> {
  const ids = given.map(taskId);
  await withExistingQueue(options, async (queue) => {
    const tasks: Task[] = [];
    for (const id of ids) {
      try {
        const task = await act(queue, id);
        tasks.push(task);
        if (!options.json) line(`task ${id} (${task.func}) is ${task.status}`);
      } catch (error) {
        reportFailure(error, options.json);
        process.exitCode = exitCodeOf(error);
      }
    }
    if (options.json) json(tasks);
  });
}
