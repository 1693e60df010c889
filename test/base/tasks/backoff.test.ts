/** The default backoff: exponential, capped, with jitter, and safe for any count. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defaultBackoff } from "../../../src/base/tasks/backoff.ts";

const hour = 3_600_000;

describe("defaultBackoff", () => {
  it("grows fivefold from 15 s to an hour without jitter", () => {
    const waits = Array.from({ length: 6 }, (_, i) => defaultBackoff(i + 1, 0));
    expect(waits).toEqual([15_000, 75_000, 375_000, 1_875_000, hour, hour]);
  });

  it("makes the last of three retries, the default, come after an outage of five minutes", () => {
    const mostJitter = 1 - Number.EPSILON;
    const shortest = [1, 2, 3].reduce((sum, retry) => sum + defaultBackoff(retry, mostJitter), 0);
    expect(shortest).toBeGreaterThan(5 * 60_000);
  });

  it("is shortened by up to a quarter", () => {
    expect(defaultBackoff(1, 0.5)).toBe(13_125);
    expect(defaultBackoff(1, 1 - Number.EPSILON)).toBe(11_250);
    expect(defaultBackoff(50, 1 - Number.EPSILON)).toBe(0.75 * hour);
  });

  it.each([31, 32, 1_024, 2 ** 31 - 1, 2 ** 31, 2 ** 53, Number.MAX_VALUE, Number.POSITIVE_INFINITY])(
    "is an hour at most for count %d",
    (count) => {
      expect(defaultBackoff(count, 0)).toBe(hour);
    },
  );

  it("treats a count below 1 as the first retry", () => {
    for (const count of [0, -1, Number.NEGATIVE_INFINITY]) expect(defaultBackoff(count, 0)).toBe(15_000);
  });

  it("is a whole number of milliseconds, at least three quarters of the wait without jitter, for any count and jitter", () => {
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 31 }), chance, (count, random) => {
        const wait = defaultBackoff(count, random);
        const whole = Math.min(15_000 * 5 ** Math.min(count - 1, 40), hour);
        expect(Number.isInteger(wait)).toBe(true);
        expect(wait).toBeGreaterThanOrEqual(0.75 * whole);
        expect(wait).toBeLessThanOrEqual(whole);
      }),
    );
  });

  it("differs between tasks that failed together", () => {
    const waits = new Set(Array.from({ length: 100 }, () => defaultBackoff(10)));
    expect(waits.size).toBeGreaterThan(50);
  });
});
