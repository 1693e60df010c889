/** The timing of a schedule in words. */
import { expect, test } from "vitest";
import { inWords } from "../../../src/features/dashboard/pages/cron-words.ts";

const said = {
  "* * * * *": "every minute",
  "*/5 * * * *": "every 5 minutes",
  "*/5 * * * 1-5": "every 5 minutes, from Monday to Friday",
  "@hourly": "every hour",
  "15 * * * *": "every hour, 15 past the hour",
  "0 */6 * * *": "every 6 hours",
  "0 3 * * *": "every day at 03:00",
  "30 8,20 * * *": "every day at 08:30 and 20:30",
  "0 3 * * 1-5": "from Monday to Friday at 03:00",
  "0 3 * * 0,3,6": "every Sunday, Wednesday and Saturday at 03:00",
  "@weekly": "every Sunday at 00:00",
  "@monthly": "on day 1 of each month at 00:00",
};

for (const [cron, words] of Object.entries(said))
  test(`${cron} reads as ${words}`, () => {
    expect(inWords({ cron, every: null })).toBe(words);
  });

// A step that does not divide its hour or day, months, nth days, both kinds of days, seconds, and what is no expression.
const unsaid = [
  "*/7 * * * *",
  "0 */5 * * *",
  "0 0 1 1 *",
  "0 3 * * mon#2",
  "0 3 1 * 1",
  "0 0 3 * * *",
  "5-10 * * * *",
  "",
];

for (const cron of unsaid)
  test(`the expression ${JSON.stringify(cron)} is shown as it is`, () => {
    expect(inWords({ cron, every: null })).toBeUndefined();
  });

test("an interval is said in the largest unit that divides it", () => {
  const words = [900_000, 3_600_000, 90_000, 172_800_000, 1_500].map((every) =>
    inWords({ cron: null, every }),
  );
  expect(words).toEqual([
    "every 15 minutes",
    "every hour",
    "every 90 seconds",
    "every 2 days",
    "every 1.5 s",
  ]);
});
