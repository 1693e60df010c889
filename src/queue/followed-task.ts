/** The events of one task by the looks of whoever follows it: its status, its progress and its lines, in their order. */
import type { TaskEvent } from "../base/tasks/history.ts";
import { toTask, toTaskLog } from "../base/values/records.ts";
import type { StoredLogLine, TaskProgress } from "../store.ts";
import { isFinished, type TaskRecord } from "../task.ts";

/** What one look has read. */
export interface SeenTasks {
  states: ReadonlyMap<number, TaskProgress>;
  /** The rows of the tasks that have moved since the last look. */
  records: ReadonlyMap<number, TaskRecord>;
  lines: ReadonlyMap<number, readonly StoredLogLine[]>;
  /** There may be more lines: no task is reported as finished before its lines. */
  moreLines: boolean;
}

/** What was told of one task: a look tells what has happened since. */
export class FollowedTask {
  readonly id: number;
  generation: number | undefined;
  progress: number | null = null;
  note: string | null = null;
  /** The id of the last line that was delivered. */
  line = 0;

  constructor(id: number) {
    this.id = id;
  }

  /** The events since the last look, in their order. A task's lines come before the status that followed them. */
  *eventsIn({ states, records, lines, moreLines }: SeenTasks): Generator<TaskEvent> {
    const record = records.get(this.id);
    const state = record ?? (states.get(this.id) as TaskProgress);
    const [isNew, moved] = [this.generation === undefined, state.generationId !== this.generation];
    const finished = isFinished(state.status);
    const unread = this.#unread(lines.get(this.id) ?? [], state);
    if (isNew && !finished && record) yield this.#begin(record);
    yield* this.#linesIn(unread.filter(({ generationId }) => generationId < state.generationId));
    if (moved && moreLines && !isNew) return;
    if (moved && !finished && !isNew && record) yield this.#begin(record);
    yield* this.#linesIn(unread.filter(({ generationId }) => generationId === state.generationId));
    yield* this.#progressIn(state);
    if (!finished || moreLines || !record) return;
    yield { type: record.status, task: toTask(record) };
  }

  /** Lines of an attempt that this look does not know yet come after its start, with the next look. */
  #unread(lines: readonly StoredLogLine[], { generationId: known }: TaskProgress): readonly StoredLogLine[] {
    const unread = lines.filter(({ lineId }) => lineId > this.line);
    const later = unread.findIndex(({ generationId }) => generationId > known);
    return later < 0 ? unread : unread.slice(0, later);
  }

  #begin(record: TaskRecord): TaskEvent {
    this.generation = record.generationId;
    // A claim clears the progress of the attempt before.
    if (record.status === "running") [this.progress, this.note] = [null, null];
    return { type: record.status, task: toTask(record) };
  }

  *#linesIn(lines: readonly StoredLogLine[]): Generator<TaskEvent> {
    for (const line of lines) {
      this.line = Math.max(this.line, line.lineId);
      yield { type: "log", line: toTaskLog(line) };
    }
  }

  *#progressIn({ progress, progressNote: note }: TaskProgress): Generator<TaskEvent> {
    if (progress === null || (progress === this.progress && note === this.note)) return;
    [this.progress, this.note] = [progress, note];
    yield { type: "progress", progress, note };
  }
}
