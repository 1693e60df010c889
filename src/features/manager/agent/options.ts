/** The options of an agent. */
import { X509Certificate } from "node:crypto";
import type { Duration } from "../../../base/options/durations.ts";
import { defaultMaxTasksPerChild } from "../../../base/options/options.ts";
import {
  anything,
  duration,
  integer,
  type Reader,
  readOptions,
  wrong,
} from "../../../base/options/validators.ts";
import type { Place } from "./client.ts";

/** Options of `new Agent`. */
export interface AgentOptions<C = unknown> {
  /**
   * The URLs of the Managers: `https://host:port`, `unix:` and a path, or `http://` to this machine. It asks the first one that
   * answers.
   */
  managers: string | readonly string[];
  /** What `addAgent`, or `dbq agent add`, has printed. */
  token: string;
  /** How many tasks run at the same time, from 1 to 1,000. @default 10 */
  concurrency?: number;
  /** The registered functions that it runs. @default all that are registered */
  // biome-ignore lint/suspicious/noExplicitAny: functions of any arguments; they are looked up, not called, by this type.
  tasks?: readonly ((...args: any[]) => unknown)[];
  /** The value of `currentTask().context` in each task. Not copied. */
  context?: C;
  /**
   * How many tasks a thread or process runs before another one replaces it: it bounds what leaks in the functions. For tasks
   * with `runIn: "thread"` or `"process"`.
   * @default 1_000
   */
  maxTasksPerChild?: number;
  /** Certificates, in PEM format, that the Managers' own are checked against. @default those that Node knows */
  ca?: string | Buffer;
}

/** Options of `agent.stop`. */
export interface AgentStopOptions {
  /** How long running tasks may take to finish; then they are handed back. @default "30s" */
  grace?: Duration;
}

export interface ReadAgentOptions {
  managers: readonly Place[];
  token: string;
  concurrency: number;
  tasks: readonly unknown[] | undefined;
  context: unknown;
  maxTasksPerChild: number;
  ca: string | Buffer | undefined;
}

const isLoopback = (host: string) => /^(localhost|\[::1\]|127\.\d{1,3}\.\d{1,3}\.\d{1,3})$/.test(host);

const place: Reader<Place> = (value, name) => {
  const text = typeof value === "string" ? value : "";
  if (/^unix:./.test(text)) {
    const socketPath = text.slice("unix:".length);
    return { url: text, secure: false, options: { socketPath } };
  }
  const url = /^https?:\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url?.pathname !== "/" || url.username !== "")
    throw wrong(name, 'a URL such as "https://mgr-a:7420", or "unix:" and a path', value);
  const secure = url.protocol === "https:";
  if (!secure && !isLoopback(url.hostname))
    throw new TypeError(`${name}: the token would cross the network in clear: use https:, got ${text}`);
  const port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  return { url: url.origin, secure, options: { host, port } };
};

const places: Reader<Place[]> = (value, name) => {
  const given = Array.isArray(value) ? value : [value];
  if (given.length === 0) throw wrong(name, "at least one URL", value);
  return given.map((one) => place(one, name));
};

const token: Reader<string> = (value, name) => {
  if (typeof value === "string" && /^\S{1,200}$/.test(value)) return value;
  // Not with its value: it is a secret.
  throw new TypeError(`${name}: expected the token that dbq agent add has printed`);
};

/** Node ignores a text without a certificate, and then trusts no Manager. */
const certificates: Reader<string | Buffer> = (value, name) => {
  if (typeof value !== "string" && !Buffer.isBuffer(value)) throw wrong(name, "PEM text or a Buffer", value);
  try {
    new X509Certificate(value);
    return value;
  } catch (error) {
    throw new TypeError(`${name}: expected certificates in PEM format: ${(error as Error).message}`);
  }
};

/** @throws TypeError */
export function readAgentOptions(given: unknown): ReadAgentOptions {
  const read = readOptions<ReadAgentOptions>(given, "new Agent", {
    managers: places,
    token,
    concurrency: integer(1, 1_000),
    tasks: (value, name) => {
      if (Array.isArray(value) && value.length > 0) return value;
      throw wrong(name, "an array of registered functions", value);
    },
    context: anything,
    maxTasksPerChild: integer(1),
    ca: certificates,
  });
  const { managers, token: theirs } = read;
  if (managers === undefined)
    throw new TypeError("new Agent: managers: name the URL of at least one Manager");
  if (theirs === undefined)
    throw new TypeError("new Agent: token: pass the token that dbq agent add has printed");
  return {
    concurrency: 10,
    tasks: undefined,
    context: undefined,
    maxTasksPerChild: defaultMaxTasksPerChild,
    ca: undefined,
    ...read,
    managers,
    token: theirs,
  };
}

/** @throws TypeError */
export function readAgentStopOptions(given: unknown): { grace: number } {
  return {
    grace: 30_000,
    ...readOptions(given, "agent.stop", { grace: duration({ max: Number.POSITIVE_INFINITY }) }),
  };
}
