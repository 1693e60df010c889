/** What a person asks for of queues, limits and schedules. */
import { isDeepStrictEqual } from "node:util";
import { show } from "../../base/options/durations.ts";
import { remoteTask } from "../../base/tasks/registry.ts";
import type { Schedule } from "../../base/tasks/schedule.ts";
import { timingInWords } from "../../base/text/timing.ts";
import { present } from "../../base/values/present.ts";
import { unknownName } from "../operate/unknown-name.ts";
import type { Queue } from "../queue.ts";
import type { Access, Action } from "./access.ts";
import { type Done, explained, Missing, must, type ReadFields, reasonOf } from "./actions.ts";
import { arrayField, type Fields, flagField, textField, wholeField } from "./fields.ts";
import type { Look } from "./look.ts";
import { BadQuery } from "./page.ts";
import { tasksText } from "./pages/ui.tsx";
import { mustKnow } from "./query.ts";
import { timingChangesOf, timingFields, timingOf } from "./schedule-fields.ts";

/** An action on queues, functions, schedules or limits. */
interface Steering {
  needs: Action;
  /** The names of its fields; another one is refused. Each takes a `reason`, too, which `dbq_audit` keeps. */
  accepts: readonly string[];
  /** Does it, and returns a sentence for the person. */
  act: (on: On, fields: Fields) => Promise<string>;
}

/** The queue, which keeps that a person did something to this target. */
type On = (target: string) => Queue;

/** @throws Forbidden, Missing, BadQuery, DatabaseError */
export async function steer(
  look: Look,
  access: Access,
  kind: keyof typeof steerings,
  action: string,
  read: ReadFields,
): Promise<Done> {
  const known: Readonly<Record<string, Steering>> = steerings[kind];
  const found = Object.hasOwn(known, action) ? known[action] : undefined;
  if (!found) throw new Missing(`there is no action ${action} on ${kind}`);
  must(access, found.needs);
  const fields = await read();
  mustKnow("field", Object.keys(fields), [...found.accepts, "reason"]);
  const reason = reasonOf(fields) ?? null;
  // A limit that is removed lets tasks go in further transactions.
  const countOf = (_: unknown, isFirst: boolean) => Number(isFirst);
  const on: On = (target) => look.noting({ actor: access.actor, action, target, reason, countOf });
  return { ok: true, message: await found.act(on, fields).catch(explained) };
}

// ---- pauses ----------------------------------------------------------------------------------

/** Of a queue, a function, or the group of a function that the field `group` names. */
const pausing = (about: "queue" | "func", action: "pause" | "resume"): Steering => ({
  needs: action,
  accepts: about === "queue" ? ["name"] : ["name", "group"],
  act: async (on, fields) => {
    const [target, shown] = targetOf(about, nameOf(fields), groupOf(fields));
    const queue = on(shown);
    const said = capital(shown);
    const waiting = action === "resume" ? await waitingFor(queue, target) : 0;
    const changed = await queue[action](target);
    const doubt = action === "pause" ? await unknownName(queue, target) : undefined;
    const message = {
      pause: changed
        ? `${said} is paused: none of its tasks starts, and those that run go on.`
        : `${said} was paused before.`,
      resume: changed ? `${said} goes on${whatStarts(waiting)}.` : `${said} was not paused.`,
    }[action];
    return doubted(message, doubt);
  },
});

/** How many pending tasks a pause is about. */
async function waitingFor(queue: Queue, target: Parameters<Queue["pause"]>[0]): Promise<number> {
  const found = (await queue.listLimits()).find((each) => isDeepStrictEqual(each.target, target));
  return found?.waiting ?? 0;
}

/** What follows for those that come later. */
const whatStarts = (waiting: number): string =>
  waiting === 0
    ? ""
    : `: ${tasksText(waiting)} that waited ${waiting === 1 ? "starts" : "start"} before newer ones`;

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

const doubted = (message: string, doubt: string | undefined) =>
  doubt === undefined ? message : `${message} ${doubt}`;

/** As it is: a name that ends with a space is another one than that without. @throws BadQuery */
function nameOf({ name }: Fields): string {
  const text = name === null ? "" : (textField(name, "name") ?? "");
  if (text !== "") return text;
  throw new BadQuery("name: expected the name of a queue, function, schedule or limit, got nothing");
}

/** Undefined: the field is not there. An empty one is refused: the action would be one on all groups. @throws BadQuery */
function groupOf({ group }: Fields): string | undefined {
  const text = group === null ? "" : textField(group, "group");
  if (text !== "") return text;
  throw new BadQuery("group: expected the name of a group, got nothing: leave it out for the whole function");
}

// ---- schedules -------------------------------------------------------------------------------

const ofSchedule = (act: (queue: Queue, name: string) => Promise<string>): Steering => ({
  needs: "schedule",
  accepts: ["name"],
  act: async (on, fields) => {
    const name = nameOf(fields);
    return await act(on(`schedule ${name}`), name);
  },
});

async function isPaused(queue: Queue, name: string): Promise<boolean> {
  return (await queue.getSchedule(name))?.pausedAt instanceof Date;
}

/** What a schedule does from now on. */
function ahead({ func, cron, every, timeZone, nextAt, pausedAt }: Schedule): string {
  const zone = cron === null ? "" : ` (${timeZone})`;
  const when = `it makes a task of ${func} ${timingInWords({ cron, every }) ?? `by ${cron}`}${zone}`;
  if (pausedAt !== null) return `${when} once it is resumed`;
  return nextAt === null ? `${when}, and none any more` : `${when}, the next one at ${nextAt.toISOString()}`;
}

const scheduleActions: Readonly<Record<string, Steering>> = {
  pause: ofSchedule(async (queue, name) => {
    const was = await isPaused(queue, name);
    await queue.pauseSchedule(name);
    if (was) return `Schedule ${name} was paused before.`;
    return `Schedule ${name} is paused: its times are skipped, and not made up for.`;
  }),
  resume: ofSchedule(async (queue, name) => {
    const was = await isPaused(queue, name);
    const { nextAt } = await queue.resumeSchedule(name);
    const next = nextAt ? `: its next task is made at ${nextAt.toISOString()}` : "";
    return `Schedule ${name} ${was ? "goes on" : "was not paused"}${next}.`;
  }),
  make: {
    needs: "schedule",
    accepts: ["name", "func", "args", "queueName", ...timingFields],
    act: async (on, fields) => {
      const name = nameOf(fields).trim();
      const func = textField(fields.func ?? undefined, "func")?.trim() || undefined;
      if (func === undefined) throw new BadQuery("func: expected the name of a function, got nothing");
      const queue = on(`schedule ${name}`);
      if (await queue.getSchedule(name))
        throw new BadQuery(`name: there is a schedule ${show(name)}: edit it`);
      const args = arrayField(fields.args ?? []);
      const queueName = textField(fields.queueName ?? undefined, "queueName")?.trim() || undefined;
      const fn = remoteTask(func).with(present({ queueName }));
      const made = await queue.schedule(name, timingOf(fields), fn, ...args);
      return doubted(`Schedule ${name} is made: ${ahead(made)}.`, await unknownName(queue, { func }));
    },
  },
  edit: {
    needs: "schedule",
    accepts: ["name", ...timingFields],
    act: async (on, fields) => {
      const name = nameOf(fields);
      const changes = timingChangesOf(fields);
      const edited = await on(`schedule ${name}`).editSchedule(name, changes);
      if (!isDeepStrictEqual(Object.keys(changes), ["overlap"]))
        return `Schedule ${name} is changed: ${ahead(edited)}.`;
      return changes.overlap === "skip"
        ? `Schedule ${name} skips a time from now on while an earlier task of it has not ended.`
        : `Schedule ${name} makes a task at each of its times from now on, also while an earlier one has not ended.`;
    },
  },
  remove: ofSchedule(async (queue, name) => {
    await queue.removeSchedule(name);
    return `Schedule ${name} is removed; the tasks that it has made stay.`;
  }),
  run: ofSchedule(async (queue, name) => {
    const id = await queue.triggerSchedule(name);
    return `Task ${id} is enqueued, beside the times of ${name}.`;
  }),
};

// ---- limits ----------------------------------------------------------------------------------

type Target = Parameters<Queue["setLimit"]>[0];

async function limit(on: On, fields: Fields): Promise<string> {
  const [target, shown] = limitTargetOf(fields);
  const queue = on(shown);
  const said = capital(shown);
  const rate = rateOf(fields);
  const concurrency = numberOf(fields.concurrency, "concurrency");
  const isEmpty = concurrency === undefined && rate === undefined;
  if (flagField(fields.remove, "remove")) {
    if (!isEmpty) throw new BadQuery("remove: expected it without concurrency and rate");
    return `${said} ${await removed(queue, target)}.`;
  }
  if (isEmpty)
    throw new BadQuery("a limit is how many run at once, or how often they start: give one of both");
  await queue.setLimit(target, present({ concurrency, rate }));
  const parts = [
    concurrency === undefined ? [] : [`${concurrency} at once`],
    rate === undefined ? [] : [`${rate.limit} in ${rate.per}`],
    rate?.burst === undefined ? [] : [`in bursts of up to ${rate.burst}`],
  ].flat();
  const doubt = typeof target === "string" ? undefined : await unknownName(queue, target);
  return doubted(`${said} is limited: ${parts.join(", ")}.`, doubt);
}

/** Removes a limit, and says what is so now. The limit of the code stays. */
async function removed(queue: Queue, target: Target): Promise<string> {
  const limits = (await queue.listLimits()).filter(
    (each) => isDeepStrictEqual(each.target, target) && (each.concurrency !== null || each.rate !== null),
  );
  await queue.setLimit(target, null);
  const was = limits.some(({ fromCode }) => !fromCode);
  const isByCode = limits.some(({ fromCode }) => fromCode);
  return `${was ? "is not limited any more" : "was not limited"}${isByCode ? ", except by its code" : ""}`;
}

/** What a limit is about, and its name for people. A `null` is as left out: the form sends all of its fields. @throws BadQuery */
function limitTargetOf(fields: Fields): [target: Target, shown: string] {
  const named = nameOf(fields).trim();
  const group = fields.group === null ? undefined : groupOf(fields)?.trim();
  if (fields.about === "name" && group === undefined) return [named, `limit ${named}`];
  return targetOf(fields.about, named, group);
}

/** What a pause is about. @throws BadQuery */
function targetOf(
  about: unknown,
  named: string,
  group: string | undefined,
): [target: Parameters<Queue["pause"]>[0], shown: string] {
  if (about === "func") {
    if (group === undefined) return [{ func: named }, `function ${named}`];
    return [{ func: named, group }, `group ${group} of ${named}`];
  }
  if (about !== "queue" && about !== "name")
    throw new BadQuery(`about: expected queue, func or name, got ${show(about)}`);
  if (group !== undefined) throw new BadQuery(`group: only a function has groups, got ${show(group)}`);
  return [{ queueName: named }, `queue ${named}`];
}

const numberOf = (value: unknown, name: string): number | undefined =>
  value === undefined || value === null ? undefined : wholeField(value, name, 1);

/** `100/1m`, as the command line takes it. @throws BadQuery */
function rateOf(fields: Fields): { limit: number; per: string; burst?: number } | undefined {
  const burst = numberOf(fields.burst, "burst");
  const wanted = "how many in how long, such as 100/1m";
  const text = textField(fields.rate ?? undefined, "rate", wanted);
  if (text === undefined) {
    if (burst !== undefined) throw new BadQuery(`burst: expected a rate beside it, got ${burst} alone`);
    return undefined;
  }
  const [, limit, per] = /^(\d+)\s*\/\s*(\w+)$/.exec(text.trim()) ?? [];
  if (limit === undefined || per === undefined)
    throw new BadQuery(`rate: expected ${wanted}, got ${show(text)}`);
  return { limit: Number(limit), per, ...present({ burst }) };
}

// ----------------------------------------------------------------------------------------------

const steerings = {
  queues: { pause: pausing("queue", "pause"), resume: pausing("queue", "resume") },
  functions: { pause: pausing("func", "pause"), resume: pausing("func", "resume") },
  schedules: scheduleActions,
  limits: {
    limit: {
      needs: "limit",
      accepts: ["about", "name", "group", "concurrency", "rate", "burst", "remove"],
      act: limit,
    },
  },
} as const satisfies Record<string, Readonly<Record<string, Steering>>>;
