/** What `Child` needs of a thread or a process: how to start it, send to it and end it. */
import type { Port, ToChild } from "./messages.ts";

/** What a child is started with. Two tasks with the same settings share children. */
export interface ChildSettings {
  runIn: "thread" | "process";
  /** The URL of the module that registers the tasks. */
  module: string;
  /** Limit of the heap in bytes; undefined: Node's own. */
  memory: number | undefined;
  /** Limit in bytes of a result. */
  maxPayload: number;
}

/** How a child has ended. */
export interface ChildEnd {
  exitCode: number | null;
  signal: string | null;
  /** The last 8 KiB that it wrote to stderr during the last call. */
  stderr: string;
  /** The error that ended a thread, or that prevented the start. */
  error?: unknown;
}

/** What a started thread or process reports. */
export interface ChildEvents {
  /** The message is not validated. */
  onMessage(message: unknown): void;
  /** It has ended. Called once, after its last message. */
  onEnd(end: ChildEnd): void;
}

/** A thread or process that was started. */
export interface Transport extends Port<ToChild> {
  /** Forgets the text that it has written to stderr. */
  clearStderr(): void;
  /** SIGTERM for a process and those that it has started; the end of a thread. */
  terminate(): void;
  /** SIGKILL for a process and those that it has started; the end of a thread. */
  kill(): void;
}
