/** What the column `mode` of a wait says of it, beside the modes of `Wait`. */

/** The modes of a task that has not started. With `chain`, the task gets the result of the one before as its last argument. */
export const [chained, afterGroup] = ["chain", "then"];
/** The modes of a group. With `cancel`, the group ends with the first member that does not complete. */
export const [groupCancels, groupContinues] = ["group:cancel", "group:continue"];

export const isAllOf = (mode: string): boolean => mode.startsWith("all:");

/** Whether the first child that does not complete is the end of the wait for all of them. */
export const cutsAtFailure = (mode: string): boolean => isAllOf(mode) || mode === groupCancels;
