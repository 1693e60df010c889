/** Turns claimed tasks into messages, and messages into parts that one send of the target takes. */
import { show } from "../../base/options/durations.ts";
import { decodeArgs, decodeObject } from "../../base/values/codec.ts";
import { portionsOf } from "../../base/values/portions.ts";
import { toTask } from "../../base/values/records.ts";
import type { TaskRecord } from "../../task.ts";
import type { ReadDrainOptions } from "./options.ts";
import type { DrainMessage, DrainTarget, MessageOptions } from "./target.ts";

/** What holds a claimed task. */
interface Holder {
  readonly record: TaskRecord;
}

/** A claimed task and its message. */
export interface Staged<H extends Holder> {
  held: H;
  message: DrainMessage;
  /** Bytes of the message as JSON in UTF-8, with the comma to the next one. */
  bytes: number;
}

/** A task that cannot be sent, and why. */
export interface Refused<H extends Holder> {
  held: H;
  error: unknown;
}

/** Makes the message of each task. A task whose message cannot be made is refused alone. */
export function staged<H extends Holder>(
  batch: readonly H[],
  options: Pick<ReadDrainOptions, "name" | "data" | "options"> & { to: Pick<DrainTarget, "limits"> },
  idOf: (record: TaskRecord) => string,
): { ready: Staged<H>[]; refused: Refused<H>[] } {
  const [ready, refused]: [Staged<H>[], Refused<H>[]] = [[], []];
  for (const held of batch) {
    try {
      const one = stage(held, options, idOf(held.record));
      refuseLarge(one, options.to.limits.bytes);
      ready.push(one);
    } catch (error) {
      refused.push({ held, error });
    }
  }
  return { ready, refused };
}

function stage<H extends Holder>(
  held: H,
  { name, data, options }: Pick<ReadDrainOptions, "name" | "data" | "options">,
  id: string,
): Staged<H> {
  const { record } = held;
  // Building the task costs more than the message: only for functions that want it.
  const task = name || data || options ? toTask(record) : undefined;
  const message: DrainMessage = {
    id,
    name: task && name ? named(name(task)) : record.func,
    data: task && data ? data(task) : dataOf(record),
    options: task && options ? checked(options(task)) : optionsOf(record),
  };
  return { held, message, bytes: sizeOf(message) };
}

const dataOf = ({ args, kwargs, meta, requestId }: TaskRecord) => ({
  args: decodeArgs(args),
  kwargs: decodeObject(kwargs, "kwargs"),
  meta: decodeObject(meta, "meta"),
  requestId,
});

const optionsOf = ({ priority, maxRetries }: TaskRecord): MessageOptions => ({
  priority,
  attempts: maxRetries + 1,
});

/** @throws TypeError */
function named(name: unknown): string {
  if (typeof name === "string" && name !== "") return name;
  throw new TypeError(`drain: name returned ${show(name)}, not the name of a message`);
}

/** @throws TypeError for a value that is not an object, or a number that is not finite */
function checked(options: unknown): MessageOptions {
  if (typeof options !== "object" || options === null || Array.isArray(options))
    throw new TypeError(`drain: options returned ${show(options)}, not an object`);
  for (const key of ["priority", "attempts", "delay"] as const) {
    const value = (options as MessageOptions)[key];
    if (value !== undefined && !Number.isFinite(value))
      throw new TypeError(`drain: options returned the ${key} ${show(value)}, not a number`);
  }
  return options as MessageOptions;
}

/** @throws TypeError for what JSON cannot carry */
function sizeOf(message: DrainMessage): number {
  const data: string | undefined = JSON.stringify(message.data);
  if (data === undefined)
    throw new TypeError(`drain: data returned ${show(message.data)}, which JSON cannot carry`);
  // The 0 takes the byte of the comma.
  return Buffer.byteLength(JSON.stringify({ ...message, data: 0 })) + Buffer.byteLength(data);
}

/** Bytes of an array of messages beside theirs: two brackets, less the comma after the last message. */
const brackets = 1;

/** @throws RangeError */
function refuseLarge({ bytes, message }: Pick<Staged<Holder>, "bytes" | "message">, limit: number): void {
  if (brackets + bytes > limit)
    throw new RangeError(
      `the message of ${show(message.name)} takes ${brackets + bytes} bytes, and the target takes ${limit} at most`,
    );
}

/** The messages in their order, in parts within the target's limits. */
export function parts<S extends Pick<Staged<Holder>, "bytes">>(
  all: readonly S[],
  limits: DrainTarget["limits"],
): S[][] {
  const most = { count: limits.count, size: limits.bytes - brackets };
  return [...portionsOf(all, ({ bytes }) => bytes, most)];
}
