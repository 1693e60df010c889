/** What an assertion about enqueued tasks says when it fails, and what it refuses. */
import { AssertionError } from "node:assert";
import { expect, onTestFinished, test } from "vitest";
import "../../../src/features/testing/vitest.ts";
import { assertEnqueued, matchers, type TestQueue, testQueue } from "../../../src/features/testing/index.ts";
import { task } from "../../../src/index.ts";
import { uniqueName } from "../../support/queue.ts";

const mail = task("mail", async (_to: string, _order?: { id: number }) => undefined);
const other = task("other", async () => undefined);

async function opened() {
  const q = await testQueue({ now: "2026-03-29T00:00Z" });
  onTestFinished(() => q.close());
  return q;
}

const messageOf = (assert: () => unknown): string => {
  try {
    assert();
  } catch (error) {
    return (error as Error).message;
  }
  return "nothing was thrown";
};

test("a failure shows the tasks that are nearest, by what of them is not as expected", async () => {
  const q = await opened();
  await q.enqueueTask(mail.with({ delay: "1h", queueName: "slow" }), "bob@x");
  await q.enqueueTask(mail.with({ delay: "1h" }), "eva@x");
  await q.enqueueTask(other);
  expect(
    messageOf(() => expect(q).toHaveEnqueued(mail, ["eva@x"], { delay: "2h", queueName: "default" })),
  ).toBe(
    [
      'expected the queue to have a task of "mail" with',
      "  args: [ 'eva@x' ]",
      "  delay: 7200000",
      "  queueName: 'default'",
      "These tasks are near it:",
      "  task 2 (scheduled) has delay: 3600000",
      "  task 1 (scheduled) has args: [ 'bob@x' ], delay: 3600000, queueName: 'slow'",
    ].join("\n"),
  );
});

test("a failure shows asymmetric matchers as their runner does, and five tasks at most", async () => {
  const q = await opened();
  await q.enqueueTasks(Array.from({ length: 7 }, (_, i) => [mail, `${i}`] as const));
  const message = messageOf(() => expect(q).toHaveEnqueued(mail, [expect.stringMatching(/@/)]));
  expect(message).toContain("args: [ StringMatching</@/> ]");
  expect(message).toMatch(/task 5 \(pending\) has args: \[ '4' \]\n {2}and 2 more$/);
});

test("a failure shows an asymmetric matcher inside of an object as a word, too", async () => {
  const q = await opened();
  const order = { id: expect.any(Number) };
  const message = messageOf(() =>
    expect(q).toHaveEnqueued(mail, ["a", expect.objectContaining(order)], {
      meta: { of: expect.anything(), n: [1] },
    }),
  );
  expect(message).toContain(
    "\n  args: [ 'a', ObjectContaining<{ id: Any<Number> }> ]\n  meta: { of: Anything, n: [ 1 ] }\n",
  );
});

test("a failure says that nothing of the function was enqueued, and what was", async () => {
  const q = await opened();
  expect(messageOf(() => expect(q).toHaveEnqueued(mail))).toBe(
    'expected the queue to have a task of "mail"\nNo task was enqueued.',
  );
  await q.enqueueTask(other);
  expect(messageOf(() => expect(q).toHaveEnqueued(mail))).toBe(
    'expected the queue to have a task of "mail"\nNo task of this function was enqueued. There are tasks of "other".',
  );
});

test("a failure of `not` and of `times` says which tasks there are", async () => {
  const q = await opened();
  await q.enqueueTasks([
    [mail, "a"],
    [mail, "a"],
  ]);
  expect(messageOf(() => expect(q).not.toHaveEnqueued(mail, ["a"]))).toBe(
    "expected the queue not to have a task of \"mail\" with\n  args: [ 'a' ]\nIt has 2 such tasks: 1, 2.",
  );
  expect(messageOf(() => expect(q).toHaveEnqueued(mail, undefined, { times: 1 }))).toBe(
    'expected the queue to have 1 task of "mail"\nIt has 2 such tasks: 1, 2.',
  );
});

test("how many tasks there are may be an asymmetric matcher", async () => {
  const q = await opened();
  await q.enqueueTask(mail, "a");
  const times = { asymmetricMatch: (count: number) => count > 1, toString: () => "MoreThanOne" };
  const asserting = () => expect(q).toHaveEnqueued(mail, undefined, { times: times as never });
  expect(messageOf(asserting)).toBe(
    'expected the queue to have MoreThanOne tasks of "mail"\nIt has 1 such task: 1.',
  );
  await q.enqueueTask(mail, "b");
  asserting();
});

test.each([
  [["a"], null, "toHaveEnqueued: expected an object of options, got null"],
  [["a"], 5, "toHaveEnqueued: expected an object of options, got 5"],
  ["a", undefined, 'toHaveEnqueued: expected the function\'s arguments in an array, got "a"'],
  [["a"], { times: "2" }, 'toHaveEnqueued: times: expected a whole number from 0, got "2"'],
  [["a"], { times: -1 }, "toHaveEnqueued: times: expected a whole number from 0, got -1"],
  [["a"], { status: "done" }, /^toHaveEnqueued: status: expected one of pending, .*, got "done"$/],
  [["a"], { priority: "5" }, 'toHaveEnqueued: priority: expected a number, got "5"'],
  [["a"], { waitUntil: "2026-03-29" }, "toHaveEnqueued: waitUntil: expected a Date or null"],
  [["a"], { group: 7 }, "toHaveEnqueued: group: expected a text or null, got 7"],
  [["a"], { meta: [1] }, "toHaveEnqueued: meta: expected an object"],
])(
  "what could never be as expected is refused, so that `not` does not always pass: %j %j",
  async (...given) => {
    const [args, options, message] = given;
    const q = await opened();
    expect(() => expect(q).not.toHaveEnqueued(mail, args as never, options as never)).toThrow(message);
  },
);

test("wrong options and functions are refused with their names", async () => {
  const q = await opened();
  const asserting = (options: object) => () => expect(q).toHaveEnqueued(mail, [], options);
  expect(asserting({ dealy: "1h" })).toThrow('there is no option "dealy"; there are delay, waitUntil');
  expect(asserting({ delay: "soon" })).toThrow("toHaveEnqueued: delay: expected a duration");
  expect(() => expect(q).toHaveEnqueued((() => 1) as never)).toThrow(/not registered/);
  expect(() => expect({}).toHaveEnqueued(mail)).toThrow(
    "expected a queue of testQueue(), got an object (Object)",
  );
});

test("without a matcher's context, asymmetric matchers count at any depth", async () => {
  const q = await opened();
  await q.enqueueTask(mail.with({ meta: { a: [1, { b: 2 }] } }), "eva@x", { id: 7 });
  const asserting = (args: unknown[], options?: object) => () => assertEnqueued(q, mail, args, options);
  asserting(["eva@x", { id: expect.any(Number) }], { meta: { a: [1, expect.objectContaining({ b: 2 })] } })();
  asserting(["eva@x", { id: 7, none: undefined }])();
  for (const wrong of [
    ["eva@x"],
    ["eva@x", { id: 8 }],
    ["eva@x", [7]],
    ["eva@x", { id: 7, more: 1 }],
    ["eva@x", null],
  ])
    expect(asserting(wrong)).toThrow(AssertionError);
  expect(asserting(["bob@x", { id: 7 }])).toThrow("task 1 (pending) has args: [ 'eva@x', { id: 7 } ]");
  const bare = matchers.toHaveEnqueued.bind(undefined);
  expect(bare(q, mail, ["eva@x", { id: 7 }])).toMatchObject({ pass: true });
});

test("on SQLite the queue answers in the same tick, and a thousand tasks are no limit", async () => {
  const q: TestQueue = (await opened()) as TestQueue;
  const many = task(uniqueName(), async (_n: number) => undefined);
  await q.enqueueTasks(Array.from({ length: 2_500 }, (_, i) => [many, i] as const));
  const tasks = q.enqueued(many);
  expect(Array.isArray(tasks)).toBe(true);
  expect((await tasks).map(({ args }) => args[0])).toEqual(Array.from({ length: 2_500 }, (_, i) => i));
});
