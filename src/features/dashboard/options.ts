/** The options of `dashboard`. */
import { callable, integer, type Reader, readOptions, wrong } from "../../base/options/validators.ts";
import type { Task } from "../../task.ts";
import type { Authorization } from "./access.ts";

export interface DashboardOptions {
  /**
   * Says what the sender of a request may do. It is asked for every request, files and live updates included.
   * @default everyone gets 403
   */
  authorize?: (request: Request) => Authorization | Promise<Authorization>;
  /** The path under which the app mounts it, such as `/ops/dbq`. @default "/" */
  basePath?: string;
  /**
   * The origin of its pages in the browser, such as `http://intranet.local`: what the `Origin` of a POST must be. Needed where the
   * server does not know it: behind a proxy that ends TLS or sends another `Host`.
   * @default the origin of each request's address
   */
  origin?: string;
  /**
   * Called with a copy of each task before it is shown, after the option `redact` of the queue: returns what may be seen of it. An
   * error answers 500, and nothing is shown.
   */
  redact?: (task: Task) => Task;
  /** Milliseconds between two looks for changes, of all open pages together; from 250. Up to four times as long where a look takes long. @default 2000 */
  pollInterval?: number;
  /** How many open pages get live updates; the others stay as they were loaded. @default 500 */
  maxClients?: number;
  /** Called with errors that no answer can carry. @default a process warning */
  onError?: (error: unknown, where: string) => void;
}

export interface ReadOptions {
  authorize: ((request: Request) => Authorization | Promise<Authorization>) | undefined;
  /** Without a slash at its end: "" is the root. */
  basePath: string;
  origin: string | undefined;
  redact: ((task: Task) => Task) | undefined;
  pollInterval: number;
  maxClients: number;
  onError: (error: unknown, where: string) => void;
}

/** @throws TypeError that names the option */
export function readDashboardOptions(given?: DashboardOptions): ReadOptions {
  const read = readOptions<ReadOptions>(given, "dashboard", {
    authorize: callable<ReadOptions["authorize"]>,
    basePath,
    origin,
    redact: callable<ReadOptions["redact"]>,
    pollInterval: integer(250),
    maxClients: integer(0),
    onError: callable<ReadOptions["onError"]>,
  });
  return {
    authorize: undefined,
    basePath: "",
    origin: undefined,
    redact: undefined,
    pollInterval: 2_000,
    maxClients: 500,
    onError: warn,
    ...read,
  };
}

const basePath: Reader<string> = (value, name) => {
  if (typeof value !== "string" || !/^\/(?:[\w.~-]+(?:\/|$))*$/.test(value))
    throw wrong(name, 'a path such as "/ops/dbq"', value);
  return value.replace(/\/$/, "");
};

const origin: Reader<string> = (value, name) => {
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.href !== `${url.origin}/`)
    throw wrong(name, 'an origin such as "https://ops.example"', value);
  return url.origin;
};

function warn(error: unknown, where: string): void {
  process.emitWarning(`dbq dashboard: ${where}: ${error instanceof Error ? error.message : String(error)}`);
}
