/** Times and pairs of meta as people type them: on the command line and in the dashboard. */
import { expect, test } from "vitest";
import { typedPair, typedTime } from "../../../src/base/text/typed.ts";
import { metaPair, time } from "../../../src/entries/cli/parse.ts";
import { filterOf, timeOf } from "../../../src/features/dashboard/query.ts";

test.each([
  ["2027-01-31", "2027-01-31T00:00:00.000Z"],
  ["2027-07-31T12:00", "2027-07-31T12:00:00.000Z"],
  ["2027-07-31 12:00", "2027-07-31T12:00:00.000Z"],
  ["2027-07-31T12:00:30.25", "2027-07-31T12:00:30.250Z"],
  ["2027-07-31T12:00Z", "2027-07-31T12:00:00.000Z"],
  ["2027-07-31T12:00:00+02:00", "2027-07-31T10:00:00.000Z"],
  ["2027-07-31T12:00-0330", "2027-07-31T15:30:00.000Z"],
  ["2028-02-29", "2028-02-29T00:00:00.000Z"],
])("%s is %s, on the command line and in the dashboard", (text, expected) => {
  expect([time(text), timeOf(text, "from")].map((read) => read.toISOString())).toEqual([expected, expected]);
});

test.each([
  ["2027-02-30", "day"],
  ["2027-04-31T12:00:00Z", "day"],
  ["2027-13-01", "form"],
  ["2027-01-01T25:00", "form"],
  ["2027", "form"],
  ["31.01.2027", "form"],
  ["2027-01-31T12", "form"],
  ["2027-01-31Z", "form"],
  ["1e3", "form"],
  ["tomorrow", "form"],
  ["", "form"],
])("%s is no time, in the command line and in the dashboard", (text, why) => {
  expect(typedTime(text)).toBe(why);
  for (const read of [() => time(text), () => timeOf(text, "from")])
    expect(read).toThrow(why === "day" ? "expected a day that exists" : "expected a time");
});

test.each([
  ["n=1000", 1000],
  ["n=1e3", "1e3"],
  ["n=007", "007"],
  ["n=12345678901234567890", "12345678901234567890"],
  ["n=-0.5", -0.5],
  ["n=true", true],
  ["n=null", null],
  ['n="7"', "7"],
  ["n=x=y", "x=y"],
  ["n= 7", " 7"],
  ["n=[1]", "[1]"],
  ["n=", ""],
])("meta %s is the same value on the command line and in the dashboard", (text, value) => {
  expect(typedPair(text)).toEqual(["n", value]);
  expect(metaPair(text)).toEqual({ n: value });
  expect(filterOf({ meta: text })).toEqual({ meta: { n: value } });
});
