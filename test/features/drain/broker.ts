/** Brokers in memory, each with a fault, and what tests wait for. */
import { onTestFinished } from "vitest";
import {
  type Drain,
  type DrainAnswer,
  type DrainMessage,
  type DrainOptions,
  type DrainTarget,
  drain,
} from "../../../src/features/drain/index.ts";
import type { Queue } from "../../../src/index.ts";

type Send = (messages: readonly DrainMessage[], signal: AbortSignal) => Promise<DrainAnswer[]>;

/** Takes every message, and drops repetitions by their ids, as BullMQ does. */
export class Broker implements DrainTarget {
  readonly name = "memory";
  readonly limits: { count: number; bytes: number };
  /** What has arrived, by id. */
  readonly received = new Map<string, DrainMessage>();
  /** The ids of each send. */
  readonly sends: string[][] = [];
  closed = 0;
  /** How the next sends go; after them, all is well. */
  faults: Send[] = [];

  constructor(limits: Partial<DrainTarget["limits"]> = {}) {
    this.limits = { count: 1_000, bytes: 1_000_000, ...limits };
  }

  async send(messages: readonly DrainMessage[], signal: AbortSignal): Promise<DrainAnswer[]> {
    const bytes = Buffer.byteLength(JSON.stringify(messages));
    if (bytes > this.limits.bytes) throw new Error(`${bytes} bytes in one send`);
    this.sends.push(messages.map(({ id }) => id));
    const fault = this.faults.shift();
    return fault ? await fault(messages, signal) : this.take(messages);
  }

  take(messages: readonly DrainMessage[]): DrainAnswer[] {
    return messages.map((message) => {
      if (this.received.has(message.id)) return "duplicate";
      this.received.set(message.id, message);
      return "sent";
    });
  }

  async close(): Promise<void> {
    this.closed += 1;
  }
}

/** A drain that is stopped after the test, and the errors that it reports. */
export function newDrain(queue: Queue, options: DrainOptions): { carrier: Drain; errors: unknown[] } {
  const carrier = drain(queue, options);
  const errors: unknown[] = [];
  carrier.on("error", (error) => errors.push(error));
  onTestFinished(() => carrier.stop({ grace: 0 }));
  return { carrier, errors };
}

/** Resolves when the drain has let so many messages go, with their ids. */
export function sentBy(carrier: Drain, count: number): Promise<string[]> {
  return new Promise((resolve) => {
    const ids: string[] = [];
    carrier.on("sent", (some) => {
      ids.push(...some);
      if (ids.length >= count) resolve(ids);
    });
  });
}

/** The next event of this name. */
export function next<T extends unknown[]>(carrier: Drain, event: string): Promise<T> {
  return new Promise((resolve) => {
    (carrier as { once(event: string, listener: (...args: T) => void): unknown }).once(event, (...args) =>
      resolve(args),
    );
  });
}
