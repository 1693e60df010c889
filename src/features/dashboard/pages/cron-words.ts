/** The timing of a schedule in words, for the expressions that people write most. */
import { evenSpan } from "./parts.tsx";

const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const aliases: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
};

/** Undefined: the expression says it better than these words could. */
export function inWords({ cron, every }: { cron: string | null; every: number | null }): string | undefined {
  if (every !== null) return `every ${evenSpan(every)}`;
  const fields = (aliases[cron ?? ""] ?? cron ?? "").trim().split(/\s+/);
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
  if (!/^\d+$/.test(minute)) return undefined;
  const past = Number(minute) === 0 ? "" : `, ${Number(minute)} past the hour`;
  if (hour === "*") return `every hour${past}`;
  if (hours !== undefined && 24 % Number(hours) === 0)
    return `every ${hours === "1" ? "hour" : `${hours} hours`}${past}`;
  return undefined;
}

function timesOf(minute: string, hour: string): string | undefined {
  if (!/^\d+$/.test(minute) || !/^\d+(?:,\d+)*$/.test(hour)) return undefined;
  return list(hour.split(",").map((each) => `${each.padStart(2, "0")}:${minute.padStart(2, "0")}`));
}

function daysOf(date: string, month: string, day: string): string | undefined {
  if (month !== "*") return undefined;
  if (date !== "*")
    return day === "*" && /^\d+$/.test(date) ? `on day ${Number(date)} of each month` : undefined;
  if (day === "*") return "every day";
  const range = /^(\d)-(\d)$/.exec(day);
  if (range) return dayRange(Number(range[1]), Number(range[2]));
  if (!/^[0-7](?:,[0-7])*$/.test(day)) return undefined;
  return `every ${list(day.split(",").map((each) => nameOf(Number(each))))}`;
}

const nameOf = (day: number): string => days[day % 7] ?? "";

const dayRange = (from: number, to: number): string | undefined =>
  from < to && to <= 7 ? `from ${nameOf(from)} to ${nameOf(to)}` : undefined;

const list = (words: readonly string[]): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
