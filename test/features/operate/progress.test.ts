/** Reports of an action on many rows: the next transaction waits for the promise that `onProgress` returns. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { exportTasks } from "../../../src/features/archive/export.ts";
import { importTasks } from "../../../src/features/archive/import.ts";
import type { Queue } from "../../../src/index.ts";
import { echo } from "../../queue/tasks.ts";
import { temporaryQueue } from "../../support/queue.ts";

type Act = (queue: Queue, options: { onProgress: () => unknown }) => Promise<unknown>;

/** The lines of an export of all tasks, which have ended by then. */
async function linesOf(queue: Queue, options: { onProgress?: () => unknown } = {}): Promise<string[]> {
  await queue.cancelTasks({});
  const lines: string[] = [];
  for await (const line of exportTasks(queue, {}, options)) lines.push(line);
  return lines;
}

async function importInto(queue: Queue, options: { onProgress: () => unknown }): Promise<void> {
  const lines = await linesOf(queue);
  await queue.deleteTasks({});
  await importTasks(queue, lines, options);
}

const acts: Record<string, Act> = {
  retryTasks: async (queue, options) => {
    await queue.cancelTasks({});
    await queue.retryTasks({}, options);
  },
  cancelTasks: (queue, options) => queue.cancelTasks({}, options),
  deleteTasks: (queue, options) => queue.deleteTasks({}, options),
  reencrypt: (queue, options) => queue.reencrypt(options),
  exportTasks: linesOf,
  importTasks: importInto,
};

test.each(Object.entries(acts))(
  "%s begins nothing more until the promise is resolved",
  async (_name, act) => {
    const key = { id: "a", key: Buffer.alloc(32, 1) };
    const queue = await temporaryQueue({ encryption: { keys: [key] } });
    await queue.enqueueTasks(Array.from({ length: 1_200 }, () => [echo, 1] as const));
    let goOn = () => {};
    const onProgress = vi.fn(() => new Promise<void>((resolve) => (goOn = resolve)));
    let isOver = false;
    const acting = act(queue, { onProgress }).then(() => {
      isOver = true;
    });
    await vi.waitUntil(() => onProgress.mock.calls.length > 0, { timeout: 10_000 });
    await sleep(40);
    expect([onProgress.mock.calls.length, isOver]).toEqual([1, false]);
    onProgress.mockResolvedValue(undefined);
    goOn();
    await acting;
    expect(onProgress.mock.calls.length).toBeGreaterThan(1);
  },
);
