/** Warns of functions whose queue no worker serves: their tasks would wait for ever, without an error. */

import { after } from "../base/runtime/timers.ts";
import type { TaskDefinition } from "../base/tasks/registry.ts";
import { servingOptions } from "../base/text/shell.ts";
import { groupBy } from "../base/values/group-by.ts";
import { warn } from "../events.ts";
import type { WorkerStore } from "../store.ts";

/** Milliseconds after a worker's start. By then the other workers of its process, or of its deployment, have started too. */
const checkAfterMs = 2_000;

/** A warning names so many functions, and counts the others. */
const mostNames = 5;

export interface UnservedQueuesHost {
  readonly store: Pick<WorkerStore, "workers">;
  /** The queues that the worker serves. */
  readonly queueNames: readonly string[];
  /** The functions that the worker runs. */
  definitions(): readonly TaskDefinition[];
  report(error: unknown, where: string): void;
}

/** Checks once, a moment after the worker's start. Returns a function that cancels the check. */
export function warnOfUnservedQueues(host: UnservedQueuesHost): () => void {
  const check = () => {
    warnNow(host).catch((error: unknown) => host.report(error, "checking which queues are served"));
  };
  const timer = after(checkAfterMs, check, { keepAlive: false });
  return () => timer.clear();
}

/** One warning for each queue. A queue that a worker of another process serves needs none. */
async function warnNow({ store, queueNames, definitions }: UnservedQueuesHost): Promise<void> {
  const unserved = namesByQueue(definitions());
  for (const queueName of queueNames) unserved.delete(queueName);
  if (unserved.size === 0) return;
  for (const worker of await store.workers())
    for (const queueName of worker.queueNames) unserved.delete(queueName);
  for (const [queueName, tasks] of unserved)
    warn(textOf(queueName, tasks, queueNames), { queueName, tasks, served: queueNames });
}

/** The functions that name a queue, by that queue. */
function namesByQueue(definitions: readonly TaskDefinition[]): Map<string, string[]> {
  const naming = definitions.filter(({ call }) => call.queueName !== undefined);
  const groups = groupBy(naming, ({ call }) => call.queueName as string);
  return new Map([...groups].map(([queueName, group]) => [queueName, group.map(({ name }) => name)]));
}

function textOf(queueName: string, tasks: readonly string[], served: readonly string[]): string {
  const more = tasks.length > mostNames ? ` and ${tasks.length - mostNames} more` : "";
  const names = tasks.slice(0, mostNames).map(quoted).join(", ");
  const queues = [...served, queueName];
  return (
    `tasks of ${names}${more} go to the queue ${quoted(queueName)}, and no worker on this database serves that queue, so ` +
    `they will wait: start this worker with ${servingOptions(queues)} (in code: queueName: ` +
    `[${queues.map(quoted).join(", ")}]), start another worker for it, or change the queueName of the task`
  );
}

const quoted = (text: string) => JSON.stringify(text);
