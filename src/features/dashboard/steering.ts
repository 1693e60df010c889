/** What a person asks for of queues, limits and schedules. */
import { show } from "../../base/options/durations.ts";
import type { Queue } from "../../queue/queue.ts";
import { unknownName } from "../../queue/unknown-name.ts";
import type { Access } from "./access.ts";
import { type Done, explained, Missing, must } from "./actions.ts";
import { type Fields, textField } from "./fields.ts";
import type { Look } from "./look.ts";
import { BadQuery } from "./page.ts";
import { wholeOf } from "./query.ts";

/** What is meant: `kind` is `queues`, `functions`, `limits` or `schedules`. */
interface Target {
  kind: string;
  name?: string;
  action?: string;
}

/** An action that was taken: a sentence, and its target. */
interface Taken {
  action: string;
  target: string;
  message: string;
}

/** @throws Forbidden, Missing, BadQuery, DatabaseError */
export async function steer(look: Look, access: Access, target: Target, fields: Fields): Promise<Done> {
  const { queue } = look;
  const taken = await act(queue, access, target, fields).catch(explained);
  const { message, ...note } = taken;
  await look.note({ ...note, actor: access.actor, count: 1 });
  return { ok: true, message };
}

async function act(queue: Queue, access: Access, target: Target, fields: Fields): Promise<Taken> {
  const { kind, name = "", action = "" } = target;
  if (kind === "limits") return await limit(queue, access, fields);
  if (kind !== "schedules") return await pauseOrResume(queue, access, target, fields);
  const found = Object.hasOwn(scheduleActions, action) ? scheduleActions[action] : undefined;
  if (!found) throw new Missing(`there is no action ${action} on ${kind}`);
  must(access, "schedule");
  return { action, target: `schedule ${name}`, message: await found(queue, name) };
}

/** Of a queue, a function, or the group of a function that the field `group` names. */
async function pauseOrResume(
  queue: Queue,
  access: Access,
  { kind, name = "", action = "" }: Target,
  { group }: Fields,
): Promise<Taken> {
  if (action !== "pause" && action !== "resume") throw new Missing(`there is no action ${action} on ${kind}`);
  must(access, action);
  // The name as it is: one that ends with a space is another one than that without.
  const ofGroup = textField(group ?? "", "group") ?? "";
  const [target, shown] = targetOf(kind === "queues" ? "queue" : "func", name, ofGroup);
  const said = capital(shown);
  const changed = await queue[action](target);
  const doubt = action === "pause" ? await unknownName(queue, target) : undefined;
  const message = {
    pause: changed
      ? `${said} is paused: none of its tasks starts, and those that run go on.`
      : `${said} was paused before.`,
    resume: changed ? `${said} goes on.` : `${said} was not paused.`,
  }[action];
  return { action, target: shown, message: doubted(message, doubt) };
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

const doubted = (message: string, doubt: string | undefined) =>
  doubt === undefined ? message : `${message} ${doubt}`;

type Acts = Readonly<Record<string, (queue: Queue, name: string) => Promise<string>>>;

const scheduleActions: Acts = {
  pause: async (queue, name) => {
    await queue.pauseSchedule(name);
    return `Schedule ${name} is paused: its times are skipped, and not made up for.`;
  },
  resume: async (queue, name) => {
    const { nextAt } = await queue.resumeSchedule(name);
    return `Schedule ${name} goes on${nextAt ? `: its next task is made at ${nextAt.toISOString()}` : ""}.`;
  },
  run: async (queue, name) => {
    const id = await queue.triggerSchedule(name);
    return `Task ${id} is enqueued, beside the times of ${name}.`;
  },
};

// ---- limits ----------------------------------------------------------------------------------

async function limit(queue: Queue, access: Access, fields: Fields): Promise<Taken> {
  must(access, "limit");
  const [target, shown] = limitTargetOf(fields);
  if (fields.remove !== undefined) {
    await queue.setLimit(target, null);
    return { action: "limit", target: shown, message: `${capital(shown)} is not limited any more.` };
  }
  const concurrency = numberOf(fields.concurrency, "concurrency");
  const rate = rateOf(fields.rate, numberOf(fields.burst, "burst"));
  if (concurrency === undefined && rate === undefined)
    throw new BadQuery("a limit is how many run at once, or how often they start: give one of both");
  await queue.setLimit(target, {
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(rate === undefined ? {} : { rate }),
  });
  const parts = [
    concurrency === undefined ? [] : [`${concurrency} at once`],
    rate === undefined ? [] : [`${rate.limit} in ${rate.per}`],
  ].flat();
  const doubt = typeof target === "string" ? undefined : await unknownName(queue, target);
  const message = `${capital(shown)} is limited: ${parts.join(", ")}.`;
  return { action: "limit", target: shown, message: doubted(message, doubt) };
}

/** What a limit is about, and its name for people. @throws BadQuery */
function limitTargetOf(fields: Fields): [target: Parameters<Queue["setLimit"]>[0], shown: string] {
  const named = trimmed(fields.name, "name");
  if (fields.about === "name" && named !== "") return [named, `limit ${named}`];
  return targetOf(fields.about, named, trimmed(fields.group, "group"));
}

/** What a pause is about. @throws BadQuery */
function targetOf(
  about: unknown,
  named: string,
  ofGroup: string,
): [target: Parameters<Queue["pause"]>[0], shown: string] {
  if (named === "")
    throw new BadQuery("name: expected the name of a queue, a function or a limit, got nothing");
  if (about === "queue") return [{ queueName: named }, `queue ${named}`];
  if (about !== "func") throw new BadQuery(`about: expected queue, func or name, got ${show(about)}`);
  if (ofGroup === "") return [{ func: named }, `function ${named}`];
  return [{ func: named, group: ofGroup }, `group ${ofGroup} of ${named}`];
}

/** A field that may be left out or be null. @throws BadQuery */
const trimmed = (value: unknown, name: string): string => textField(value ?? "", name)?.trim() ?? "";

const numberOf = (value: unknown, name: string): number | undefined =>
  wholeOf(trimmed(value, name), name, 1, Number.MAX_SAFE_INTEGER);

/** `100/1m`, as the command line takes it. */
function rateOf(
  value: unknown,
  burst: number | undefined,
): { limit: number; per: string; burst?: number } | undefined {
  const text = trimmed(value, "rate");
  if (text === "") return undefined;
  const [, limit, per] = /^(\d+)\s*\/\s*(\w+)$/.exec(text) ?? [];
  if (limit === undefined || per === undefined)
    throw new BadQuery(`rate: expected how many in how long, such as 100/1m, got ${show(text)}`);
  return { limit: Number(limit), per, ...(burst === undefined ? {} : { burst }) };
}
