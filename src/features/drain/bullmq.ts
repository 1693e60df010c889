/** `dbq-ts/drain/bullmq`: drains tasks into a queue of BullMQ. */

import { wrong } from "../../base/options/validators.ts";
import { limited } from "../../base/runtime/timers.ts";
import { whileConnected } from "./connection.ts";
import { isolated } from "./refusals.ts";
import { BrokerUnavailableError, type DrainAnswer, type DrainMessage, type DrainTarget } from "./target.ts";

/** What dbq needs of BullMQ's `Queue`, versions 5 and 6. */
export interface BullmqQueue {
  readonly name: string;
  /** Its Redis client, once it is connected: in BullMQ 5 here, in BullMQ 6 in its backend. */
  readonly client?: Promise<unknown>;
  /** BullMQ 6: returns the object whose property `client` is the Redis client. */
  getBackend?(): unknown;
  /** Adds jobs, all in one round trip. */
  // biome-ignore lint/suspicious/noExplicitAny: BullMQ's types differ between versions.
  addBulk(jobs: any[]): Promise<unknown>;
  /** dbq calls it to see whether Redis answers. */
  count(): Promise<number>;
}

/** BullMQ's largest priority, which goes last; 0 goes first. */
const lastPriority = 2 ** 21;

/** The priority 0 of dbq. Half of BullMQ's range is above it and half below. */
const middle = 2 ** 20;

/** Turns a priority of dbq into one of BullMQ, where lower goes first. Beyond a million on both sides, priorities are equal. */
export function bullmqPriority(priority: number): number {
  return Math.min(lastPriority, Math.max(0, middle - Math.round(priority)));
}

/** Of all messages of one `addBulk`, which is one pipeline to Redis. */
const limits = { count: 10_000, bytes: 64 * 2 ** 20 };

/**
 * A target for `drain` that adds tasks to a queue of BullMQ, in one `addBulk` for each batch. `attempts` is the task's
 * `maxRetries` + 1, and the priority is turned round, since in BullMQ lower goes first. The job's id is the message's, so
 * BullMQ drops a repetition as long as it keeps the job. Other options of a message (`removeOnComplete`, `backoff`, …) are
 * options of the job. The queue is yours: close it after the drain.
 * @throws TypeError for something that is not a queue of BullMQ
 */
export function bullmq(queue: BullmqQueue): DrainTarget {
  if (typeof queue?.addBulk !== "function" || typeof queue.name !== "string")
    throw wrong("bullmq", "a Queue of BullMQ", queue);
  return {
    name: `bullmq:${queue.name}`,
    limits,
    send: (messages) => send(queue, messages),
    close: () => Promise.resolve(),
  };
}

async function send(queue: BullmqQueue, messages: readonly DrainMessage[]): Promise<DrainAnswer[]> {
  const client = await clientOf(queue);
  const add = async (some: readonly DrainMessage[]) => {
    await whileConnected(client, () => queue.addBulk(some.map(toJob)));
  };
  return await isolated(messages, add, (error) => isOfJob(queue, client, error));
}

function toJob({ id, name, data, options }: DrainMessage): object {
  // With the spread at the end, V8 takes a twentieth of the time that it takes with one at the start.
  const opts = { jobId: id, ...options };
  opts.jobId = id;
  if (opts.priority === undefined) delete opts.priority;
  else opts.priority = bullmqPriority(opts.priority);
  return { name, data, opts };
}

/** Milliseconds to wait for the first connection. */
const connectWithin = 1_000;

/** @throws BrokerUnavailableError */
async function clientOf(queue: BullmqQueue): Promise<object> {
  const backend = queue.getBackend?.() as { client?: Promise<unknown> } | undefined;
  const client = queue.client ?? backend?.client;
  if (client === undefined) return {};
  try {
    return (await limited(connectWithin, () => client)) as object;
  } catch (cause) {
    throw new BrokerUnavailableError("there is no connection to Redis yet", { cause });
  }
}

/**
 * Whether an error of `addBulk` is about one of its jobs. BullMQ checks all jobs before it sends any, and throws a plain
 * `Error` (or what `JSON.stringify` throws). What Redis or the connection refuses has another class, a code or a command; and
 * Redis must answer now, so that an outage with an error of an unknown kind is not taken for bad jobs.
 */
async function isOfJob(queue: BullmqQueue, client: object, error: unknown): Promise<boolean> {
  if (!(error instanceof Error) || "code" in error || "command" in error) return false;
  if (!["Error", "TypeError", "RangeError"].includes(error.name)) return false;
  if (/connection|closed|timed? ?out|writeable/i.test(error.message)) return false;
  await whileConnected(client, () => queue.count());
  return true;
}
