import { describe, expect, it } from "vitest";
import { cutToLevels } from "../../../src/base/text/levels.ts";

const nested = (levels: number, open = "[", close = "]") => open.repeat(levels) + close.repeat(levels);

describe("cutToLevels", () => {
  it.each([
    ["[1,[2]]", "[1,[]]"],
    ['{"a":{"b":1},"c":[2],"d":3}', '{"a":{},"c":[],"d":3}'],
    ['["[[[[", "\\"[[", {"]":"}"}]', '["[[[[", "\\"[[", {}]'],
    ["[[[[[[[[", "[["],
    ["]]]]]]]]", "]]]]]]]]"],
    ["[[1],[[2]],[3]]", "[[],[],[]]"],
    ['"[[[[[[[[', '"[[[[[[[['],
    ['["\\\\",[1]]', '["\\\\",[]]'],
  ])("cuts %s to one level", (text, cut) => expect(cutToLevels(text, 1)).toBe(cut));

  it("leaves a text with as many levels as allowed as it is", () => {
    for (const text of [
      "",
      "1",
      nested(128),
      `{"a":${nested(127)}}`,
      nested(127, '{"a":[', "]}").slice(0, 128),
    ])
      expect(cutToLevels(text, 128)).toBe(text);
  });

  it("cuts two million levels in one pass", () => {
    const cut = cutToLevels(
      `{"x":${nested(1_000_000)},"y":${nested(1_000_000, '{"a":', "}").replace("}", "1}")}}`,
      128,
    );
    expect(cut.length).toBeLessThan(2_000);
    expect(Object.keys(JSON.parse(cut) as object)).toEqual(["x", "y"]);
  });
});
