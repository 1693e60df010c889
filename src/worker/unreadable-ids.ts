/** Warns of a task whose id JavaScript has no number for: no worker runs it. */
import { warn } from "../events.ts";

/** @returns a function that takes such an id, if there is one, as often as a look has found it: the first one is warned of */
export function unreadableIdWarning(): (id: string | undefined) => void {
  let hasWarned = false;
  return (id) => {
    if (id === undefined || hasWarned) return;
    hasWarned = true;
    const problem = `no worker runs the task with the id ${id}: JavaScript has no number for it`;
    warn(`${problem}; dbq doctor names all such tasks, and what to do`, { id });
  };
}
