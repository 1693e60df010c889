/** What a page of the dashboard is. */
import type { HtmlEscapedString } from "hono/utils/html";
import type { ListedTask } from "../../base/values/records.ts";
import type { Queue } from "../queue.ts";
import type { Access } from "./access.ts";
import type { Look } from "./look.ts";
import type { Reads } from "./reads.ts";

/** What a page gets to know of a request. */
export interface PageContext {
  look: Look;
  /** Reads over connections of its own. */
  reader: Queue;
  /** Over these connections too: what open pages share. */
  reads: Reads;
  access: Access;
  /** Where the dashboard is mounted; "" is the root. */
  base: string;
  /** The values of the path's parameters. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** Whether a page of one thing loads all of it: for the API, and for `redact`, which is given whole tasks. */
  isWhole: boolean;
  /** Whether there is a `redact`. */
  redacts: boolean;
  /** Of `redact`: what may be seen of a task. */
  visible: (task: ListedTask) => ListedTask;
}

export type Html = HtmlEscapedString | Promise<HtmlEscapedString>;

/** One page: `load` reads what it shows, which is also what `/api` answers; `view` shows it. */
export interface Page<Data extends object> {
  /** Below the base path, as Hono writes paths. */
  path: string;
  /** The entry of the menu; undefined: it has none. */
  menu?: string;
  /** The names that its query may have; of another one, `/api` says that it does not exist. */
  accepts?: readonly string[];
  title: (data: Data) => string;
  /** Undefined: there is nothing under this path. @throws BadQuery for a wrong query */
  load: (context: PageContext) => Promise<Data | undefined>;
  view: (data: Data, context: PageContext) => Html;
}

/** A query or a body that does not make sense: it is answered with 400 and the message. */
export class BadQuery extends Error {}

/** Keeps the type of the data while pages are in one list. */
// biome-ignore lint/suspicious/noExplicitAny: the list does not know what each page loads
export type AnyPage = Page<any>;
