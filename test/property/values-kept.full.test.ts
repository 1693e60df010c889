/** Invariant: values that queues are known to change come back equal from each place where a value may be. */
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Task } from "../../src/index.ts";
import { allEnded } from "../worker/setup.ts";
import { databases } from "./databases.ts";
import { same } from "./json.ts";
import { complete, echo, make, numberFor, type SharedQueue, sharedQueueOn } from "./shared-queue.ts";

/** The value, created for each place, as it came back from each. */
async function everywhere(
  { queue, other }: Pick<SharedQueue, "queue" | "other">,
  value: () => unknown,
): Promise<unknown[]> {
  const ids = await queue.enqueueTasks([
    [echo, value()],
    [echo.with({ kwargs: { it: value() } })],
    [echo.with({ meta: { it: value() } })],
    [make, numberFor(value)],
    [complete, numberFor(value)],
  ]);
  const tasks = (await allEnded<unknown>(queue, ids)) as [Task, Task, Task, Task, Task];
  for (const { status, error } of tasks) expect(status, error?.message).toBe("completed");
  const [args, kwargs, meta, returned, settled] = tasks;
  return [
    ...(args.result as unknown[]),
    ...args.args,
    ...(kwargs.result as { it: unknown }[]).map(({ it }) => it),
    kwargs.kwargs.it,
    meta.meta.it,
    returned.result,
    settled.result,
    (await other.getTask(returned.id))?.result,
  ];
}

const nested = (levels: number, bottom: unknown = 1): unknown =>
  levels === 0 ? bottom : { deeper: nested(levels - 1, bottom) };

const shared = { a: [1] };

const parsed = (json: string): unknown => JSON.parse(json);

const changing = () => {
  let reads = 0;
  return {
    get it() {
      reads += 1;
      return reads === 1 ? "the first" : new Date();
    },
  };
};

const swapping = () => {
  const object = {
    get first() {
      object.second = "new";
      return "old";
    },
    second: "old",
  };
  return object;
};

const kept: [what: string, value: () => unknown, back?: () => unknown][] = [
  ["-0", () => -0],
  ["-0 inside", () => [{ zero: -0 }]],
  ["2^53", () => 2 ** 53],
  ["2^53 + 2", () => 2 ** 53 + 2],
  ["-(2^63)", () => -(2 ** 63)],
  ["1e21", () => 1e21],
  ["the largest number", () => Number.MAX_VALUE],
  ["the smallest number", () => Number.MIN_VALUE],
  ["NUL", () => "a\0b"],
  ["a NUL in a key", () => ({ "a\0b": "\0" })],
  ["lone surrogates", () => ["\ud800", "\udfff x", { "\udc00\ud800": 1 }]],
  ["line separators", () => "\u2028\u2029"],
  ["a byte order mark", () => "\ufeff{}"],
  ["__proto__ as an own key", () => parsed('{"__proto__":{"admin":true},"in":[{"__proto__":1}]}')],
  ["constructor, toString and hasOwnProperty", () => ({ constructor: 1, toString: 2, hasOwnProperty: null })],
  ["a toJSON that is not a function", () => ({ toJSON: "no" })],
  [
    "numbers and dates as text",
    () => ["10.5", "1e400", "-0", "2026-01-01", "2026-01-01T00:00:00.000Z", "null"],
  ],
  ["no text, and nothing", () => ({ text: "", nothing: null, none: [], plain: {} })],
  ["keys that are not the same to the fixture", () => ({ a: 1, A: 2, "a ": 3, á: 4, "a\u0301": 5, "": 6 })],
  ["keys that are not in alphabetical order", () => ({ b: 1, a: { d: 1, c: 2 }, aa: 3 })],
  ["characters of four bytes", () => ({ "😀": "𝒳𐍈" })],
  ["70,000 of them", () => "😀".repeat(70_000)],
  ["text that is JSON", () => '{"a":1}'],
  ["text that is SQL", () => "'); drop table dbq_tasks; --"],
  ["the same object twice", () => ({ one: shared, two: [shared, shared] })],
  [
    "an object of another realm",
    () => runInNewContext("({ a: [1, { b: null }] })"),
    () => ({ a: [1, { b: null }] }),
  ],
  ["a null-prototype object", () => Object.assign(Object.create(null), { a: 1 }), () => ({ a: 1 })],
  ["an undefined property", () => ({ a: undefined, b: 1 }), () => ({ b: 1 })],
  ["a frozen object", () => Object.freeze({ a: Object.freeze([1]) })],
  ["a proxy that only looks on", () => new Proxy({ a: new Proxy([1], {}) }, {}), () => ({ a: [1] })],
  [
    "a getter",
    () => ({
      get a() {
        return [1];
      },
    }),
    () => ({ a: [1] }),
  ],
  ["a getter that gives a Date when it is read again", changing, () => ({ it: "the first" })],
  ["an object that changes while it is read", swapping, () => ({ first: "old", second: "new" })],
  ["98 levels, and the two that hold them", () => nested(98)],
  ["10,000 keys", () => Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`k${i}`, i]))],
];

for (const kind of Object.values(databases))
  describe.skipIf(await kind.missing())(`on ${kind.name}`, () => {
    let post: Awaited<ReturnType<typeof sharedQueueOn>>;
    beforeAll(async () => {
      post = await sharedQueueOn(kind);
    });
    afterAll(() => post.close());

    test.each(kept)("%s", async (_, value, back = value) => {
      const expected = back();
      const arrived = await everywhere(post, value);
      expect(arrived).toHaveLength(8);
      for (const one of arrived) {
        expect(one).toStrictEqual(expected);
        expect(same(one, expected)).toBe(true);
      }
    });
  });
