/** Warns of functions whose queue no worker serves: their tasks would wait for ever, without an error. */

import { after } from "../base/runtime/timers.ts";
import type { TaskDefinition } from "../base/tasks/registry.ts";
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
  const found = new Map<string, string[]>();
  for (const { name, call } of definitions)
    if (call.queueName !== undefined) found.set(call.queueName, [...(found.get(call.queueName) ?? []), name]);
  return found;
}

function textOf(queueName: string, tasks: readonly string[], served: readonly string[]): string {
  const more = tasks.length > mostNames ? ` and ${tasks.length - mostNames} more` : "";
  const names = tasks.slice(0, mostNames).map(quoted).join(", ");
  return (
    `no worker serves queue ${quoted(queueName)}, to which ${names}${more} ${tasks.length > 1 ? "go" : "goes"}: ` +
    `this worker serves ${served.map(quoted).join(", ")}; add the queue to a worker ` +
    "(queueName of new Worker, --queue of dbq worker), or change the task's queueName"
  );
}

const quoted = (text: string) => JSON.stringify(text);
