/** Archives of finished tasks: what is in them, and which lines are refused. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { step } from "../../../src/features/workflows/steps.ts";
import {
  currentTask,
  exportTasks,
  type InvalidArchiveError,
  importTasks,
  type Queue,
  type QueueOptions,
  remoteTask,
  task,
} from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { asImported, copied, importTakenSlot, linesOf, queueWithTasks } from "./archived.ts";

/** A workflow that fails once, and then completes. */
const pays = () =>
  task(
    uniqueName("pay"),
    async (amount: number) => {
      const run = currentTask();
      run.log(`pays ${amount}`);
      const paid = await step("charge", () => ({ paid: amount }));
      if (run.retryCount === 0) throw new Error("once");
      return paid;
    },
    { backoff: () => 0 },
  );

async function queueWithRun(options?: QueueOptions): Promise<{ queue: Queue; id: number }> {
  const queue = await temporaryQueue(options);
  const id = await queue.enqueueTask(pays(), 7);
  await startedWorker(queue);
  await queue.awaitTaskResult(id);
  return { queue, id };
}

test("an archive brings tasks back with their attempts, log lines and steps", async () => {
  const { queue, id } = await queueWithRun();
  const [line = ""] = await linesOf(queue);
  expect(JSON.parse(line)).toMatchObject({
    id,
    args: "[7]",
    result: '{"paid":7}',
    attempts: [{ outcome: "failed", errorMessage: "once" }],
    logs: [{ message: "pays 7" }, { message: "pays 7" }],
    steps: [{ name: "charge", value: '{"paid":7}' }],
  });
  const next = await temporaryQueue();
  expect(await copied([line], next)).toEqual([line]);
  expect(await next.getTask(id)).toEqual(await queue.getTask(id));
  expect(await next.listAttempts(id)).toEqual(await queue.listAttempts(id));
});

test("encrypted values stay as they are stored, and are readable after the import", async () => {
  const encryption = { keys: [{ id: "a", key: Buffer.alloc(32, 7) }] };
  const { queue, id } = await queueWithRun({ encryption });
  const lines = await linesOf(queue);
  expect(lines.join()).not.toContain("paid");
  expect(lines.join()).not.toContain("pays");
  const next = await temporaryQueue({ encryption });
  await importTasks(next, lines);
  expect(await next.getTask(id)).toMatchObject({ args: [7], result: { paid: 7 } });
  expect(await next.listAttempts(id)).toEqual(await queue.listAttempts(id));
});

test("an export has the finished tasks that match, by id, and each JSON text as it is stored", async () => {
  const queue = await queueWithTasks(60);
  const lines = await linesOf(queue);
  const tasks = lines.map((line) => JSON.parse(line));
  const counts = await queue.countTasks();
  expect(tasks).toHaveLength(counts.completed + counts.failed + counts.cancelled);
  expect(tasks.map(({ id }) => id)).toEqual(tasks.map(({ id }) => id).sort((a, b) => a - b));
  expect(lines.join()).toContain("9007199254740993");
  const failed = await linesOf(queue, { status: "failed", func: tasks[0].func });
  expect(failed).toEqual(
    lines.filter((_, i) => tasks[i].status === "failed" && tasks[i].func === tasks[0].func),
  );
  const next = await temporaryQueue();
  expect(await copied(lines, next)).toEqual(lines.map(asImported));
});

test("a task that ends after the begin of an export is not in it", async () => {
  const queue = await temporaryQueue();
  const [first, second] = [remoteTask("first"), remoteTask("second")];
  const ids = [await queue.enqueueTask(first), await queue.enqueueTask(second)];
  await queue.cancelTask(ids[0] as number);
  const { archive } = internalsOf(queue).store;
  const bounds = await archive.bounds();
  await queue.cancelTask(ids[1] as number);
  const earlier = { ...bounds, endedBy: bounds.endedBy - 3_600_000 };
  expect(await archive.next({}, earlier, 0, 10)).toEqual([]);
  const both = { ...bounds, endedBy: bounds.endedBy + 3_600_000 };
  const found = await archive.next({}, both, 0, 10);
  expect(found.map(({ id }) => id)).toEqual(ids);
  expect(await archive.next({}, { ...both, lastId: ids[0] as number }, 0, 10)).toHaveLength(1);
  await queue.retryTask(ids[1] as number);
  await queue.cancelTask(ids[1] as number);
  expect((await archive.read(found)).map((one) => one.task.id)).toEqual([ids[0]]);
});

test("an import leaves out what is there, goes on where it stopped, and gives later tasks higher ids", async () => {
  const lines = await linesOf(await queueWithTasks(60));
  const queue = await temporaryQueue();
  expect(await importTasks(queue, ["", ...lines.slice(0, 5), " "])).toEqual({ imported: 5, skipped: 0 });
  const rest = { imported: lines.length - 5, skipped: 6 };
  expect(await importTasks(queue, [...lines, lines[0] as string])).toEqual(rest);
  const last = JSON.parse(lines.at(-1) as string).id;
  expect(await queue.enqueueTask(remoteTask("later"))).toBe(last + 1);
  expect((await queue.countTasks()).pending).toBe(1);
});

test("an imported task holds its unique key for the rest of its time, unless another task holds the key", async () => {
  const queue = await temporaryQueue();
  const call = remoteTask("once a day");
  const keyed = (uniqueKey: string, uniqueFor: string) => call.with({ uniqueKey, uniqueFor });
  const [free, taken, short] = [keyed("free", "1d"), keyed("taken", "1d"), call.with({ uniqueKey: "short" })];
  const ids = await queue.enqueueTasks([[free], [taken], [short]]);
  await queue.cancelTasks({});
  const lines = await linesOf(queue);
  const next = await temporaryQueue();
  const other = await temporaryQueue();
  for (let i = 0; i < 3; i += 1) await other.enqueueTask(remoteTask("padding"));
  const rival = await other.enqueueTask(taken);
  await other.deleteTasks({ func: "padding" });
  for (const into of [next, other])
    expect(await importTasks(into, lines)).toEqual({ imported: 3, skipped: 0 });
  expect(await next.enqueueTask(free)).toBe(ids[0]);
  expect(await next.enqueueTask(taken)).toBe(ids[1]);
  expect(ids).not.toContain(await next.enqueueTask(short));
  expect(await other.enqueueTask(free)).toBe(ids[0]);
  expect(await other.enqueueTask(taken)).toBe(rival);
  expect(await linesOf(next)).toEqual(lines);
});

test("a task whose slot another one has is imported without it", async () => {
  await importTakenSlot(await temporaryQueue());
});

test("a wrong line is refused by its number, and no line of its batch is written", async () => {
  const [line = "", other = ""] = await linesOf(await queueWithTasks(60));
  const changed = (changes: object) => JSON.stringify({ ...JSON.parse(line), ...changes });
  const queue = await temporaryQueue();
  const cases: [line: string, problem: string][] = [
    ["nonsense", 'expected a task as a JSON object, got "nonsense"'],
    ["[1]", 'expected a task as a JSON object, got "[1]"'],
    [line.slice(0, -9), "expected a task as a JSON object, got "],
    [changed({ status: "pending" }), 'the status is "pending": an archive holds finished tasks only'],
    [changed({ id: 1.5 }), "id: expected a whole number, got 1.5"],
    [changed({ func: undefined }), "func is missing"],
    [changed({ args: "[" }), 'args: expected a text that holds JSON, got "["'],
    [
      changed({ createdAt: "yesterday" }),
      'createdAt: expected a time such as "2027-01-31T12:00:00.000Z", got "yesterday"',
    ],
    [changed({ progress: "much" }), 'progress: expected a number, got "much"'],
    [changed({ queueName: 7 }), "queueName: expected a text, got 7"],
    [changed({ later: 1 }), '"later" is no field that this version of dbq knows'],
    [changed({ logs: 1 }), "logs: expected an array, got 1"],
    [changed({ steps: [7] }), "steps[0]: expected an object, got 7"],
    [changed({ attempts: [{ generationId: 1 }] }), "attempts[0]: endedAt is missing"],
  ];
  for (const [wrong, problem] of cases) {
    const error = await importTasks(queue, [other, "", wrong]).catch((thrown: InvalidArchiveError) => thrown);
    expect(error).toMatchObject({ code: "DBQ_INVALID_ARCHIVE", line: 3 });
    expect((error as Error).message).toContain(`line 3: ${problem}`);
  }
  expect(await linesOf(queue)).toEqual([]);
});

test("an id of another task is refused, in the database and in the archive", async () => {
  const [line = "", other = ""] = await linesOf(await queueWithTasks(60));
  const another = JSON.stringify({ ...JSON.parse(line), func: "another" });
  const { id, func, createdAt } = JSON.parse(line);
  const problem = `the id ${id} is that of another task, of ${func}, enqueued ${createdAt}`;
  const queue = await temporaryQueue();
  await expect(importTasks(queue, [line, another])).rejects.toThrow(`line 2: ${problem}`);
  expect(await linesOf(queue)).toEqual([]);
  await importTasks(queue, [line]);
  await expect(importTasks(queue, [other, another])).rejects.toThrow(`line 2: ${problem}`);
  const later = JSON.stringify({ ...JSON.parse(line), createdAt: "2020-01-01T00:00:00.000Z" });
  await expect(importTasks(queue, [later])).rejects.toThrow(`line 1: ${problem}`);
  expect(await linesOf(queue)).toHaveLength(1);
});

test("an import without the right to write names the lines", async () => {
  const lines = await linesOf(await queueWithTasks(60));
  const queue = await temporaryQueue();
  const store = internalsOf(queue).store.archive;
  const { DatabaseError } = await import("../../../src/index.ts");
  store.add = () => Promise.reject(new DatabaseError("the disk is full"));
  await expect(importTasks(queue, lines)).rejects.toThrow(
    `lines 1 to ${lines.length} were not imported: the disk is full`,
  );
});

test("exports and imports end with their signal, and refuse wrong options", async () => {
  const queue = await queueWithTasks(60);
  const lines = await linesOf(queue);
  const signal = AbortSignal.abort(new Error("enough"));
  await expect(exportTasks(queue, {}, { signal }).next()).rejects.toThrow("enough");
  await expect(importTasks(queue, lines, { signal })).rejects.toThrow("enough");
  expect(() => exportTasks(queue, { status: ["failed", "running"] })).toThrow(
    'exportTasks: status: expected one of completed, failed, cancelled, got "running"',
  );
  expect(() => exportTasks(queue, { func: undefined as never })).toThrow(
    "exportTasks: func is undefined: leave it out for every func",
  );
});
