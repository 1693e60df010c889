/** What a person may have meant by a name that does not exist. */
import { expect, test } from "vitest";
import { nearName } from "../../../src/base/text/near.ts";

const names = ["charge", "book", "charge#2", "notify by mail"];

test.each([
  ["chrage", "charge"],
  ["Charge", "charge"],
  ["charg", "charge"],
  ["charge#3", "charge#2"],
  ["notify-by-mail", "notify by mail"],
  ["ship", undefined],
  ["b", undefined],
  ["", undefined],
  ["x".repeat(10_000), undefined],
])("%j is near to %j", (given, near) => {
  expect(nearName(given, names)).toBe(near);
});

test("a short name is near only to a name that differs by one character", () => {
  expect([nearName("bok", ["book"]), nearName("bk", ["book"]), nearName("z", ["a"])]).toEqual([
    "book",
    undefined,
    undefined,
  ]);
});
