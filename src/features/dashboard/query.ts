/** The query of the page of tasks, as a filter of tasks. */
import { show } from "../../base/options/durations.ts";
import { readCountFilter } from "../../base/options/options.ts";
import { label } from "../../base/options/validators.ts";
import { typedPair, typedTime } from "../../base/text/typed.ts";
import { present } from "../../base/values/present.ts";
import { type TaskStatus, taskStatuses } from "../../task.ts";
import { BadQuery } from "./page.ts";

/** What tasks are found by. */
export const queryNames = [
  "status",
  "func",
  "queue",
  "group",
  "schedule",
  "requestId",
  "uniqueKey",
  "failure",
  "meta",
  "from",
  "to",
  "q",
] as const;

/** What was asked for; a field that was left empty is not there. */
export type Query = { [Name in (typeof queryNames)[number]]?: string | undefined };

export function queryOf(given: URLSearchParams): Query {
  const query: Query = {};
  for (const name of queryNames) {
    const value = given.get(name)?.trim();
    if (value) query[name] = value;
  }
  return query;
}

/** @throws BadQuery for a name that does not exist: without it, the request would mean something else */
export function mustKnow(
  kind: "parameter" | "field",
  given: Iterable<string>,
  names: readonly string[],
): void {
  for (const name of given)
    if (!names.includes(name)) throw new BadQuery(`there is no ${kind} ${show(name)} here; ${listed(names)}`);
}

function listed(names: readonly string[]): string {
  if (names.length === 0) return "there are none";
  return names.length === 1 ? `there is only ${names[0]}` : `there are ${names.join(", ")}`;
}

/** @throws BadQuery for a parameter that is there twice: its other values would be lost */
export function mustBeSingle(given: URLSearchParams): void {
  for (const name of given.keys())
    if (given.getAll(name).length > 1) throw new BadQuery(`${name}: expected one value, got several`);
}

/** A filter of `countTasks`. @throws BadQuery that names the value */
export function filterOf({
  status,
  func,
  queue,
  group,
  schedule,
  requestId,
  uniqueKey,
  failure,
  meta,
  from,
  to,
  q = "",
}: Query) {
  mustBeText(q, "q");
  const filter = present({
    status: status === undefined ? undefined : statusesOf(status),
    func,
    queueName: queue,
    group,
    scheduleName: schedule,
    requestId,
    uniqueKey,
    failure,
    meta: meta === undefined ? undefined : metaOf(meta),
    from: from === undefined ? undefined : timeOf(from, "from"),
    to: to === undefined ? undefined : timeOf(to, "to"),
  });
  try {
    readCountFilter(filter);
  } catch (error) {
    if (error instanceof TypeError) throw new BadQuery(error.message.replace(/^countTasks: /, ""));
    throw error;
  }
  return filter;
}

function statusesOf(text: string): TaskStatus[] {
  return text.split(",").map((name) => {
    const status = taskStatuses.find((each) => each === name.trim());
    if (!status) throw new BadQuery(`status: expected one of ${taskStatuses.join(", ")}, got ${show(name)}`);
    return status;
  });
}

/** `user=7` or `user="7"`. */
function metaOf(text: string): Record<string, unknown> {
  const pair = typedPair(text);
  if (pair === undefined)
    throw new BadQuery(`meta: expected a key and a value, such as user=7, got ${show(text)}`);
  for (const each of pair) if (typeof each === "string") mustBeText(each, "meta");
  return { [pair[0]]: pair[1] };
}

/** @throws BadQuery for what no text in a database can hold */
function mustBeText(text: string, name: string): void {
  if (text.includes("\0") || !text.isWellFormed())
    throw new BadQuery(`${name}: expected a well-formed text without NUL, got ${show(text)}`);
}

/** Without a zone it is UTC, as all times that the dashboard shows without a script. */
export function timeOf(text: string, name: string): Date {
  const read = typedTime(text);
  if (read instanceof Date) return read;
  throw new BadQuery(
    `${name}: expected ${read === "day" ? "a day that exists," : "a time"} such as 2026-11-23T16:00, got ${show(text)}`,
  );
}

/** The name of a function or an event; undefined: none is asked for. @throws BadQuery */
export function nameOf(text: string | null | undefined, parameter: string): string | undefined {
  try {
    return text ? label(text, parameter) : undefined;
  } catch (error) {
    throw new BadQuery((error as Error).message);
  }
}

/** @throws BadQuery */
export function limitOf(query: URLSearchParams): number {
  return wholeOf(query.get("limit"), "limit", 1, 200) ?? 50;
}

/** The `after` of a page. @throws BadQuery */
export function positionOf(query: URLSearchParams): number | undefined {
  return wholeOf(query.get("after"), "after", 0, Number.MAX_SAFE_INTEGER);
}

/** The id of a task, as the path has it. @throws BadQuery */
export function taskIdOf(text: string | undefined): number | undefined {
  return wholeOf(text ?? "", "id", 1, Number.MAX_SAFE_INTEGER);
}

/** A whole number that JavaScript holds exactly; undefined where there is none. @throws BadQuery */
export function wholeOf(text: string | null, name: string, least: number, most: number): number | undefined {
  if (text === null || text === "") return undefined;
  const value = Number(text);
  if (/^-?\d+$/.test(text) && Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw new BadQuery(`${name}: expected a whole number from ${least} to ${most}, got ${show(text)}`);
}
