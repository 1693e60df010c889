/** Times as people say them: "12 s ago", with the local time as the title. */

/** A time that is further away is a date. */
const furthest = 30 * 86_400_000;

/** A second unit stands behind fewer of the first than this. */
const few = 10;

const units = [
  ["d", 86_400_000, few],
  ["h", 3_600_000, 24],
  ["min", 60_000, few],
  ["s", 1_000, 0],
] as const;

const asDate = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const asTitle = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/** Rewrites all times of the page; also those that another process of the page has replaced. */
export function showTimes(): void {
  if (document.hidden) return;
  const now = Date.now();
  for (const element of document.querySelectorAll<HTMLTimeElement>("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const text = relative(at, now);
    if (element.textContent !== text) element.textContent = text;
    const title = asTitle.format(at);
    if (element.title !== title) element.title = title;
  }
}

/** "now", "in 1 h 57 min", "12 s ago" or a date. */
export function relative(at: Date, now: number): string {
  const distance = Math.abs(now - at.getTime());
  if (distance < 1_000) return "now";
  if (distance >= furthest) return asDate.format(at);
  return at.getTime() > now ? `in ${spanOf(distance)}` : `${spanOf(distance)} ago`;
}

function spanOf(distance: number): string {
  const i = units.findIndex(([, length]) => distance >= length);
  const [name, length, mostOfTwo] = units[i] ?? units[3];
  const count = Math.floor(distance / length);
  const [smaller, part] = units[i + 1] ?? [];
  const rest = part === undefined ? 0 : Math.floor((distance % length) / part);
  return `${count} ${name}${count < mostOfTwo && rest > 0 ? ` ${rest} ${smaller}` : ""}`;
}
