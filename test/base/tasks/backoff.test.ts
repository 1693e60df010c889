/** The default backoff: exponential, capped, with jitter, and safe for any count. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defaultBackoff } from "../../../src/base/tasks/backoff.ts";

const hour = 3_600_000;

describe("defaultBackoff", () => {
  it("doubles from 1 s to an hour without jitter", () => {
    const waits = Array.from({ length: 15 }, (_, i) => defaultBackoff(i + 1, 0));
    const doubled = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048].map((s) => s * 1_000);
    expect(waits).toEqual([...doubled, hour, hour, hour]);
  });

  it("is shortened by up to a quarter", () => {
    expect(defaultBackoff(1, 0.5)).toBe(875);
    expect(defaultBackoff(1, 1 - Number.EPSILON)).toBe(750);
    expect(defaultBackoff(50, 1 - Number.EPSILON)).toBe(0.75 * hour);
  });

  it.each([31, 32, 1_024, 2 ** 31 - 1, 2 ** 31, 2 ** 53, Number.MAX_VALUE, Number.POSITIVE_INFINITY])(
    "is an hour at most for count %d",
    (count) => {
      expect(defaultBackoff(count, 0)).toBe(hour);
    },
  );

  it("treats a count below 1 as the first retry", () => {
    for (const count of [0, -1, Number.NEGATIVE_INFINITY]) expect(defaultBackoff(count, 0)).toBe(1_000);
  });

  it("is a whole number of milliseconds, at least three quarters of the doubled wait, for any count and jitter", () => {
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 31 }), chance, (count, random) => {
        const wait = defaultBackoff(count, random);
        const whole = Math.min(1_000 * 2 ** Math.min(count - 1, 40), hour);
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
