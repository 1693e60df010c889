/** When a schedule is due, in words, for the expressions that people write most. */
import { evenSpan } from "./durations.ts";

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const nicknames: Readonly<Record<string, string>> = {
  "@hourly": "every hour",
  "@daily": "every day at 00:00",
  "@weekly": "every Sunday at 00:00",
  "@monthly": "on day 1 of each month at 00:00",
  "@yearly": "every January 1 at 00:00",
};

interface Timing {
  cron: string | null;
  every: number | null;
}

/** Undefined: the expression says it better than these words could. */
export function timingInWords({ cron, every }: Timing): string | undefined {
  if (every !== null) return `every ${evenSpan(every)}`;
  return cron === null ? undefined : (nicknames[cron] ?? fieldsInWords(cron.trim().split(/\s+/)));
}

function fieldsInWords(fields: readonly string[]): string | undefined {
  if (fields.length !== 5) return undefined;
  const [minute = "", hour = "", date = "", month = "", day = ""] = fields;
  const when = daysOf(date, month, day);
  const often = stepOf(minute, hour);
  if (often !== undefined) return when === "every day" ? often : when && `${often}, ${when}`;
  const at = timesOf(minute, hour);
  return at === undefined || when === undefined ? undefined : `${when} at ${at}`;
}

/** Of expressions that repeat within the hour or the day. */
function stepOf(minute: string, hour: string): string | undefined {
  const step = (field: string) => /^\*\/(\d+)$/.exec(field)?.[1];
  if (minute === "*" && hour === "*") return "every minute";
  // 60 and 24 must be multiples of the step: else the last one of an hour or day is shorter.
  const [minutes, hours] = [step(minute), step(hour)];
  if (minutes !== undefined && hour === "*" && 60 % Number(minutes) === 0)
    return `every ${minutes === "1" ? "minute" : `${minutes} minutes`}`;
  const at = whole(minute, 59);
  if (at === undefined) return undefined;
  const past = at === 0 ? "" : `, ${at} past the hour`;
  if (hour === "*") return `every hour${past}`;
  if (hours !== undefined && 24 % Number(hours) === 0)
    return `every ${hours === "1" ? "hour" : `${hours} hours`}${past}`;
  return undefined;
}

function timesOf(minute: string, hour: string): string | undefined {
  const at = whole(minute, 59);
  const hours = hour.split(",").map((each) => whole(each, 23));
  if (at === undefined || hours.includes(undefined)) return undefined;
  return list(hours.map((each) => `${twoDigits(each)}:${twoDigits(at)}`));
}

function daysOf(date: string, month: string, day: string): string | undefined {
  if (month !== "*") return undefined;
  const dayOfMonth = whole(date, 31);
  if (day === "*" && dayOfMonth !== undefined) return `on day ${dayOfMonth} of each month`;
  if (date !== "*") return undefined;
  if (day === "*") return "every day";
  const [from, to, more] = day.split("-").map(numberOfDay);
  if (from !== undefined && to !== undefined && more === undefined) return dayRange(from, to);
  const days = day.split(",").map(numberOfDay);
  return days.includes(undefined) ? undefined : `every ${list(days.map(nameOf))}`;
}

/** The number of a day from 0 to 7, as `1` or as `mon`; Sunday is 0 and 7. */
function numberOfDay(field: string): number | undefined {
  if (/^[0-7]$/.test(field)) return Number(field);
  const found = weekdays.findIndex((name) => name.slice(0, 3).toLowerCase() === field.toLowerCase());
  return found < 0 ? undefined : found;
}

const nameOf = (day: number | undefined): string => weekdays[(day ?? 0) % 7] ?? "";

const dayRange = (from: number, to: number): string | undefined =>
  from < to ? `from ${nameOf(from)} to ${nameOf(to)}` : undefined;

const whole = (field: string, most: number): number | undefined =>
  /^\d{1,2}$/.test(field) && Number(field) <= most ? Number(field) : undefined;

const twoDigits = (part: number | undefined): string => String(part).padStart(2, "0");

const list = (words: readonly string[]): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
