/** What is promised to those who enqueue. */
import { isFinished, type Promises, repeated } from "./finder.ts";

export const enqueues: Promises = {
  "an acknowledged task is there": ({ entries, tasks }, { mayBeDeleted = () => false }) => {
    const ids = new Set(tasks.map(({ id }) => id));
    return entries.filter(
      ({ what, task = 0 }) => what === "acknowledged" && !ids.has(task) && !mayBeDeleted(task),
    );
  },

  "an enqueue is told the id of its own task": ({ entries, tasks }) => {
    const asked = new Map(tasks.map(({ id, requestId }) => [id, requestId]));
    const acknowledged = entries.filter(({ what }) => what === "acknowledged");
    // Those with a unique key share a task, by their own wish.
    const apart = acknowledged.filter(({ note }) => !String(note).startsWith("unique"));
    const strange = acknowledged.filter(({ task = 0, note }) => {
      const named = /^(batch|order):/.test(String(note)) && asked.has(task);
      return named && asked.get(task)?.startsWith(String(note)) !== true;
    });
    return [...repeated(apart), ...strange];
  },

  "no task is deleted unasked": ({ moves }, { mayBeDeleted = () => false }) =>
    moves.filter(({ status, task }) => status === null && !mayBeDeleted(task)),

  "an id is given to one task": ({ moves }) =>
    repeated(moves.filter(({ wasStatus }) => wasStatus === null).map(({ task }) => ({ task }))),

  "everything comes to an end": ({ tasks }, { ended = true }) =>
    ended ? tasks.filter(({ status }) => !isFinished(status)) : [],

  "what was rolled back left no trace": ({ entries, tasks, orders }) => {
    const gone = new Set(entries.filter(({ what }) => what === "rolledBack").map(({ note }) => note));
    return [
      ...tasks.filter(({ requestId }) => gone.has(requestId)),
      ...orders.filter((order) => gone.has(order)),
    ];
  },

  "a transaction's task and its order are there together": ({ tasks, orders }) => {
    const asked = tasks.map(({ requestId }) => requestId).filter((id) => id?.startsWith("order"));
    const [withTask, withOrder] = [new Set(asked), new Set(orders)];
    return [
      ...asked.filter((id) => !withOrder.has(id as string)),
      ...orders.filter((id) => !withTask.has(id)),
    ];
  },

  "a batch is there whole or not at all": ({ tasks }) => {
    const sizes = new Map<string, number>();
    for (const { requestId } of tasks)
      if (requestId?.startsWith("batch")) sizes.set(requestId, (sizes.get(requestId) ?? 0) + 1);
    // Its name ends in how many it is.
    return [...sizes].filter(([name, size]) => size !== Number(name.split(":").at(-1)));
  },
};
