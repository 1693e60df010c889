/** Durations and points in time, and timers for any delay. */
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { kindOf, milliseconds, moment, show } from "../../../src/base/options/durations.ts";
import { after as callAfter } from "../../../src/base/runtime/timers.ts";
import "../../support/fakeable-timers.ts";

describe("durations", () => {
  it.each<[given: unknown, ms: number]>([
    [0, 0],
    [1_500, 1_500],
    [1.4, 1],
    [1.6, 2],
    ["0", 0],
    ["250ms", 250],
    ["30s", 30_000],
    ["1.5s", 1_500],
    ["5m", 300_000],
    ["2h", 7_200_000],
    ["7d", 604_800_000],
    ["2 hours", 7_200_000],
    ["1W", 604_800_000],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  ])("%j is %i ms", (given, ms) => {
    expect(milliseconds(given, "it")).toBe(ms);
  });

  it.each<[given: unknown, shown: string]>([
    [-1, "-1"],
    ["-1s", '"-1s"'],
    [Number.NaN, "NaN"],
    [Number.POSITIVE_INFINITY, "Infinity"],
    [2 ** 53, "9007199254740992"],
    ["soon", '"soon"'],
    ["30", '"30", without a unit: "30s" is seconds'],
    ["1.5", '"1.5", without a unit: "1.5s" is seconds'],
    [" 250 ", '" 250 ", without a unit: "250s" is seconds'],
    ["-30", '"-30"'],
    ["", '""'],
    [" ", '" "'],
    ["5 parsecs", '"5 parsecs"'],
    ["1s 2m", '"1s 2m"'],
    ["9".repeat(200), `"${"9".repeat(60)}…"`],
    [null, "null"],
    [undefined, "undefined"],
    [true, "true"],
    [10n, "10n"],
    [Symbol("s"), "Symbol(s)"],
    [{ seconds: 1 }, "an object (Object)"],
    [["30s"], "an array of 1"],
    [new Date(0), "the Date 1970-01-01T00:00:00.000Z"],
    [function later() {}, "function (later)"],
  ])("%s is refused with the name of the option and the value", (given, shown) => {
    expect(() => milliseconds(given, "owner: timeout")).toThrow(TypeError);
    expect(() => milliseconds(given, "owner: timeout")).toThrow("owner: timeout: expected a duration");
    expect(() => milliseconds(given, "owner: timeout")).toThrow(`got ${shown}`);
  });

  it("limits apply, and the message names the exceeded one", () => {
    const limits = { min: 1_000, max: 60_000 };
    expect(milliseconds("1s", "lease", limits)).toBe(1_000);
    expect(milliseconds("1m", "lease", limits)).toBe(60_000);
    expect(() => milliseconds(999, "lease", limits)).toThrow("1000 ms");
    expect(() => milliseconds("2m", "lease", limits)).toThrow("60000 ms");
    expect(milliseconds(Number.POSITIVE_INFINITY, "x", { max: Number.POSITIVE_INFINITY })).toBe(
      Number.POSITIVE_INFINITY,
    );
  });
});

describe("points in time", () => {
  it("may be a Date or milliseconds since 1970, up to the last valid Date", () => {
    expect(moment(new Date(1_234), "waitUntil")).toBe(1_234);
    expect(moment(new Date(-8.64e15), "waitUntil")).toBe(-8.64e15);
    expect(moment(8.64e15, "waitUntil")).toBe(8.64e15);
  });

  it.each<[given: unknown, shown: string]>([
    [new Date(Number.NaN), "an invalid Date"],
    [8.64e15 + 1, "8640000000000001"],
    [Number.NaN, "NaN"],
    ["2030-01-01", '"2030-01-01"'],
    [null, "null"],
    [{}, "an object (Object)"],
  ])("%s is refused", (given, shown) => {
    expect(() => moment(given, "waitUntil")).toThrow(TypeError);
    expect(() => moment(given, "waitUntil")).toThrow(`waitUntil: expected a valid Date, got ${shown}`);
  });
});

describe("values in error messages", () => {
  it("are short and on one line", () => {
    expect(show("x".repeat(1_000))).toHaveLength(63);
    expect(show("a\nb")).toBe('"a\\nb"');
    expect(show(new (class Pool {})())).toBe("an object (Pool)");
    expect(show(Object.create(null))).toBe("an object (Object)");
    expect(show(() => 1)).toBe("function (anonymous)");
    expect(kindOf({ constructor: { name: "y".repeat(1_000) } })).toHaveLength(60);
  });

  it("call no code of the value", () => {
    const boom = () => {
      throw new Error("called");
    };
    const throwing = new Proxy({}, { get: boom, getPrototypeOf: boom, ownKeys: boom, has: boom });
    const named = Object.defineProperty(() => 1, "name", { get: boom });
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const text = { toString: boom, toJSON: boom, [Symbol.toPrimitive]: boom };
    for (const value of [throwing, named, proxy, text]) expect(() => show(value)).not.toThrow();
  });
});

describe("after", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  // setTimeout takes at most 2^31 - 1 ms, and fires at once beyond that.
  it.each([1, 59_999, 60_000, 60_001, 120_000, 3_600_000, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 12_345])(
    "fires once after %i ms, not before",
    (delay) => {
      const fn = vi.fn();
      callAfter(delay, fn);
      vi.advanceTimersByTime(delay - 1);
      expect(fn).not.toHaveBeenCalled();
      vi.advanceTimersByTime(1);
      expect(fn).toHaveBeenCalledTimes(1);
      vi.advanceTimersByTime(200_000);
      expect(fn).toHaveBeenCalledTimes(1);
      expect(vi.getTimerCount()).toBe(0);
    },
  );

  it("never asks setTimeout for more than a minute", () => {
    const spied = vi.spyOn(globalThis, "setTimeout");
    callAfter(2 ** 40, () => undefined);
    vi.advanceTimersByTime(300_000);
    for (const [, delay] of spied.mock.calls) expect(delay).toBeLessThanOrEqual(60_000);
    expect(spied.mock.calls.length).toBeGreaterThan(4);
  });

  it("Infinity never fires", () => {
    const fn = vi.fn();
    const timer = callAfter(Number.POSITIVE_INFINITY, fn);
    vi.advanceTimersByTime(10 * 24 * 3_600_000);
    expect(fn).not.toHaveBeenCalled();
    timer.clear();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("a cleared timer never fires, in its first step or a later one", () => {
    const fn = vi.fn();
    callAfter(30_000, fn).clear();
    const later = callAfter(10 * 60_000, fn);
    vi.advanceTimersByTime(5 * 60_000);
    later.clear();
    later.clear();
    vi.advanceTimersByTime(60 * 60_000);
    expect(fn).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("a jump of the wall clock makes it neither early nor late", () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
    onTestFinished(() => void vi.useRealTimers());
    const fn = vi.fn();
    callAfter(300_000, fn);
    vi.setSystemTime(Date.now() + 7 * 24 * 3_600_000);
    vi.advanceTimersByTime(299_999);
    expect(fn).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(fn).toHaveBeenCalledTimes(1);
  });
});
