/** An app's own backoff and retryOn apply if they are valid; else the error is reported, and the default applies. */
import { describe, expect, it } from "vitest";
import { definitionNamed, type TaskDefinition } from "../../../src/base/tasks/registry.ts";
import { isWorthRetry, retryDelay } from "../../../src/base/tasks/retry-policy.ts";
import { task } from "../../../src/index.ts";
import { uniqueName } from "../../support/queue.ts";

/** The definition of a task with these options, and the errors reported for it. */
function defined(options: object) {
  const name = uniqueName();
  task(name, () => 1, options as never);
  const reports: { error: unknown; where: string }[] = [];
  const report = (error: unknown, where: string) => void reports.push({ error, where });
  return { definition: definitionNamed(name) as TaskDefinition, report, reports, name };
}

const boom = () => {
  throw new Error("boom");
};

describe("retryDelay", () => {
  it("is the return value of the task's backoff, which gets the count and the error", () => {
    const calls: unknown[] = [];
    const backoff = (...args: unknown[]) => {
      calls.push(args);
      return "5m";
    };
    const { definition, report, reports } = defined({ backoff });
    const error = new Error("x");
    expect(retryDelay(definition, 2, error, report)).toBe(300_000);
    expect(calls).toEqual([[2, error]]);
    expect(reports).toEqual([]);
  });

  it("may be a Date; one in the past means at once", () => {
    const soon = defined({ backoff: () => new Date(Date.now() + 3_600_000) });
    const delay = retryDelay(soon.definition, 1, undefined, soon.report);
    expect(delay).toBeGreaterThan(3_500_000);
    expect(delay).toBeLessThanOrEqual(3_600_000);
    const past = defined({ backoff: () => new Date(0) });
    expect(retryDelay(past.definition, 1, undefined, past.report)).toBe(0);
    expect([...soon.reports, ...past.reports]).toEqual([]);
  });

  it.each<[what: string, backoff: () => unknown]>([
    ["throws", boom],
    ["says nothing", () => undefined],
    ["says NaN", () => Number.NaN],
    ["says Infinity", () => Number.POSITIVE_INFINITY],
    ["says something negative", () => -1],
    ["says no duration", () => "soon"],
    ["says more than a Date can hold", () => 8.64e15],
    ["says an invalid Date", () => new Date(Number.NaN)],
    ["is async", async () => 5],
  ])("with a backoff that %s is the default, and the error is reported", (_, backoff) => {
    const { definition, report, reports, name } = defined({ backoff });
    const delay = retryDelay(definition, 3, undefined, report);
    expect(delay).toBeGreaterThanOrEqual(281_250);
    expect(delay).toBeLessThanOrEqual(375_000);
    expect(reports).toEqual([{ error: expect.any(Error), where: `backoff of task "${name}"` }]);
  });

  it("without a backoff is the default", () => {
    const { definition, report } = defined({});
    expect(retryDelay(definition, 100, undefined, report)).toBeLessThanOrEqual(3_600_000);
    expect(retryDelay(definition, 1, undefined, report)).toBeGreaterThanOrEqual(11_250);
  });
});

describe("isWorthRetry", () => {
  it("is true without retryOn, else what retryOn decides", () => {
    const every = defined({});
    expect(isWorthRetry(every.definition, undefined, every.report)).toBe(true);
    const some = defined({ retryOn: [TypeError, RangeError] });
    const errors = [new TypeError(), new RangeError(), new Error(), null, "TypeError"];
    expect(errors.map((error) => isWorthRetry(some.definition, error, some.report))).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
    expect(some.reports).toEqual([]);
  });

  it("is true for a predicate that throws, which is reported", () => {
    const { definition, report, reports, name } = defined({ retryOn: boom });
    expect(isWorthRetry(definition, new Error("x"), report)).toBe(true);
    expect(reports).toEqual([{ error: new Error("boom"), where: `retryOn of task "${name}"` }]);
  });

  it("is true for a thrown value that throws when it is read", () => {
    const { definition, report } = defined({ retryOn: TypeError });
    const hostile = new Proxy({}, { getPrototypeOf: boom });
    expect(isWorthRetry(definition, hostile, report)).toBe(true);
  });
});
