/** The new log lines of the tasks that a follower has just read. */

import type { TaskLog } from "../../base/tasks/history.ts";
import { toTaskLog } from "../../base/values/records.ts";
import type { Task } from "../../task.ts";
import { internalsOf, type Queue } from "../queue.ts";
import type { FullStore } from "../store.ts";

/** Lines that one query reads. */
const pageSize = 1_000;
/** Tasks whose last line is remembered. */
const mostRemembered = 10_000;

export class FollowedLogs {
  readonly #store: FullStore;
  /** Of a task that is not remembered, the lines up to this one were there before the follower started, or have been read. */
  #before = 0;
  /** The last line of each task, the least recently read task first. */
  readonly #last = new Map<number, number>();

  constructor(queue: Queue) {
    this.#store = internalsOf(queue).store;
  }

  async start(): Promise<void> {
    this.#before = await this.#store.transfer.lastId("dbq_task_logs");
  }

  /** The lines of these tasks that were not read before, oldest first, each with its task. */
  async of(tasks: Iterable<Task>): Promise<{ line: TaskLog; task: Task }[]> {
    const byId = new Map([...tasks].map((task) => [task.id as number, task]));
    const found: { line: TaskLog; task: Task }[] = [];
    for (let more = byId.size > 0; more; ) {
      const asked = [...byId.keys()].map((id) => ({ id, after: this.#last.get(id) ?? this.#before }));
      const page = await this.#store.logs(asked, pageSize);
      for (const line of page) {
        this.#remember(line.id, line.lineId);
        found.push({ line: toTaskLog(line), task: byId.get(line.id) as Task });
      }
      more = page.length === pageSize;
    }
    return found;
  }

  #remember(id: number, line: number): void {
    this.#last.delete(id);
    this.#last.set(id, line);
    if (this.#last.size <= mostRemembered) return;
    for (const [oldest, last] of this.#last) {
      this.#last.delete(oldest);
      this.#before = Math.max(this.#before, last);
      return;
    }
  }
}
