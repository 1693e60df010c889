/** Attributes that the spans or metrics of one function have in common. */
import type { Attributes } from "@opentelemetry/api";
import type { ObservedTask } from "./subscriptions.ts";

/**
 * Makes the attributes of a function once, not for each of its tasks, as long as its queue stays the same. At most as many
 * are kept as there are functions.
 */
export function perFunction(make: (task: ObservedTask) => Attributes): (task: ObservedTask) => Attributes {
  const made = new Map<string, { queueName: string; attributes: Attributes }>();
  return (task) => {
    const known = made.get(task.func);
    if (known?.queueName === task.queueName) return known.attributes;
    const attributes = Object.freeze(make(task));
    made.set(task.func, { queueName: task.queueName, attributes });
    return attributes;
  };
}
