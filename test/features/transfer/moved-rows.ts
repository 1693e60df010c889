/** Makes queues with tasks in every status and with unusual values, and compares two queues. */
import { deepStrictEqual } from "node:assert/strict";
import Database from "better-sqlite3";
import { internalsOf } from "../../../src/features/queue.ts";
import { openQueue, type Queue } from "../../../src/index.ts";
import type { TaskRecord } from "../../../src/task.ts";

const page = 1_000;

/** JSON that a database, a driver or a parser might change. */
const unusualJson = [
  ...['"\\ud800"', '"\\u0000"', "9007199254740992", "9007199254740993", "-0", "1e400", '"10.5"', "0.1"],
  ...['"é 🎉 \\u2028"', '{"b" :[1, 2 ,3],"a": {}, "a":null}', '"\\\\"', "[[[[]]]]", '"%s $1 ? :a \' \\" `"'],
];
const statuses = ["pending", "scheduled", "completed", "failed", "cancelled"];
const yearAgo = Date.now() - 365 * 24 * 3_600_000;

const columns = `id, func, args, kwargs, result, error, status, generation_id, created_at, updated_at, priority, queue_name,
  retry_count, max_retries, wait_until, worker_id, started_at, finished_at, request_id, unique_key, meta, timeout,
  progress, progress_note, fill_defaults, trace_context, group_key, uses, unique_until, schedule_name, slot, parent_id, root_id,
  manual_retries`;
const attemptColumns =
  "task_id, generation_id, worker_id, started_at, ended_at, outcome, error_name, error_message, error_stack, error_cause";

/** The values of a task depend only on its number. */
function taskRow(i: number): unknown[] {
  const [json, status] = [
    unusualJson[i % unusualJson.length] as string,
    i % 20 === 1 ? "waiting" : (statuses[i % statuses.length] as string),
  ];
  const time = yearAgo + i * 977;
  const ended = ["completed", "failed", "cancelled"].includes(status);
  const often = <T>(every: number, value: T) => (i % every === 0 ? value : null);
  return [
    ...[i === 3 ? -7 : i + 1, `func-${i % 7} é`, `[${json}, ${i}]`, `{"k": ${json}}`],
    status === "completed" ? often(2, json) : null,
    ended && status !== "completed"
      ? `{"name": "E", "message": ${json.startsWith('"') ? json : '"e"'}}`
      : null,
    ...[
      status,
      i === 10 ? Number.MAX_SAFE_INTEGER : 1 + (i % 9),
      time,
      time + 5,
      (i % 11) - 5,
      `queue ${i % 3} `,
    ],
    ...[i % 4, i % 5, status === "scheduled" ? yearAgo * 2 + i : often(13, time)],
    ...[ended ? `host:${i}:w` : null, ended ? time + 1 : null, ended ? time + 4 : null],
    ...[often(2, `r ${i} 🎉`), often(5, `key ${i % 2 === 0 ? i : `${i} `}`), `{"tenant": ${json}}`],
    ...[
      often(3, i + 1),
      often(4, i / 7),
      often(4, `line\nnote é ${i}`),
      i % 2,
      often(3, `{"traceparent":"${i}"}`),
    ],
    ...[often(3, `group ${i % 4} `), often(8, json), often(11, time + 60_000), often(6, "schedule é")],
    ...[often(6, time), often(4, i), often(4, 1), i % 3],
  ];
}

/** The tasks with the largest ids are deleted: new ids must follow them all the same. */
const deleted = 3;

/** Makes a SQLite file with so many tasks; `deleted` more have been deleted. */
export async function makeQueue(path: string, tasks: number): Promise<void> {
  await (await openQueue(path)).close();
  const client = new Database(path);
  const marks = (names: string) => names.replace(/\w+/g, "?");
  const task = client.prepare(`insert into dbq_tasks (${columns}) values (${marks(columns)})`);
  const attempt = client.prepare(
    `insert into dbq_attempts (${attemptColumns}) values (${marks(attemptColumns)})`,
  );
  const log = client.prepare(
    "insert into dbq_task_logs (task_id, generation_id, at, message) values (?, ?, ?, ?)",
  );
  client.transaction(() => {
    for (let i = 0; i < tasks + deleted; i += 1) {
      task.run(...taskRow(i));
      if (i % 7 === 0) log.run(i + 1, 2, yearAgo + i, `line é 🎉\n${i}`);
      if (i % 5 !== 3) continue;
      for (const outcome of ["failed", "crashed", "timeout"].slice(0, 1 + (i % 3)))
        attempt.run(
          i + 1,
          1,
          `w${i}`,
          yearAgo + i,
          yearAgo + i + 1,
          outcome,
          "E é",
          `m\n${i}`,
          `stack ${i}`,
          `[${i}]`,
        );
    }
    client.exec(`delete from dbq_tasks where id > ${tasks}`);
  })();
  client.close();
}

/** The largest id that a queue of so many tasks has ever given. */
export const lastIdOf = (tasks: number): number => tasks + deleted;

interface Page {
  tasks: TaskRecord[];
  attempts: object[][];
}

/** All tasks, newest first, with the attempts of those that failed. */
async function* pagesOf(queue: Queue): AsyncGenerator<Page> {
  const { store } = internalsOf(queue);
  for (let after: number | undefined; ; ) {
    const tasks = await store.list({}, page, after);
    if (tasks.length === 0) return;
    const attempts: object[][] = [];
    for (const { id, status } of tasks) if (status === "failed") attempts.push(await store.attempts(id));
    yield { tasks, attempts };
    after = tasks.at(-1)?.id;
  }
}

/** Compares each task and each attempt. @returns how many tasks there are */
export async function sameTasks(expected: Queue, actual: Queue): Promise<number> {
  const others = pagesOf(actual);
  let tasks = 0;
  for await (const mine of pagesOf(expected)) {
    const theirs: unknown = (await others.next()).value;
    deepStrictEqual(theirs, mine);
    tasks += mine.tasks.length;
  }
  deepStrictEqual((await others.next()).done, true);
  return tasks;
}

/** Rows that only one of two SQLite files has, compared by SQL over all columns: dbq's own reading is not involved. */
export function differences(a: string, b: string): unknown[] {
  const client = new Database(a);
  client.exec(`attach '${b}' as other`);
  const found = ["dbq_tasks", "dbq_attempts", "dbq_task_logs"].flatMap((table) =>
    [
      ["main", "other"],
      ["other", "main"],
    ].flatMap(([one, two]) =>
      client.prepare(`select * from ${one}.${table} except select * from ${two}.${table} limit 3`).all(),
    ),
  );
  client.close();
  return found;
}
