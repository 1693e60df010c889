/** The options of `drain`. */
import { type Duration, show } from "../../base/options/durations.ts";
import {
  boolean,
  callable,
  duration,
  integer,
  label,
  oneOf,
  readOptions,
  wrong,
} from "../../base/options/validators.ts";
import type { Task } from "../../task.ts";
import type { DrainTarget, MessageOptions } from "./target.ts";

/** Options of `drain`. */
export interface DrainOptions {
  /** The queue whose tasks are sent: of all functions, whether this process knows them or not. @default "default" */
  queueName?: string;
  /** Where to: `bullmq(queue)`, `redisStream(client, key)`, or a target of your own. */
  to: DrainTarget;
  /** The most tasks that are claimed and sent together, from 1 to 10,000. @default 500 */
  batch?: number;
  /** The message's name. @default the name of the function */
  name?: (task: Task) => string;
  /** The message's payload, any JSON value. @default `{ args, kwargs, meta, requestId }` */
  data?: (task: Task) => unknown;
  /**
   * The message's options. The priority is dbq's (higher goes first), whatever the target's is.
   * @default `{ priority, attempts }`, where `attempts` is `maxRetries` + 1
   */
  options?: (task: Task) => MessageOptions;
  /**
   * `"group"`: of the tasks with the same `group_key` one at a time is under way. A group stops at a refused task, until that
   * is retried or cancelled.
   * @default no order
   */
  ordered?: "group";
  /**
   * How long sent tasks are kept as `completed`, with the result `{ target, messageId }`; 0 deletes them at once.
   * @default the queue's retention, which also bounds it
   */
  keep?: Duration;
  /**
   * What happens to a task whose message the target refuses: it fails; or it is retried as after any failure, with a retry
   * charged and the default backoff.
   * @default "fail"
   */
  onRefused?: "fail" | "retry";
  /**
   * Whether sent tasks stay `running` until `queue.settleDrained` brings their results.
   * @default false: a task is completed when its message has arrived
   */
  results?: boolean;
  /** With `results`: how long after the send a task without a result fails. @default "1d" */
  resultsWithin?: Duration;
  /**
   * How long after its last heartbeat a drain is declared dead, and another one takes over, when its process cannot be
   * observed; from 1 s to 1 day.
   * @default "15s"
   */
  lease?: Duration;
}

export interface ReadDrainOptions {
  queueName: string;
  to: DrainTarget;
  batch: number;
  name: ((task: Task) => string) | undefined;
  data: ((task: Task) => unknown) | undefined;
  options: ((task: Task) => MessageOptions) | undefined;
  ordered: "group" | undefined;
  /** Milliseconds; undefined: the queue's retention alone decides. */
  keep: number | undefined;
  onRefused: "fail" | "retry";
  results: boolean;
  resultsWithin: number;
  lease: number;
}

const day = 24 * 60 * 60 * 1_000;

/** @param retention milliseconds that the queue keeps completed tasks. @throws TypeError */
export function readDrainOptions(given: unknown, retention: number): ReadDrainOptions {
  const read = readOptions<ReadDrainOptions>(given, "drain", {
    queueName: label,
    to: readTarget,
    batch: integer(1, 10_000),
    name: callable,
    data: callable,
    options: callable,
    ordered: oneOf("group"),
    keep: duration({ max: Number.POSITIVE_INFINITY }),
    onRefused: oneOf("fail", "retry"),
    results: boolean,
    resultsWithin: duration({ min: 1 }),
    lease: duration({ min: 1_000, max: day }),
  });
  const { to, keep, results = false, resultsWithin } = read;
  if (to === undefined) throw wrong("drain: to", "a target, such as bullmq(queue)", to);
  if (keep !== undefined && keep > retention)
    throw new TypeError(
      `drain: keep is ${show(keep)} ms, but the queue keeps completed tasks for ${retention} ms: open it with a longer ` +
        "retention.completed, or keep them for less",
    );
  if (keep === 0 && results)
    throw new TypeError(
      "drain: keep: 0 would delete the results that results: true waits for: keep them longer",
    );
  if (resultsWithin !== undefined && !results)
    throw new TypeError("drain: resultsWithin is for results: true, which is not set");
  return { ...defaults, ...read, to, results };
}

const defaults = {
  queueName: "default",
  batch: 500,
  name: undefined,
  data: undefined,
  options: undefined,
  ordered: undefined,
  keep: undefined,
  onRefused: "fail",
  resultsWithin: day,
  lease: 15_000,
} as const;

/** @throws TypeError */
function readTarget(value: unknown, name: string): DrainTarget {
  const target = value as Partial<DrainTarget> | null | undefined;
  const { count, bytes } = target?.limits ?? {};
  const limits = [count, bytes].every((limit) => typeof limit === "number" && limit >= 1);
  if (typeof target?.send === "function" && typeof target.close === "function" && limits)
    return target as DrainTarget;
  throw wrong(name, "a target: { send, limits: { count, bytes }, close }, as bullmq(queue) makes it", value);
}
