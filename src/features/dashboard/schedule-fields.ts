/** The fields of the form of a schedule: when it makes its tasks, and what tasks. */
import { show } from "../../base/options/durations.ts";
import type { ScheduleChanges, ScheduleTiming } from "../../base/tasks/schedule.ts";
import { typedMissed } from "../../base/text/typed.ts";
import { present } from "../../base/values/present.ts";
import { type Fields, textField, timeField } from "./fields.ts";
import { BadQuery } from "./page.ts";

/** When it makes its tasks. */
export const timingFields = [
  ...["cron", "every", "timeZone", "startAt", "endAt"],
  ...["missed", "overlap", "jitter"],
] as const;

/** A timing as `queue.schedule` takes it: a field that was left empty is as one that is not there. @throws BadQuery */
export function timingOf(fields: Fields): ScheduleTiming {
  const { startAt, endAt, ...rest } = read(fields);
  // `queue.schedule` refuses two timings, and none.
  const timing: unknown = {
    ...rest,
    ...present({ startAt: startAt ?? undefined, endAt: endAt ?? undefined }),
  };
  return timing as ScheduleTiming;
}

/**
 * What `editSchedule` changes: a field that is not there stays as it is, and one that was left empty is none, or the default.
 * @throws BadQuery
 */
export function timingChangesOf(fields: Fields): ScheduleChanges {
  if (fields.cron === null && fields.every === null)
    throw new BadQuery("cron: expected one of cron and every, got neither");
  const { missed, ...changes } = read(fields);
  return present({
    ...changes,
    missed: missed ?? (fields.missed === null ? ("one" as const) : undefined),
    jitter: changes.jitter ?? (fields.jitter === null ? 0 : undefined),
  }) as ScheduleChanges;
}

function read(fields: Fields) {
  const text = (name: (typeof timingFields)[number]) =>
    textField(fields[name] ?? undefined, name)?.trim() || undefined;
  const time = (name: "startAt" | "endAt") =>
    fields[name] === undefined ? undefined : timeField(fields[name], name);
  const every = text("every");
  const zone = text("timeZone");
  return present({
    cron: text("cron"),
    every,
    // The form has a zone beside an interval, too, which is the same in each.
    timeZone: every !== undefined && zone === "UTC" ? undefined : zone,
    startAt: time("startAt"),
    endAt: time("endAt"),
    missed: missedOf(text("missed")),
    overlap: overlapOf(text("overlap")),
    jitter: text("jitter"),
  });
}

function missedOf(text: string | undefined): ScheduleTiming["missed"] {
  const missed = text === undefined ? undefined : typedMissed(text);
  if (text === undefined || missed !== undefined) return missed;
  throw new BadQuery(`missed: expected one, skip, or a number from 1 to 1000, got ${show(text)}`);
}

function overlapOf(text: string | undefined): "skip" | "allow" | undefined {
  if (text === undefined || text === "skip" || text === "allow") return text;
  throw new BadQuery(`overlap: expected skip or allow, got ${show(text)}`);
}
