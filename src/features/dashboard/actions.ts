/** What a person asks for by POST: each action says in words what it did, and is kept in `dbq_audit`. */

import { show } from "../../base/options/durations.ts";
import { label, readOptions, time } from "../../base/options/validators.ts";
import { remoteTask } from "../../base/tasks/registry.ts";
import { priority as anyPriority } from "../../base/tasks/task-options.ts";
import { changedNumberIn } from "../../base/text/numbers.ts";
import { decodeArgs, decodeObject } from "../../base/values/codec.ts";
import { isEnding } from "../../base/values/ending.ts";
import { present } from "../../base/values/present.ts";
import {
  DatabaseError,
  DbqError,
  DuplicateTaskError,
  ScheduleNotFoundError,
  TaskNotFoundError,
  TaskUndoingError,
} from "../../errors.ts";
import type { Inserted, Operated } from "../../store.ts";
import type { Task, TaskStatus } from "../../task.ts";
import type { AuditEntry, TaskEdit } from "../look/contract.ts";
import type { Queue } from "../queue.ts";
import type { Access, Action } from "./access.ts";
import {
  arrayField,
  type Fields,
  filterField,
  flagField,
  isOfFilter,
  textField,
  timeField,
  wholeField,
} from "./fields.ts";
import { isSameJson } from "./json-text.ts";
import type { Look } from "./look.ts";
import { BadQuery } from "./page.ts";
import { copyOf } from "./pages/difference.tsx";
import { actsOn } from "./pages/tasks.tsx";
import { doneTo, grouped, tasksText } from "./pages/ui.tsx";
import { filterOf, mustKnow, type Query, taskIdOf } from "./query.ts";

/** The most tasks that one action on many changes. */
export const cap = 1_000;

/** Milliseconds that the count before an action on many may take, and up to how many it counts. */
const countBudget = 1_000;
const mostCounted = 1_000_000;

/** Milliseconds in which the tasks of one step are looked for, where they have to hold a text. */
const stepBudget = 250;
/** Milliseconds of an action that is not done in steps. */
const wholeBudget = 5_000;

/** The result of an action. */
export interface Done {
  ok: boolean;
  /** A sentence for people. */
  message: string;
  [more: string]: unknown;
}

/** The person may not do this. */
export class Forbidden extends Error {}

/** There is no such task, queue or schedule. */
export class Missing extends Error {}

export function must(access: Access, action: Action): void {
  if (!access.may(action)) throw new Forbidden(`you may not ${action} here`);
}

// ---- one task --------------------------------------------------------------------------------

interface TaskAction {
  needs: Action;
  /** The names of its fields; another one is refused. Each action takes a `reason`, too, which `dbq_audit` keeps. */
  accepts: readonly string[];
  /** Whether an answer of the store means that something was done. @default any but that there is no such task */
  isDone?: (answer: Operated, fields: Fields) => boolean;
  /** Another row for `dbq_audit`, about a task that the action has made. */
  alsoOf?: (answer: unknown, task: Task) => Pick<AuditEntry, "action" | "target"> | undefined;
  /** Does it, and returns a sentence for the person. `queue` writes its row of `dbq_audit` in the same transaction. */
  act: (queue: Queue, task: Task, fields: Fields, look: Look) => Promise<string>;
}

const isChanged = (answer: Operated) => answer?.changed === true;

const taskActions: Readonly<Record<string, TaskAction>> = {
  retry: {
    needs: "retry",
    accepts: ["fromStep", "undo"],
    isDone: (answer, { fromStep, undo }) =>
      fromStep === undefined && undo === undefined
        ? answer !== undefined && answer.record.status !== "running" && !isEnding(answer.record)
        : isChanged(answer),
    act: async (queue, { id }, fields) => {
      const fromStep = textField(fields.fromStep, "fromStep");
      const undo = flagField(fields.undo, "undo");
      const { status } = await queue.retryTask(id, present({ fromStep, undo }));
      if (undo) return `Task ${id} undoes its steps once more, and ends then.`;
      const where = fromStep === undefined ? "its first attempt" : `the step ${fromStep}`;
      return `Task ${id} is ${status}: it runs again from ${where}.`;
    },
  },
  run: {
    needs: "run",
    accepts: [],
    isDone: isChanged,
    act: async (queue, { id }) => {
      await queue.updateTask(id, { waitUntil: null });
      return `Task ${id} runs as soon as a worker is free.`;
    },
  },
  cancel: {
    needs: "cancel",
    accepts: [],
    act: async (queue, { id, status: before }, fields) => {
      const reason = reasonOf(fields) ?? "cancelled in the dashboard";
      const { status, undoing } = await queue.cancelTask(id, { reason });
      if (undoing) return `Task ${id} undoes its steps, and ends then.`;
      if (status !== "cancelled") return `Task ${id} had ended before: it is ${status}.`;
      return `Task ${id} is cancelled${before === "running" ? ": its function is told within a second" : ""}.`;
    },
  },
  delete: {
    needs: "delete",
    accepts: [],
    act: async (queue, { id }, _, look) => {
      const { changed } = await look.act(queue, "delete", [id]);
      if (changed === 0 && (await queue.getTask(id))?.undoing) throw new TaskUndoingError(id);
      if (changed === 0) throw new BadQuery(`task ${id} runs: cancel it first`);
      return `Task ${id} is deleted, with its attempts and log lines.`;
    },
  },
  edit: {
    needs: "edit",
    accepts: ["args", "priority", "queueName", "waitUntil", "generationId"],
    isDone: isChanged,
    act: async (queue, { id }, fields, look) => {
      const changes = changesOf(await withoutSameArgs(look, id, fields));
      const { status, waitUntil } = await queue.updateTask(id, changes);
      const when = waitUntil ? `waits until ${waitUntil.toISOString()}` : "waits for a worker";
      return `Task ${id} is changed: it is ${status} and ${when}.`;
    },
  },
  enqueue: {
    needs: "enqueue",
    accepts: ["args"],
    alsoOf: (answer, { id }) => {
      const [made] = answer as Inserted[];
      return made && { action: copyOf(id), target: `task ${made.id}` };
    },
    act: async (queue, task, fields, look) => {
      const { id: before, func, kwargs, meta, priority, queueName } = task;
      const given = (await withoutSameArgs(look, before, fields)).args;
      await mustBeSame(look, before, given === undefined ? ["args", "kwargs", "meta"] : ["kwargs", "meta"]);
      const args = given === undefined ? task.args : arrayField(given);
      const { maxRetries, timeout, groupKey } = task;
      const again = remoteTask(func).with({
        ...{ kwargs, meta, priority, queueName, maxRetries },
        ...(timeout === null ? {} : { timeout }),
        ...(groupKey === null ? {} : { group: groupKey }),
      });
      const id = await queue.enqueueTask(again, ...args);
      return `Task ${id} is enqueued, with ${given === undefined ? "the same" : "other"} arguments.`;
    },
  },
};

/** Reads the fields of a request: after the permission was asked, since their reading takes time. @throws BadQuery, TooLarge */
export type ReadFields = () => Promise<Fields>;

/** @throws Forbidden, Missing, BadQuery, DbqError */
export async function actOnTask(
  look: Look,
  access: Access,
  id: string | undefined,
  action: string | undefined,
  read: ReadFields,
): Promise<Done> {
  const known = Object.hasOwn(taskActions, action ?? "") ? taskActions[action ?? ""] : undefined;
  if (!known) throw new Missing(`there is no action ${action}`);
  must(access, known.needs);
  const fields = await read();
  mustKnow("field", Object.keys(fields), [...known.accepts, "reason"]);
  const whole = taskIdOf(id);
  const task = whole === undefined ? undefined : await look.queue.getTask(whole);
  if (!task) throw new Missing(`there is no task ${id}`);
  const { isDone = (answer) => answer !== undefined } = known;
  const queue = look.noting({
    ...{ actor: access.actor, action: String(action), target: `task ${task.id}` },
    reason: reasonOf(fields) ?? null,
    countOf: (answer) => (Array.isArray(answer) ? answer.length : Number(isDone(answer as Operated, fields))),
    alsoOf: (answer) => known.alsoOf?.(answer, task),
  });
  return { ok: true, message: await known.act(queue, task, fields, look).catch(explained) };
}

/** Errors whose messages say what a person can do about them. @throws Missing, BadQuery */
export function explained(error: unknown): never {
  if (error instanceof DuplicateTaskError) throw new BadQuery(`not retried: ${error.message}`);
  if (error instanceof TaskNotFoundError || error instanceof ScheduleNotFoundError)
    throw new Missing(error.message);
  // An error of the database is no mistake of the person, and its message may quote values of rows.
  if (error instanceof DatabaseError) throw error;
  if (error instanceof DbqError || error instanceof TypeError) throw new BadQuery(error.message);
  throw error;
}

/** @throws BadQuery when the arguments of another task would not be the same, or cannot be read */
async function mustBeSame(
  look: Look,
  id: number,
  columns: readonly ("args" | "kwargs" | "meta")[],
): Promise<void> {
  const json = (await look.get(id))?.json;
  const number = columns
    .map((column) => changedNumberIn(json?.[column] ?? ""))
    .find((found) => found !== undefined);
  if (number !== undefined)
    throw new BadQuery(
      `not enqueued: its arguments hold ${show(number)}, which JavaScript cannot hold exactly`,
    );
  for (const column of columns) mustBeReadable(json?.[column], column);
}

/** @throws BadQuery if the text cannot be read: its key is not here, somebody has changed it, or it is not the JSON of this column */
function mustBeReadable(text: string | undefined, column: "args" | "kwargs" | "meta"): void {
  if (text === undefined) return;
  try {
    if (column === "args") decodeArgs(text);
    else decodeObject(text, column);
  } catch (error) {
    if (!(error instanceof DbqError)) throw error;
    throw new BadQuery(`not enqueued: its ${error.message}`);
  }
}

/** Arguments that a form sends back as it got them stay as they are stored: numbers beyond 2^53 are not exact in JavaScript. */
async function withoutSameArgs(look: Look, id: number, { args, ...rest }: Fields): Promise<Fields> {
  if (typeof args !== "string") return { args, ...rest };
  const stored = (await look.get(id))?.json.args ?? "[]";
  return isSameJson(args, stored) ? rest : { args, ...rest };
}

/** @throws BadQuery */
function changesOf({ args, priority, queueName, waitUntil, generationId }: Fields) {
  return present({
    args: args === undefined ? undefined : arrayField(args),
    priority: priority === undefined ? undefined : wholeField(priority, "priority"),
    queueName: queueName === undefined ? undefined : textField(queueName, "queueName"),
    waitUntil: waitUntil === undefined ? undefined : timeField(waitUntil, "waitUntil"),
    generationId: generationId === undefined ? undefined : wholeField(generationId, "generationId"),
  });
}

/** Why a person does it. A field that was left empty is as one that is not there. @throws BadQuery */
export const reasonOf = ({ reason }: Fields): string | undefined =>
  reason === null ? undefined : textField(reason, "reason")?.trim() || undefined;

// ---- many tasks ------------------------------------------------------------------------------

type BulkAction = keyof typeof actsOn;

/** An action on many tasks, as it was asked for. */
export interface Bulk {
  action: BulkAction;
  /** The tasks that were selected; undefined: all that match the filter. */
  ids: number[] | undefined;
  filter: ReturnType<typeof filterOf> & { status: readonly TaskStatus[] };
  /** A text that the arguments or errors of the tasks hold. */
  text: string | undefined;
  /** What of the tasks becomes another one; undefined for another action, and before it is confirmed. */
  changes: TaskEdit | undefined;
  /** Why the person does it: for the audit, and the message of the error of cancelled tasks. */
  reason: string | undefined;
  isConfirmed: boolean;
  isPreview: boolean;
  /** Whether it is done step by step: this one, of one transaction below `after`. */
  step: boolean;
  after: number | undefined;
}

/** Beside those of the filter. The form of the page of tasks has `id`, `scope` and `confirmed`. */
const bulkFields = [
  "action",
  "ids",
  "filter",
  "preview",
  "step",
  "after",
  "id",
  "scope",
  "confirmed",
  "reason",
];

/** Those of an edit: what becomes of the tasks. */
const editFields = ["queueName", "priority", "waitUntil"];

/** Whether the person may take any action on many tasks: the body says which one is meant. @throws Forbidden */
export function mustActOnMany(access: Access): void {
  if (!Object.keys(actsOn).some((action) => access.may(action as BulkAction)))
    throw new Forbidden("you may not change tasks here");
}

/** @throws BadQuery, Forbidden */
export function bulkOf(fields: Fields, access: Access): Bulk {
  const action = textField(fields.action, "action") ?? "";
  if (!isBulk(action))
    throw new BadQuery(`action: expected ${Object.keys(actsOn).join(", ")}, got ${show(action)}`);
  must(access, action);
  const given = filterField(fields);
  const others = Object.keys(fields).filter((name) => !isOfFilter(name));
  mustKnow("field", others, action === "edit" ? [...bulkFields, ...editFields] : bulkFields);
  const ids = idsOf(fields, given);
  const query = given ?? {};
  const filter = filterOf(query) as { status?: readonly TaskStatus[] };
  const preview = flagField(fields.preview, "preview");
  const isConfirmed = flagField(fields.confirmed, "confirmed") === true || preview === false;
  const statuses = actsOn[action].filter((status) => !filter.status || filter.status.includes(status));
  return {
    action,
    ids,
    filter: { ...filter, status: statuses },
    text: ids ? undefined : query.q,
    reason: reasonOf(fields),
    changes: action === "edit" && isConfirmed ? bulkChangesOf(fields) : undefined,
    isConfirmed,
    isPreview: preview === true,
    step: flagField(fields.step, "step") === true,
    after: fields.after === undefined ? undefined : wholeField(fields.after, "after", 0),
  };
}

/** @throws BadQuery when nothing is to change, and for a wrong value */
function bulkChangesOf({ queueName, priority, waitUntil }: Fields): TaskEdit {
  const isGiven = (value: unknown) => value !== undefined && value !== null;
  const isNow = typeof waitUntil === "string" && waitUntil.trim() === "now";
  const changes = changesOf({
    ...(isGiven(queueName) && { queueName }),
    ...(isGiven(priority) && { priority }),
    ...(isGiven(waitUntil) && { waitUntil: isNow ? null : waitUntil }),
  });
  if (Object.keys(changes).length === 0)
    throw new BadQuery("nothing to change: give a queue, a priority or a time");
  try {
    return readOptions<Pick<TaskEdit, "queueName" | "priority" | "waitUntil">>(changes, "", {
      queueName: label,
      priority: anyPriority,
      waitUntil: (value, name) => (value === null ? null : time(value, name)),
    });
  } catch (error) {
    if (error instanceof TypeError) throw new BadQuery(error.message.replace(/^: /, ""));
    throw error;
  }
}

const isBulk = (action: string): action is BulkAction => Object.hasOwn(actsOn, action);

/** Undefined: all tasks that match the filter are meant. @throws BadQuery when neither is given, or both */
function idsOf({ scope, ids, id }: Fields, filter: Query | undefined): number[] | undefined {
  const given = [ids, id].filter((each) => each !== undefined);
  // The form has the filter of its page and the selected tasks, and says which of both is meant.
  if (scope === "filter") return undefined;
  if (scope !== undefined && scope !== "ids")
    throw new BadQuery(`scope: expected ids or filter, got ${show(scope)}`);
  if (scope === undefined && given.length === 0) {
    if (filter) return undefined;
    throw new BadQuery("expected the ids of tasks, or a filter; {} is all tasks");
  }
  if (scope === undefined && filter) throw new BadQuery("expected either ids or a filter, got both");
  const all = given.flat();
  if (all.length > cap) throw new BadQuery(`ids: ${all.length} are given, and ${cap} are changed at a go`);
  return [...new Set(all.map((each) => wholeField(each, "id", 1)))];
}

/** How many tasks an action would change. @throws DatabaseError */
export async function countBulk(
  look: Look,
  { filter, ids, text }: Bulk,
): Promise<{ count: number; complete: boolean }> {
  if (ids) return { count: (await look.existing(ids)).length, complete: true };
  if (filter.status.length === 0) return { count: 0, complete: true };
  return await look.count(filter, { cap: mostCounted, budget: countBudget, text });
}

/** Acts on the selected tasks, or on those that match, newest first, `cap` at most. @throws DatabaseError */
export async function actOnMany(look: Look, access: Access, bulk: Bulk): Promise<Done> {
  const { action, filter, ids, text, reason = null } = bulk;
  const which = ids
    ? `${ids.length} selected ${ids.length === 1 ? "task" : "tasks"}`
    : describe({ ...filter, ...present({ q: text }) });
  const target = bulk.changes === undefined ? which : `${which}: ${changesText(bulk.changes)}`;
  const queue = look.noting({
    ...{ actor: access.actor, action, target, reason },
    countOf: (answer) => (Array.isArray(answer) ? answer.length : Number(isChanged(answer as Operated))),
  });
  const done = ids ? await actOnSelected(look, queue, bulk, ids) : await actOnMatching(look, queue, bulk);
  return { ok: true, message: said(action, done), ...done };
}

/** The result of an action on many tasks. `missing`: the selected ids that no task has. */
interface DoneToMany {
  changed: number;
  skipped: number;
  missing: number[];
  next: number | null;
}

async function actOnSelected(
  look: Look,
  queue: Queue,
  { action, reason, changes }: Bulk,
  ids: readonly number[],
): Promise<DoneToMany> {
  const existing = new Set(await look.existing(ids));
  const missing = ids.filter((id) => !existing.has(id));
  return { ...(await look.act(queue, action, [...existing], { reason, changes })), missing, next: null };
}

async function actOnMatching(
  look: Look,
  queue: Queue,
  { action, filter, step, after, text, reason, changes }: Bulk,
): Promise<DoneToMany> {
  // No status is left that the action is for; a filter without statuses would be one of all tasks.
  if (filter.status.length === 0) return { changed: 0, skipped: 0, missing: [], next: null };
  const budget = text === undefined ? undefined : step ? stepBudget : wholeBudget;
  const walk = { limit: cap, after, isOneStep: step, text, budget, reason, changes };
  return { ...(await look.actOnAll(queue, action, filter, walk)), missing: [] };
}

function said(action: BulkAction, { changed, skipped, missing }: DoneToMany): string {
  const done = doneTo[action];
  const stayed =
    skipped === 1
      ? { as: "it was", why: ": it runs, waits already, or another task holds its key" }
      : { as: "they were", why: ": they run, wait already, or another task holds their key" };
  return [
    `${tasksText(changed)} ${changed === 1 ? "is" : "are"} ${done}.`,
    skipped === 0
      ? []
      : `${tasksText(skipped)} stayed as ${stayed.as}${action === "retry" ? stayed.why : ""}.`,
    missing.length === 0 ? [] : missingText(missing),
  ]
    .flat()
    .join(" ");
}

/** The most ids that a sentence lists. */
const mostListed = 10;

function missingText(ids: readonly number[]): string {
  const more = ids.length > mostListed ? ` and ${grouped(ids.length - mostListed)} more` : "";
  const listed = `${ids.slice(0, mostListed).join(", ")}${more}`;
  return ids.length === 1 ? `There is no task ${listed}.` : `There are no tasks ${listed}.`;
}

/** What becomes of the tasks, for the audit. */
const changesText = ({ queueName, priority, waitUntil }: TaskEdit): string =>
  [
    queueName === undefined ? [] : [`queue=${queueName}`],
    priority === undefined ? [] : [`priority=${priority}`],
    waitUntil === undefined ? [] : [`time=${waitUntil === null ? "now" : new Date(waitUntil).toISOString()}`],
  ]
    .flat()
    .join(" ");

const describe = (filter: object): string =>
  `tasks with ${Object.entries(filter)
    .map(([name, value]) => `${name}=${value instanceof Date ? value.toISOString() : String(value)}`)
    .join(" ")}`;
