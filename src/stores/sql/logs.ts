/** The operations on the log lines of tasks. */
import { storable } from "../../base/values/storable.ts";
import type { LogLine, StoredLogLine } from "../../store.ts";
import { count, type Program, rows } from "./program.ts";
import { int, toLogLine } from "./rows.ts";
import type { Statements } from "./statements.ts";

export class LogOperations {
  readonly #s: Statements;

  constructor(s: Statements) {
    this.#s = s;
  }

  /** `isRepeated`: the answer to a write of these lines was lost, so they may be there. */
  *log(lines: readonly LogLine[], keep: number, isRepeated = false): Program<void> {
    if (lines.length === 0) return;
    const items = lines.map((given, line) => ({ ...given, message: storable(given.message), line }));
    const given = { lines: JSON.stringify(items) };
    if (isRepeated && (yield* rows(this.#s.logged, given)).length > 0) return;
    yield* count(this.#s.log, given);
    const ids = JSON.stringify([...new Set(lines.map(({ id }) => id))]);
    for (const [taskId] of yield* rows(this.#s.longLogs, { ids, keep })) yield* this.#trim(int(taskId), keep);
  }

  *#trim(taskId: number, keep: number): Program<void> {
    const newest = yield* rows(this.#s.newestLines, { taskId, keep });
    yield* count(this.#s.trimLog, { taskId, oldest: Number(newest.at(-1)?.[0]) });
  }

  *logs(asked: readonly { id: number; after: number }[], limit: number): Program<StoredLogLine[]> {
    return (yield* rows(this.#s.logs, { asked: JSON.stringify(asked), limit })).map(toLogLine);
  }
}
