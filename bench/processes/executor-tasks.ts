/** The same small function in each place. A thread or process imports this module. */
import { task } from "dbq-ts";

const add = (a: number, b: number): number => a + b;
const module = import.meta.url;

export const adds = {
  main: task("add-main", add),
  thread: task("add-thread", add, { runIn: "thread", module }),
  process: task("add-process", add, { runIn: "process", module }),
};
