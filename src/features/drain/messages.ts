/** Turns claimed tasks into messages, and messages into parts that one send of the target takes. */
import { show } from "../../base/options/durations.ts";
import { decodeArgs, decodeObject } from "../../base/values/codec.ts";
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
  /** Bytes of its data as JSON in UTF-8. */
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
  return { held, message, bytes: task && data ? sizeOf(message.data) : storedSizeOf(record) };
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

/** @returns bytes of the data as JSON in UTF-8 @throws TypeError for a value that JSON cannot carry */
function sizeOf(data: unknown): number {
  const text: string | undefined = JSON.stringify(data);
  if (text === undefined) throw new TypeError(`drain: data returned ${show(data)}, which JSON cannot carry`);
  return Buffer.byteLength(text);
}

const storedSizeOf = ({ args, kwargs, meta, requestId }: TaskRecord): number =>
  Buffer.byteLength(args) + Buffer.byteLength(kwargs) + Buffer.byteLength(meta) + (requestId?.length ?? 4);

/** @throws RangeError */
function refuseLarge({ bytes, message }: Pick<Staged<Holder>, "bytes" | "message">, limit: number): void {
  if (bytes > limit)
    throw new RangeError(
      `the message of ${show(message.name)} takes ${bytes} bytes, and the target takes ${limit} at most`,
    );
}

/** The messages in their order, in parts within the target's limits. */
export function parts<S extends Pick<Staged<Holder>, "bytes">>(
  all: readonly S[],
  limits: DrainTarget["limits"],
): S[][] {
  const found: S[][] = [];
  let [last, bytes]: [S[], number] = [[], 0];
  for (const one of all) {
    if (last.length === 0 || last.length >= limits.count || bytes + one.bytes > limits.bytes) {
      [last, bytes] = [[], 0];
      found.push(last);
    }
    last.push(one);
    bytes += one.bytes;
  }
  return found;
}
