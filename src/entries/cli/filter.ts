/** The options by which a command chooses tasks. */
import { type Command, InvalidArgumentError } from "commander";
import type { CountFilter, TaskStatus } from "../../index.ts";
import { duration, given, label, metaPair, someOf, time } from "./parse.ts";

/** In the order of a task's life. */
const inOrder: Readonly<Record<TaskStatus, true>> = {
  pending: true,
  scheduled: true,
  waiting: true,
  running: true,
  completed: true,
  failed: true,
  cancelled: true,
};
export const statuses = Object.keys(inOrder) as readonly TaskStatus[];

export interface FilterOptions {
  status?: readonly TaskStatus[];
  func?: string;
  queue?: string;
  group?: string;
  requestId?: string;
  uniqueKey?: string;
  failure?: string;
  schedule?: string;
  meta?: CountFilter["meta"];
  since?: Date;
  before?: Date;
}

export function addFilter(command: Command): Command {
  return command
    .option("--status <status>", `only these statuses: ${statuses.join(", ")}`, someOf(statuses))
    .option("--func <name>", "only tasks of this function", label)
    .option("--queue <name>", "only tasks in this queue", label)
    .option("--group <key>", "only tasks of this group", label)
    .option("--request-id <id>", "only tasks with this request id", label)
    .option("--unique-key <key>", "only tasks that were enqueued with this unique key", label)
    .option("--failure <id>", "only failed tasks of this kind of failure; dbq failures lists them", label)
    .option("--schedule <name>", "only tasks that this schedule made", label)
    .option("--meta <key=value>", "only tasks whose meta has this value; may be repeated", metaPair)
    .option(
      "--since <time>",
      "only tasks enqueued since then: a time, or how long ago, such as 2h",
      timeOrAgo,
    )
    .option("--before <time>", "only tasks enqueued before then, in the same form", timeOrAgo);
}

export function filterOf(options: FilterOptions): CountFilter {
  const {
    status,
    func,
    queue: queueName,
    group,
    requestId,
    uniqueKey,
    failure,
    meta,
    since,
    before,
  } = options;
  const key = { group, requestId, uniqueKey, failure, scheduleName: options.schedule };
  return given({ status, func, queueName, ...key, meta, from: since, to: before }) as CountFilter;
}

/** A time, or how long ago it was. A number alone could be either. @throws InvalidArgumentError */
export function timeOrAgo(text: string): Date {
  if (/^\d{4}-/.test(text)) return timeOf(text);
  const ago = /[a-z]\s*$/i.test(text) ? new Date(Date.now() - duration(text)) : undefined;
  // A million years ago is no date.
  if (ago !== undefined && !Number.isNaN(ago.getTime())) return ago;
  throw new InvalidArgumentError(
    "Expected how long ago, such as 2h, or a time such as 2027-01-31T12:00:00Z.",
  );
}

/** @throws InvalidArgumentError, so that the error names the option */
function timeOf(text: string): Date {
  try {
    return time(text);
  } catch (error) {
    throw new InvalidArgumentError(`${(error as Error).message}.`);
  }
}
