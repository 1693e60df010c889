/** When a schedule is due, in words: the common forms; any other expression as it is. */
import ms from "ms";
import type { Schedule } from "../../index.ts";

const nicknames: Readonly<Record<string, string>> = {
  "@hourly": "every hour",
  "@daily": "every day at 00:00",
  "@weekly": "every Sunday at 00:00",
  "@monthly": "on day 1 of each month at 00:00",
  "@yearly": "every January 1 at 00:00",
};

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

export function timingInWords({ cron, every }: Pick<Schedule, "cron" | "every">): string {
  if (cron === null) return every === null ? "never" : `every ${ms(every)}`;
  return nicknames[cron] ?? fieldsInWords(cron) ?? cron;
}

const whole = (field: string, most: number): number | undefined =>
  /^\d{1,2}$/.test(field) && Number(field) <= most ? Number(field) : undefined;

const clock = (hour: number, minute: number) =>
  `${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}`;

function fieldsInWords(cron: string): string | undefined {
  const [minute = "", hour = "", day, month, weekday = "", sixth] = cron.split(" ");
  if (sixth !== undefined || month !== "*") return undefined;
  const anyDay = day === "*" && weekday === "*";
  if (anyDay && hour === "*") return withinHour(minute);
  const [atHour, atMinute] = [whole(hour, 23), whole(minute, 59)];
  if (atHour === undefined || atMinute === undefined) return undefined;
  const at = clock(atHour, atMinute);
  if (anyDay) return `every day at ${at}`;
  if (day === "*") return onWeekday(weekday, at);
  const dayOfMonth = whole(day ?? "", 31);
  return weekday === "*" && dayOfMonth !== undefined
    ? `on day ${dayOfMonth} of each month at ${at}`
    : undefined;
}

function withinHour(minute: string): string | undefined {
  if (minute === "*") return "every minute";
  const step = /^\*\/(\d{1,2})$/.exec(minute)?.[1];
  if (step !== undefined && 60 % Number(step) === 0) return `every ${Number(step)} minutes`;
  const at = whole(minute, 59);
  return at === undefined ? undefined : `every hour at minute ${at}`;
}

function onWeekday(field: string, at: string): string | undefined {
  if (/^(1-5|mon-fri)$/i.test(field)) return `Monday to Friday at ${at}`;
  const n = /^[0-7]$/.test(field)
    ? Number(field) % 7
    : weekdays.findIndex((name) => name.slice(0, 3).toLowerCase() === field.toLowerCase());
  return n < 0 ? undefined : `every ${weekdays[n]} at ${at}`;
}
