/** The timing of a schedule in words. */
import { expect, test } from "vitest";
import { timingInWords } from "../../../src/base/text/timing.ts";

test.each([
  ["* * * * *", "every minute"],
  ["*/5 * * * *", "every 5 minutes"],
  ["*/5 * * * 1-5", "every 5 minutes, from Monday to Friday"],
  ["@hourly", "every hour"],
  ["15 * * * *", "every hour, 15 past the hour"],
  ["0 */6 * * *", "every 6 hours"],
  ["0 3 * * *", "every day at 03:00"],
  ["30 8,20 * * *", "every day at 08:30 and 20:30"],
  ["0 3 * * 1-5", "from Monday to Friday at 03:00"],
  ["0 3 * * mon-FRI", "from Monday to Friday at 03:00"],
  ["0 3 * * 0,3,6", "every Sunday, Wednesday and Saturday at 03:00"],
  ["0 9 * * MON", "every Monday at 09:00"],
  ["0 9 * * 7", "every Sunday at 09:00"],
  ["0 9 1 * *", "on day 1 of each month at 09:00"],
  ["@daily", "every day at 00:00"],
  ["@weekly", "every Sunday at 00:00"],
  ["@monthly", "on day 1 of each month at 00:00"],
  ["@yearly", "every January 1 at 00:00"],
])("%s reads as %s", (cron, words) => {
  expect(timingInWords({ cron, every: null })).toBe(words);
});

test.each([
  ["a step that does not divide its hour", "*/7 * * * *"],
  ["a step that does not divide its day", "0 */5 * * *"],
  ["a month", "0 0 1 1 *"],
  ["the nth day of a month", "0 3 * * mon#2"],
  ["both kinds of days", "0 3 1 * 1"],
  ["seconds", "0 0 3 * * *"],
  ["a range of minutes", "5-10 * * * *"],
  ["a range of days that ends where it begins", "0 3 * * 1-1"],
  ["three ends of a range", "0 3 * * 1-2-3"],
  ["an unknown day", "0 3 * * moon"],
  ["a minute that no hour has", "60 * * * *"],
  ["an hour that no day has", "0 24 * * *"],
  ["no expression", ""],
])("%s has no words", (_, cron) => {
  expect(timingInWords({ cron, every: null })).toBeUndefined();
});

test.each([
  [900_000, "every 15 minutes"],
  [3_600_000, "every hour"],
  [90_000, "every 90 seconds"],
  [172_800_000, "every 2 days"],
  [1_500, "every 1.5 s"],
  [250, "every 250 ms"],
])("an interval of %i ms reads as %s", (every, words) => {
  expect(timingInWords({ cron: null, every })).toBe(words);
});
