import { expect, test } from "vitest";
import { changedNumberIn } from "../../../src/base/text/numbers.ts";

test.each([
  ["9007199254740993", "9007199254740993"],
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

test("a number is found wherever it stands, among numbers that JavaScript keeps", () => {
  for (let before = 0; before < 40; before += 1)
    for (const changed of ["9007199254740993", "-90071992547409931", "1e+309", "0.1E400"])
      for (const after of ["", "9", "123456789012345"]) {
        const kept = [`"${"7".repeat(before)}"`, "1".repeat(before % 16), 123456789012345, 1.5e-7];
        const json = `[${[...kept, changed, after].filter((one) => one !== "").join(",")}]`;
        expect([json, changedNumberIn(json)]).toEqual([json, changed]);
        expect(changedNumberIn(json.replace(changed, "1e+20"))).toBeUndefined();
      }
});

test("a string of any length is passed over", () => {
  const long = '\\"9007199254740993x'.repeat(1_000_000);
  expect(changedNumberIn(`["${long}"]`)).toBeUndefined();
  expect(changedNumberIn(`["${long}", 9007199254740993]`)).toBe("9007199254740993");
});
