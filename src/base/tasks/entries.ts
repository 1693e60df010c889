/** The types of lists of calls. */
import type { TaskId } from "../../task.ts";
import type { AnyFunction } from "./registry.ts";

/** For each function of a tuple or array: the function and its arguments. */
export type Entries<F extends readonly AnyFunction[]> = {
  readonly [K in keyof F]: readonly [F[K], ...Parameters<F[K]>];
};

/** For each function of a tuple or array: the id of its task. */
export type Ids<F extends readonly AnyFunction[]> = {
  -readonly [K in keyof F]: TaskId<Awaited<ReturnType<F[K]>>>;
};
