/** Times as people say them: "12 s ago", with the local time as the title. */

const steps = [
  [60_000, 1_000, "s"],
  [3_600_000, 60_000, "min"],
  [86_400_000, 3_600_000, "h"],
  [30 * 86_400_000, 86_400_000, "d"],
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

function relative(at: Date, now: number): string {
  const distance = Math.abs(now - at.getTime());
  if (distance < 1_000) return "now";
  for (const [below, unit, name] of steps)
    if (distance < below) {
      const count = `${Math.floor(distance / unit)} ${name}`;
      return at.getTime() > now ? `in ${count}` : `${count} ago`;
    }
  return asDate.format(at);
}
