/** What is shown of tasks: the option `redact` of `openQueue`, what it may return, and what happens when it fails. */
import { expect, test, vi } from "vitest";
import type { ListedTask } from "../../src/base/values/records.ts";
import { openQueue, redactOf, remoteTask, showing, shownRun, type Task } from "../../src/index.ts";
import { temporaryQueue } from "../support/queue.ts";

const pay = remoteTask<(card: string, about: { pin: string }) => Promise<void>>("pay");

async function secretTask(redact?: (task: Task) => Task) {
  const queue = await temporaryQueue(redact ? { redact } : {});
  const more = { meta: { of: "secret" }, uniqueKey: "secret", requestId: "secret", group: "secret" };
  const id = await queue.enqueueTask(pay.with(more), "secret", { pin: "secret" });
  return { queue, task: (await queue.getTask(id)) as Task };
}

test("openQueue takes a function alone", async () => {
  await expect(openQueue(":memory:", { redact: "args" as never })).rejects.toThrow(
    'openQueue: redact: expected a function, got "args"',
  );
  expect(redactOf(await temporaryQueue())).toBeUndefined();
});

test("reads and awaits of the app get tasks as they are", async () => {
  const redact = vi.fn((task: Task) => ({ ...task, args: [] }));
  const { queue, task } = await secretTask(redact);
  expect(task.args).toEqual(["secret", { pin: "secret" }]);
  expect((await queue.listTasks())[0]?.args).toEqual(task.args);
  await queue.cancelTask(task.id);
  expect((await queue.awaitTaskCompletion(task.id)).args).toEqual(task.args);
  expect(redact).not.toHaveBeenCalled();
  expect(showing(redactOf(queue))(task).args).toEqual([]);
});

test("a task that redact returns as it got it is the task itself, and one that it has changed in place is not", async () => {
  const { task } = await secretTask();
  expect(showing(undefined)(task)).toBe(task);
  expect(showing((given) => given)(task)).toBe(task);
  const shown = showing((given) => {
    (given.args[1] as { pin: string }).pin = "***";
    return given;
  })(task);
  expect(shown).not.toBe(task);
  expect(shown.args).toEqual(["secret", { pin: "***" }]);
  expect(task.args).toEqual(["secret", { pin: "secret" }]);
  // Its errors of before may have what redact hides now, even if the task itself has nothing to hide.
  expect(showing((given) => ({ ...given }))(task)).not.toBe(task);
});

test("redact is given nothing of a task of which only a part was read", async () => {
  const { task } = await secretTask();
  const listed: ListedTask = { ...task, cut: { args: 5_000 } };
  const redact = vi.fn((given: Task) => given);
  const shown = showing(redact)(listed);
  expect(redact).toHaveBeenCalledWith(expect.objectContaining({ args: [], meta: {} }));
  expect(shown).toMatchObject({ args: [], cut: { args: 5_000 } });
});

test.each<[string, (task: Task) => unknown]>([
  ["throws", () => JSON.parse("secret")],
  [
    "throws what is no error",
    () => {
      throw "secret";
    },
  ],
  ["returns nothing", () => undefined],
  ["returns a promise", async (task) => task],
  ["returns another task", (task) => ({ ...task, id: 4_711 })],
  ["returns arguments that are no array", (task) => ({ ...task, args: "secret" })],
  ["returns no meta", (task) => ({ ...task, meta: null })],
  ["returns a text as error", (task) => ({ ...task, error: "secret" })],
])("when redact %s, no value is shown, and that is reported once", async (_, redact) => {
  const { task } = await secretTask();
  const reports: unknown[] = [];
  const show = showing(redact as never, (error, where) =>
    reports.push([where, String((error as Error).stack)]),
  );
  const shown = show(show(task) && task);
  expect(shown).toMatchObject({ id: task.id, func: "pay", status: "pending", args: [], error: null });
  expect(JSON.stringify(shown)).not.toContain("secret");
  expect(reports).toEqual([["redact", expect.stringContaining(`values of task ${task.id} are not shown`)]]);
  expect(JSON.stringify(reports)).not.toContain("secret");
});

test("steps of a task that redact has changed are shown without their outcomes", async () => {
  const { queue, task } = await secretTask();
  const step = {
    name: "charge",
    value: "secret",
    error: { name: "Error", message: "secret" },
    startedAt: null,
  };
  const steps = [{ ...step, endedAt: new Date(), undo: "failed", undoError: step.error }] as never;
  const run = await queue.getRun(task.id);
  if (!run) throw new Error("there is no run");
  const show = showing((given) => ({ ...given, args: [] }));
  const child = { ...run, steps };
  const shown = shownRun({ ...run, steps, children: [child] }, show);
  for (const each of [shown, shown.children[0]]) {
    expect(each).toMatchObject({ hidesSteps: true, task: { args: [] } });
    expect(JSON.stringify(each?.steps)).not.toContain("secret");
  }
  expect(shownRun(child, showing(undefined))).toMatchObject({ hidesSteps: false, steps: [step] });
});
