import { expect, test } from "vitest";
import { changedNumberIn } from "../../../src/base/text/numbers.ts";

test.each([
  ["[9007199254740993]", "9007199254740993"],
  ['{"12345678901234567890":-12345678901234567891}', "-12345678901234567891"],
  ["[1e400]", "1e400"],
  [`[${"9".repeat(400)}]`, "9".repeat(400)],
  ['["\\"9007199254740993", 9007199254740993]', "9007199254740993"],
  ["[9007199254740992, 9223372036854775808, 1e300, 0.12345678901234567]", undefined],
  ['["9007199254740993", {"9007199254740993": 1}, "\\\\"]', undefined],
])("of the JSON %.60s JavaScript would change %s", (json, changed) => {
  expect(changedNumberIn(json)).toBe(changed);
});

test("a string of any length is passed over", () => {
  const long = '\\"9007199254740993x'.repeat(1_000_000);
  expect(changedNumberIn(`["${long}"]`)).toBeUndefined();
  expect(changedNumberIn(`["${long}", 9007199254740993]`)).toBe("9007199254740993");
});
