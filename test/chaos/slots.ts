/** The tasks that schedules have made. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Queue, Schedule, Task } from "../../src/index.ts";

/** Milliseconds within which slots that are due must make their tasks. */
const patience = 60_000;

/** All tasks of a schedule. */
export async function tasksOf(queue: Queue, scheduleName: string): Promise<Task[]> {
  const all: Task[] = [];
  for (let after: number | undefined; ; after = all.at(-1)?.id) {
    const page = await queue.listTasks({ scheduleName, limit: 1_000, ...(after && { after }) });
    all.push(...page);
    if (page.length < 1_000) return all;
  }
}

/** The slots of tasks, in order, in milliseconds since 1970. */
export const slotsOf = (tasks: readonly Task[]): number[] =>
  tasks.map(({ slot }) => Number(slot)).sort((a, b) => a - b);

/** Waits until each schedule has fired all slots before this time. @throws Error when one is stuck */
export async function untilFired(queue: Queue, time: number): Promise<void> {
  const isBehind = ({ nextAt }: Schedule) => nextAt !== null && Number(nextAt) <= time;
  const end = performance.now() + patience;
  for (;;) {
    const behind = (await queue.listSchedules()).filter(isBehind);
    if (behind.length === 0) return;
    if (performance.now() > end)
      throw new Error(`schedules are stuck: ${behind.map(({ name }) => name).join(", ")}`);
    await sleep(50);
  }
}
