import { expect, test } from "vitest";
import { UsageError } from "../../../src/entries/cli/failure.ts";
import {
  duration,
  jsonArray,
  jsonObject,
  metaPair,
  names,
  taskId,
  whole,
} from "../../../src/entries/cli/parse.ts";

test("a duration is a number of milliseconds, or text with a unit", () => {
  expect(["250", "30s", "1.5m", "0"].map(duration)).toEqual([250, 30_000, 90_000, 0]);
  for (const wrong of ["", "soon", "-5s", "1e999", "9".repeat(200)])
    expect(() => duration(wrong)).toThrow("duration");
});

test("a whole number has only digits and is within its limits", () => {
  const number = whole(-2, 10);
  expect(["-2", "+3", "10"].map(number)).toEqual([-2, 3, 10]);
  for (const wrong of ["", " 1", "1.0", "0x1", "1e1", "11", "-3", "many"]) {
    expect(() => number(wrong)).toThrow("whole number from -2 to 10");
  }
  expect(taskId("9007199254740991")).toBe(Number.MAX_SAFE_INTEGER);
  for (const wrong of ["0", "9007199254740993"]) expect(() => taskId(wrong)).toThrow(UsageError);
});

test("JSON arguments have the right type, and no number is rounded", () => {
  expect(jsonArray('[1, "12345678901234567890", {"__proto__": 1}, 1e300, 0.1]', "args")).toHaveLength(5);
  // A power of two is not rounded.
  expect(jsonArray("[9007199254740992]", "args")).toEqual([9007199254740992]);
  expect(() => jsonArray('["a", 9007199254740993]', "args")).toThrow(
    "args: JavaScript would round the number 9007199254740993",
  );
  expect(() => jsonObject('{"12345678901234567890": 1}', "--kwargs")).not.toThrow();
  for (const wrong of ["", "{}", "null", "[1"]) expect(() => jsonArray(wrong, "args")).toThrow(/^args: /);
  for (const wrong of ["", "[]", "null", "{1"])
    expect(() => jsonObject(wrong, "--kwargs")).toThrow(/^--kwargs: /);
});

test("a value of key=value is parsed as a JSON scalar only if it prints as it was typed", () => {
  const pairs = [
    "a=1",
    "b=true",
    "c=null",
    'd="1"',
    "e=x=y",
    "f=",
    "g=007",
    "h=1e3",
    "i=[1]",
    "j=12345678901234567890",
  ];
  expect(pairs.reduce((before, text) => metaPair(text, before), {})).toEqual({
    a: 1,
    b: true,
    c: null,
    d: "1",
    e: "x=y",
    f: "",
    g: "007",
    h: "1e3",
    i: "[1]",
    j: "12345678901234567890",
  });
  for (const wrong of ["a", "=1", ""]) expect(() => metaPair(wrong)).toThrow("key=value");
});

test("names come from commas and from repeated options", () => {
  expect(names("c", names("a, b"))).toEqual(["a", "b", "c"]);
});
