/** Whatever times are added, in whatever parts: quantiles are right within the error, and merging loses nothing. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { boundOf, bucketCount, bucketOf, Histogram, relativeError } from "../../src/base/values/histogram.ts";

const longest = 2 ** 33;
/** Times over all of the range, as many short as long ones. */
const time = fc.double({ min: -4, max: 33, noNaN: true }).map((doublings) => 2 ** doublings);
const timesOf = fc.array(time, { minLength: 1, maxLength: 200 });

const histogramOf = (times: readonly number[]) => {
  const histogram = new Histogram();
  for (const one of times) histogram.add(one);
  return histogram;
};

test("the error that is promised is below 9 %", () => {
  expect(relativeError).toBeLessThan(0.09);
});

test("a quantile is off by at most the relative error", () => {
  fc.assert(
    fc.property(timesOf, fc.double({ min: 0, max: 1, noNaN: true }), (times, part) => {
      const exact = times.toSorted((a, b) => a - b)[
        Math.max(1, Math.ceil(part * times.length)) - 1
      ] as number;
      const found = histogramOf(times).quantile(part) as number;
      if (exact <= 2 ** -4) expect(found).toBe(0);
      else expect(Math.abs(found - exact) / exact).toBeLessThanOrEqual(relativeError + 1e-9);
    }),
  );
});

test("each time is in the bucket whose bounds are around it", () => {
  fc.assert(
    fc.property(time, (ms) => {
      const bucket = bucketOf(ms);
      expect(ms).toBeLessThanOrEqual(boundOf(bucket) * (1 + 1e-12));
      if (bucket > 0) expect(ms).toBeGreaterThan(boundOf(bucket - 1) * (1 - 1e-12));
    }),
  );
  for (let bucket = 0; bucket < bucketCount; bucket += 4) expect(bucketOf(boundOf(bucket))).toBe(bucket);
});

test("no number is outside of the buckets", () => {
  fc.assert(
    fc.property(fc.double(), (ms) => {
      expect(bucketOf(ms)).toBeGreaterThanOrEqual(0);
      expect(bucketOf(ms)).toBeLessThan(bucketCount);
    }),
  );
  expect([bucketOf(Number.NaN), bucketOf(-1), bucketOf(0)]).toEqual([0, 0, 0]);
  expect([bucketOf(Number.POSITIVE_INFINITY), bucketOf(longest * 2)]).toEqual([
    bucketCount - 1,
    bucketCount - 1,
  ]);
});

test("parts that are written, read and merged in any order are the same as the whole", () => {
  fc.assert(
    fc.property(fc.array(timesOf, { maxLength: 5 }), (parts) => {
      const merged = parts
        .map((part) => Histogram.decode(histogramOf(part).encode()))
        .reduceRight((all, part) => all.merge(part), new Histogram());
      const whole = histogramOf(parts.flat());
      expect(merged.encode()).toBe(whole.encode());
      expect(merged.total).toBe(parts.flat().length);
    }),
  );
});

test("any text is read without an error, and a part that is no bucket is left out", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      expect(Histogram.decode(text).total).toBeGreaterThanOrEqual(0);
    }),
  );
  expect(Histogram.decode("[16,2,-1,3,1000,4,17,-5,18]").encode()).toBe("[16,2]");
  expect(new Histogram().quantile(0.5)).toBeUndefined();
});
