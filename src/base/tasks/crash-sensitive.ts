/** Which tasks a crash of their worker would harm more than others. */

import type { TaskRecord } from "../../task.ts";

/** A task is crash-sensitive when one of these is true. Claims evaluate the same list in SQL (`stores/sql/admission.ts`). */
export const crashSensitiveWhen = [
  { field: "retryCount", is: ">", value: 0 },
  { field: "maxRetries", is: "=", value: 0 },
] as const;

/**
 * Whether a crash of its worker would end the task, or one may have been charged to it before. A crash is charged to all
 * tasks of the worker, since nothing shows which of them caused it.
 */
export function isCrashSensitive(task: Pick<TaskRecord, "retryCount" | "maxRetries">): boolean {
  return crashSensitiveWhen.some(({ field, is, value }) =>
    is === ">" ? task[field] > value : task[field] === value,
  );
}
