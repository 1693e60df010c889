/**
 * Which functions `enqueueTask` takes, by their types: a function with a parameter or a result that JSON cannot carry is a type
 * error.
 *
 * `task` marks such a function, and only `enqueueTask` refuses the mark: the function can still be called directly, and
 * generic code over any function compiles as before. The check goes two levels deep, so that large types cost little; the
 * codec checks each value at run time, at any depth.
 */

import type { CallOptions } from "./task-options.ts";

/** A function that can be enqueued. */
export interface Enqueueable {
  // biome-ignore lint/suspicious/noExplicitAny: as `AnyFunction`, a bound of type parameters.
  (...args: any[]): unknown;
  readonly notStorable?: never;
}

interface Why {
  parameter: "JSON cannot carry a parameter of this task: it is or has a Date, Map, Set, bigint, symbol, function or class instance";
  result: "JSON cannot carry the result of this task: it is or has a Date, Map, Set, bigint, symbol, function or class instance";
}

/**
 * On the type of a task `F` that has a required parameter without any value that JSON can carry, or such a result (`R`, awaited);
 * otherwise nothing. The task with other options has the mark too.
 */
export type MarkUnstorable<A extends unknown[], R, F> = [HasUnstorable<A>] extends [true]
  ? Mark<Why["parameter"], F>
  : [IsUnstorable<R>] extends [true]
    ? Mark<Why["result"], F>
    : unknown;

// No interface: a declaration of a user's task could not name it.
type Mark<Reason, F> = {
  readonly notStorable: Reason;
  with(overrides: CallOptions & { kwargs?: undefined }): F & { readonly notStorable: Reason };
};

/** Optional parameters may be left out, and a union may have a member that JSON can carry: these are no errors. */
type HasUnstorable<A> = A extends readonly [infer First, ...infer Rest]
  ? IsUnstorable<First> extends true
    ? true
    : HasUnstorable<Rest>
  : false;

type IsUnstorable<T> = [T] extends [Primitive]
  ? false
  : IsOpaque<T> extends true
    ? true
    : [T] extends [readonly (infer Item)[]]
      ? IsOpaque<Item>
      : [T] extends [object]
        ? HasOpaque<T>
        : false;

/** An optional property may be left out. Those of a record count as the items of an array do. */
type HasOpaque<T extends object> = true extends {
  [K in keyof T]-?: Record<never, never> extends Pick<T, K>
    ? string extends K
      ? IsOpaque<T[K]>
      : false
    : IsOpaque<T[K]>;
}[keyof T]
  ? true
  : false;

/** No data: a bigint, a symbol, a function, or an object with methods, such as a Date or a Map. */
type IsOpaque<T> = 0 extends 1 & T
  ? false
  : [T] extends [Primitive]
    ? false
    : [T] extends [Bare]
      ? true
      : [T] extends [readonly unknown[]]
        ? false
        : [T] extends [object]
          ? true extends {
              [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? false : IsBare<T[K]>;
            }[keyof T]
            ? true
            : false
          : false;

/** A branded string or number is one of these, and has methods too. */
type Primitive = string | number | boolean | null | undefined;

type Bare = bigint | symbol | ((...args: never[]) => unknown);
type IsBare<T> = 0 extends 1 & T ? false : [T] extends [never] ? false : [T] extends [Bare] ? true : false;
