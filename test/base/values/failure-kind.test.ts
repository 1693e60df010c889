/** Which failures are of one kind: the same error of one function, but for what differs each time. */
import { describe, expect, it, test } from "vitest";
import {
  failureKind,
  failureKindOf,
  failureKindOfTask,
  normalise,
} from "../../../src/base/values/failure-kind.ts";
import { failureOf } from "../../../src/base/values/thrown.ts";

describe("a normalised message", () => {
  test.each([
    ["connect ECONNREFUSED 127.0.0.1:5432", "connect ECONNREFUSED <n>:<n>"],
    ["user 42 has -5 of 1,000.50 (1e9)", "user <n> has <n> of <n> (<n>)"],
    ["task 6f9619ff-8b86-d011-b42d-00cf4fc964ff is gone", "task <uuid> is gone"],
    ["commit deadbeef01 at 0x1F of 12345678", "commit <n> at <n> of <n>"],
    ["a decade of beads", "a decade of beads"],
    ["a total of 10000000.25", "a total of <n>"],
    ['unique constraint "orders_pkey"', 'unique constraint "…"'],
    [
      "Cannot read properties of undefined (reading 'foo')",
      "Cannot read properties of undefined (reading '…')",
    ],
    ["can't open the user's file `a b.txt`", "can't open the user's file `…`"],
    ["no “Anna” and no «Bob»", "no “…” and no «…»"],
    ["GET https://api.example.com:8443/v1/users/42?x=1 failed", "GET https://api.example.com:<n> failed"],
    ["see (https://a.example/b/c).", "see (https://a.example)."],
    ["postgres://bob:secret@db/app refused", "postgres://db refused"],
    ["no mail to anna.b+x@example.co.uk.", "no mail to <mail>."],
    ["due at 2026-11-27T23:42:04.123Z or 2026-11-27", "due at <date> or <date>"],
    ["on Fri Nov 27 2026 23:42:04 GMT+0000 (Coordinated Universal Time)", "on <date>"],
    ["Fri, 27 Nov 2026 23:42:04 GMT", "<date>"],
    ["it may fail", "it may fail"],
    ["  a\n\tb  ", "a b"],
    ["", ""],
  ])("%j is %j", (message, expected) => {
    expect(normalise(message)).toBe(expected);
  });

  it("ends after 300 characters, and not within one", () => {
    expect(normalise("word ".repeat(1_000))).toHaveLength(299);
    expect(normalise(`${"x".repeat(299)}😀`)).toBe("x".repeat(299));
  });

  it("is the same however long a quoted value is", () => {
    expect(normalise(`no "${"x ".repeat(5_000)}" there`)).toBe('no "…');
    expect(normalise(`no "${"y ".repeat(500_000)}" there`)).toBe('no "…');
  });
});

describe("a kind of failure", () => {
  it("has an id of 12 hexadecimal digits that says the function, the error's name and the message", () => {
    const { id, ...kind } = failureKind("resize", "RangeError", "too wide: 640");
    expect(kind).toEqual({ func: "resize", errorName: "RangeError", message: "too wide: <n>" });
    expect(id).toMatch(/^[0-9a-f]{12}$/);
    expect(failureKind("resize", "RangeError", "too wide: 800").id).toBe(id);
    for (const other of [
      failureKind("shrink", "RangeError", "too wide: 640"),
      failureKind("resize", "TypeError", "too wide: 640"),
      failureKind("resize", "RangeError", "too high: 640"),
    ])
      expect(other.id).not.toBe(id);
  });

  it("of a task is that of its last attempt, also with characters that no database stores", () => {
    const { error, attempt } = failureOf("failed", { name: "E\0", message: "half a pair \ud800 of 3" });
    const kind = failureKindOf("resize", attempt);
    expect(kind?.id).toMatch(/^[0-9a-f]{12}$/);
    expect(failureKindOfTask("resize", JSON.parse(error))).toEqual(kind);
    expect(failureKindOf("resize", attempt)).toBe(kind);
    expect(failureKindOf("shrink", attempt)?.func).toBe("shrink");
  });

  it("is none of an attempt that was cancelled", () => {
    expect(failureKindOf("resize", failureOf("cancelled", { name: "CancelTask", message: "" }).attempt)).toBe(
      undefined,
    );
  });
});
