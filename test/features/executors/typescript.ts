/** Tasks whose module is this TypeScript itself. */
import { task } from "../../../src/index.ts";

const add_ = (a: number, b: number): number => a + b;

export const add = {
  thread: task("typescript-thread", add_, { runIn: "thread", module: import.meta.url }),
  process: task("typescript-process", add_, { runIn: "process", module: import.meta.url }),
};
