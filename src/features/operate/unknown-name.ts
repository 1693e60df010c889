/** Says that a name which somebody pauses may be misspelt. */
import type { PauseTarget } from "../../base/options/limits.ts";
import { registeredNames } from "../../base/tasks/registry.ts";
import { internalsOf, type Queue } from "../queue.ts";
import { findTasks } from "./find.ts";

/** Milliseconds in which a task of this name is looked for. */
const budget = 50;

/**
 * A sentence for people when nothing is known by this name: no task, no live worker of the queue, no function that this
 * process has registered, and no function with a limit in the code of a worker. Undefined: something is. Among many tasks,
 * only those that are read within the budget count.
 * @throws DatabaseError
 */
export async function unknownName(queue: Queue, target: PauseTarget): Promise<string | undefined> {
  const isQueue = "queueName" in target;
  const isKnown = isQueue
    ? (await queue.health()).workers.some(({ queueNames }) => queueNames.includes(target.queueName))
    : target.group === undefined && registeredNames().includes(target.func);
  if (isKnown) return undefined;
  const { store } = internalsOf(queue);
  const { tasks, looked, next } = await findTasks(store, target, { limit: 1, budget });
  if (tasks.length > 0) return undefined;
  const several = next === null ? "No task" : `None of the newest ${looked?.toLocaleString("en-US")} tasks`;
  if (isQueue) return `${several} is in a queue of this name, and no worker serves it: check the spelling.`;
  if (target.group !== undefined) return `${several} is in this group of this function: check the spelling.`;
  const records = await store.limits.records();
  if (records.some(({ kind, name }) => kind === "code" && name === target.func)) return undefined;
  return `${several} has a function of this name, and this process has registered none: check the spelling.`;
}
