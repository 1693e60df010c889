/** The operations on the log lines of tasks. */
import { storable } from "../../base/values/storable.ts";
import type { LogLine, StoredLogLine } from "../../store.ts";
import { count, type Program, rows } from "./program.ts";
import { toLogLine } from "./rows.ts";
import type { Statements } from "./statements.ts";

export class LogOperations {
  readonly #s: Statements;

  constructor(s: Statements) {
    this.#s = s;
  }

  *log(lines: readonly LogLine[], keep: number): Program<void> {
    if (lines.length === 0) return;
    const items = lines.map(({ id, generationId, at, message }, line) => ({
      ...{ id, generationId, at, message: storable(message), line },
    }));
    yield* count(this.#s.log, { lines: JSON.stringify(items) });
    const ids = JSON.stringify([...new Set(lines.map(({ id }) => id))]);
    for (const [taskId] of yield* rows(this.#s.longLogs, { ids, keep }))
      yield* this.#trim(Number(taskId), keep);
  }

  *#trim(taskId: number, keep: number): Program<void> {
    const newest = yield* rows(this.#s.newestLines, { taskId, keep });
    yield* count(this.#s.trimLog, { taskId, oldest: Number(newest.at(-1)?.[0]) });
  }

  *logs(asked: readonly { id: number; after: number }[], limit: number): Program<StoredLogLine[]> {
    const items = asked.map(({ id, after }) => ({ id, after }));
    return (yield* rows(this.#s.logs, { asked: JSON.stringify(items), limit })).map(toLogLine);
  }
}
