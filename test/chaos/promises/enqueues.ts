/** The promises to enqueuers. */
import { isFinished, type Promises, repeated } from "./finder.ts";

export const enqueues: Promises = {
  "an acknowledged task exists": ({ entries, tasks }, { mayBeDeleted = () => false }) => {
    const ids = new Set(tasks.map(({ id }) => id));
    return entries.filter(
      ({ what, task = 0 }) => what === "acknowledged" && !ids.has(task) && !mayBeDeleted(task),
    );
  },

  "an enqueue returns the id of its own task": ({ entries, tasks }) => {
    const asked = new Map(tasks.map(({ id, requestId }) => [id, requestId]));
    const acknowledged = entries.filter(({ what }) => what === "acknowledged");
    // Tasks with the same unique key share an id on purpose.
    const apart = acknowledged.filter(({ note }) => !String(note).startsWith("unique"));
    const strange = acknowledged.filter(({ task = 0, note }) => {
      const named = /^(batch|order):/.test(String(note)) && asked.has(task);
      return named && asked.get(task)?.startsWith(String(note)) !== true;
    });
    return [...repeated(apart), ...strange];
  },

  "no task is deleted without a request": ({ moves }, { mayBeDeleted = () => false }) =>
    moves.filter(({ status, task }) => status === null && !mayBeDeleted(task)),

  "an id is used for one task": ({ moves }) =>
    repeated(moves.filter(({ wasStatus }) => wasStatus === null).map(({ task }) => ({ task }))),

  "every task ends": ({ tasks }, { ended = true }) =>
    ended ? tasks.filter(({ status }) => !isFinished(status)) : [],

  "a rolled-back transaction leaves no trace": ({ entries, tasks, orders }) => {
    const gone = new Set(entries.filter(({ what }) => what === "rolledBack").map(({ note }) => note));
    return [
      ...tasks.filter(({ requestId }) => gone.has(requestId)),
      ...orders.filter((order) => gone.has(order)),
    ];
  },

  "an app's order and its task exist together": ({ tasks, orders }) => {
    const asked = tasks.map(({ requestId }) => requestId).filter((id) => id?.startsWith("order"));
    const [withTask, withOrder] = [new Set(asked), new Set(orders)];
    return [
      ...asked.filter((id) => !withOrder.has(id as string)),
      ...orders.filter((id) => !withTask.has(id)),
    ];
  },

  "a batch exists as a whole or not at all": ({ tasks }) => {
    const sizes = new Map<string, number>();
    for (const { requestId } of tasks)
      if (requestId?.startsWith("batch")) sizes.set(requestId, (sizes.get(requestId) ?? 0) + 1);
    // A batch's name ends with its size.
    return [...sizes].filter(([name, size]) => size !== Number(name.split(":").at(-1)));
  },
};
