/** How a row shows that a drain has it. Such a task runs in another system, so a death here is no failed attempt of it. */

/** The ids of the workers that drains register begin with this. Those of other workers begin with a host's name and a colon. */
export const drainPrefix = "drain@";

/** The `worker_id` of a task whose message was sent, and whose result somebody else will bring. No worker has this id. */
export const sentOwner = "drained";

/** Whether a drain has claimed this task, or has sent it. */
export function isOfDrain(workerId: string | null): boolean {
  return workerId !== null && (workerId === sentOwner || workerId.startsWith(drainPrefix));
}

/**
 * The id of a task's message, the same each time that it is sent. BullMQ allows no colons in it, and not a number alone.
 * @param retries how often the task was retried by hand
 */
export function messageId(origin: string, taskId: number, retries: number): string {
  return `dbq-${origin}-${taskId}${retries === 0 ? "" : `-r${retries}`}`;
}

/** The parts of such an id; undefined for any other text. */
export function readMessageId(text: string): { origin: string; id: number; retries: number } | undefined {
  const { origin, id, retries } =
    /^dbq-(?<origin>.{36})-(?<id>-?\d+)(?:-r(?<retries>\d+))?$/.exec(text)?.groups ?? {};
  return origin === undefined ? undefined : { origin, id: Number(id), retries: Number(retries ?? 0) };
}
