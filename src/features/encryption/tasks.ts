/** Tasks on their way into a store and out of it. */
import type { NewTask, Operated } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import type { Sealer } from "./sealer.ts";

export const toInsert = <T extends NewTask>(sealer: Sealer, tasks: readonly T[]): T[] =>
  tasks.map((task) => sealer.toInsert(task));

export function openAll<T extends TaskRecord>(sealer: Sealer, tasks: T[]): T[] {
  for (const task of tasks) sealer.openTask(task);
  return tasks;
}

export function openOperated(sealer: Sealer, operated: Operated): Operated {
  if (operated) sealer.openTask(operated.record);
  return operated;
}
