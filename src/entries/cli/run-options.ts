/** Options of the commands that run tasks. */
import { InvalidArgumentError, Option } from "commander";
import { duration, given, whole, wholeName } from "./parse.ts";

export const graceOption = (what = "time for running tasks to finish after a signal"): Option =>
  new Option("--grace <duration>", what).argParser(grace).default(30_000, "30s");

/** A number alone would be milliseconds, and is most often meant as seconds. */
function grace(text: string): number {
  const parsed = duration(text);
  if (parsed === 0 || !Number.isFinite(Number(text))) return parsed;
  throw new InvalidArgumentError(`Expected a duration with its unit, such as ${text}s or ${text}ms.`);
}

export const maxTasksPerChildOption = (): Option =>
  new Option(
    "--max-tasks-per-child <number>",
    "how many tasks a thread or process for tasks runs before another replaces it (default: 1000)",
  ).argParser(whole(1, 1_000_000_000));

/** `--queue` parts its text at commas, and trims the names. */
export const queueNameOption = (): Option =>
  new Option(
    "--queue-name <name>",
    "a queue whose name has commas, or spaces at its ends; may be repeated",
  ).argParser(wholeName);

/** The queues of both options; none where neither was given. */
export function queuesOf(options: { queue?: readonly string[]; queueName?: readonly string[] }): {
  queues?: readonly string[];
} {
  const { queue, queueName } = options;
  return given({ queues: queue && queueName ? [...queue, ...queueName] : (queue ?? queueName) });
}

export const contextOption = (): Option =>
  new Option(
    "--context <module>",
    "a module whose default export is currentTask().context, or a function that makes it; its close() is called after the stop",
  );
