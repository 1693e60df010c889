import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { countRows, rawClient } from "./raw.ts";
import { add, echo } from "./tasks.ts";

it("enqueueTasks writes tasks of several functions, and resolves with their ids in order", async () => {
  const queue = await temporaryQueue();
  const [a, b, c] = await queue.enqueueTasks([
    [add, 1, 2],
    [echo.with({ priority: 9 }), "x"],
    [add, 3, 4],
  ]);
  expect(a < b && b < c).toBe(true);
  expect(await queue.listTasks()).toMatchObject([
    { id: c, func: "add", args: [3, 4] },
    { id: b, func: "echo", args: ["x"], priority: 9 },
    { id: a, func: "add", args: [1, 2] },
  ]);
});

it("enqueueTasks accepts thousands of tasks, and an empty list", async () => {
  const queue = await temporaryQueue();
  const ids = await queue.enqueueTasks(Array.from({ length: 5_000 }, (_, i) => [echo, i] as const));
  expect(new Set(ids).size).toBe(5_000);
  expect((await queue.getTask(ids[4_321] as number))?.args).toEqual([4_321]);
  expect(await queue.enqueueTasks([])).toEqual([]);
  expect((await queue.countTasks()).pending).toBe(5_000);
});

it("enqueueTasks encodes the arguments at the call", async () => {
  const queue = await temporaryQueue();
  const value = { n: 1 };
  const enqueued = queue.enqueueTasks([[echo, value]]);
  value.n = 2;
  const [id] = await enqueued;
  expect((await queue.getTask(id))?.args).toEqual([{ n: 1 }]);
});

it("enqueueTasks writes no task when one of them is refused", async () => {
  const path = join(temporaryFolder(), "dbq.db");
  const queue = await temporaryQueue(undefined, path);
  const holder = await queue.enqueueTask(echo.with({ uniqueKey: "held" }), 0);
  const strict = echo.with({ uniqueKey: "held", onDuplicate: "error" });
  const twice = echo.with({ uniqueKey: "new", onDuplicate: "error" });
  const unregistered = echo.bind(undefined);
  const refused: [readonly (readonly [typeof echo, unknown])[], object][] = [
    [
      [
        [echo, 1],
        [echo, { f: () => 1 }],
      ],
      { code: "DBQ_NOT_SERIALIZABLE", path: "args[0].f" },
    ],
    [
      [
        [echo, 1],
        [echo, "x".repeat(1_100_000)],
      ],
      { code: "DBQ_PAYLOAD_TOO_LARGE" },
    ],
    [
      [
        [echo, 1],
        [strict, 2],
        [echo, 3],
      ],
      { code: "DBQ_DUPLICATE", taskId: holder },
    ],
    [
      [
        [twice, 1],
        [twice, 2],
      ],
      { code: "DBQ_DUPLICATE", taskId: undefined },
    ],
    [
      [
        [echo, 1],
        [unregistered as typeof echo, 2],
      ],
      { code: "DBQ_UNREGISTERED_FUNCTION" },
    ],
  ];
  for (const [entries, error] of refused) {
    await expect(queue.enqueueTasks(entries)).rejects.toMatchObject(error);
    expect(countRows(rawClient(path))).toBe(1);
  }
});

it("enqueueTasks writes no task when the database refuses one", async () => {
  const path = join(temporaryFolder(), "dbq.db");
  const queue = await temporaryQueue(undefined, path);
  const raw = rawClient(path);
  raw.exec(
    `create trigger picky before insert on dbq_tasks when new.args = '[2]' begin select raise(abort, 'no'); end`,
  );
  const entries = [1, 2, 3].map((n) => [echo, n] as const);
  await expect(queue.enqueueTasks(entries)).rejects.toMatchObject({ code: "DBQ_DATABASE" });
  expect(countRows(raw)).toBe(0);
});

it("enqueueTasks resolves with the holder's id for a duplicate, also within one call", async () => {
  const queue = await temporaryQueue();
  const unique = echo.with({ uniqueKey: "k" });
  const [first, other, again] = await queue.enqueueTasks([
    [unique, 1],
    [echo, 2],
    [unique, 3],
  ]);
  expect(again).toBe(first);
  expect(other).not.toBe(first);
  expect((await queue.countTasks()).pending).toBe(2);
});

it("enqueueTasks refuses a value that is not a list of calls", async () => {
  const queue = await temporaryQueue();
  for (const entries of ["x", 7, undefined, [echo], [[1, 2]], [["echo", 1]]]) {
    await expect(queue.enqueueTasks(entries as unknown as [])).rejects.toBeInstanceOf(TypeError);
  }
  expect(await queue.listTasks()).toEqual([]);
});

it.each([
  [echo, /enqueueTasks: expected \[function, \.\.\.args\] for each task, in an array, got/],
  [[[echo, 1], echo], /enqueueTasks: \[1\]: expected \[function, \.\.\.args\], got/],
])("enqueueTasks refuses %o, and says what it expects", async (entries, message) => {
  const queue = await temporaryQueue();
  await expect(queue.enqueueTasks(entries as never)).rejects.toThrow(message);
  expect((await queue.countTasks()).pending).toBe(0);
});
