/** Rows that another program has written into dbq's tables, and that dbq cannot read in part or at all. */
import { onTestFinished } from "vitest";
import { type Queue, task } from "../../src/index.ts";
import { openDesk } from "../features/dashboard/requests.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";

/** A row: its table, what names it in the facts of `diagnose`, and the columns with their values in SQL. */
type Row = readonly [
  table: string,
  key: string | undefined,
  values: Readonly<Record<string, string | number>>,
];

export const past = "PAST";

/** What every database stores. */
const everywhere: readonly Row[] = [
  ["dbq_tasks", "901 (status)", { id: 901, func: "'odd'", status: "'done'" }],
  ["dbq_limits", "galaxy far (scope)", { scope: "'galaxy'", name: "'far'", concurrency: 1 }],
  ["dbq_limits", "queue wide (concurrency)", { scope: "'queue'", name: "'wide'", concurrency: -3 }],
  ["dbq_limits", "func fast (rate_per)", { scope: "'func'", name: "'fast'", rate_limit: 5, rate_per: -1 }],
  ["dbq_settings", "limits (value)", { name: "'limits'", value: "'x'" }],
  [
    "dbq_schedules",
    undefined,
    { name: "'odd zone'", func: "'odd'", cron: "'* * * * *'", time_zone: "'Mars/Phobos'", next_at: past },
  ],
  ["dbq_schedules", undefined, { name: "'untimed'", func: "'odd'", next_at: past }],
  [
    "dbq_workers",
    "no queues (queue_names)",
    { id: "'no queues'", queue_names: "'{'", concurrency: 1, lease: 86400000, host: "'h'", pid: 1 },
  ],
  ["dbq_agents", "odd (funcs)", { name: "'odd'", token_hash: "'x'", funcs: "'{}'", queues: "'[]'" }],
  ["dbq_drains", undefined, { queue_name: "'drained'", worker_id: "'none'", target: "'{'" }],
  [
    "dbq_attempts",
    undefined,
    { task_id: 901, generation_id: 1, outcome: "'odd'", error_name: "'E'", error_cause: "'{'" },
  ],
];

/** What SQLite stores, whatever the type of the column. */
export const onSqlite: readonly Row[] = [
  [
    "dbq_tasks",
    "902 (created_at)",
    {
      id: 902,
      func: "'odd'",
      created_at: "'yesterday'",
      updated_at: 9e15,
      wait_until: "'x'",
      started_at: "'y'",
      finished_at: 9e15,
      status: "'completed'",
    },
  ],
  [
    "dbq_tasks",
    undefined,
    { id: 903, func: "'odd'", args: "'['", kwargs: "'[]'", meta: "'null'", result: "'{'", error: "'{'" },
  ],
  [
    "dbq_tasks",
    "904 (generation_id)",
    {
      id: 904,
      func: "'odd'",
      status: "'failed'",
      generation_id: "'z'",
      priority: "'high'",
      retry_count: "'x'",
      timeout: "'soon'",
      slot: "'x'",
    },
  ],
  [
    "dbq_limits",
    "queue many (concurrency)",
    { scope: "'queue'", name: "'many'", concurrency: "'lots'", throttled_until: "'x'" },
  ],
  ["dbq_limits", "func late (paused_at)", { scope: "'func'", name: "'late'", paused_at: "'since long'" }],
  [
    "dbq_schedules",
    "far (next_at)",
    {
      name: "'far'",
      func: "'odd'",
      cron: "'* * * * *'",
      args: "'['",
      options: "'{'",
      next_at: 9e15,
      created_at: "'z'",
      last_slot: 9e15,
      paused_at: 9e15,
    },
  ],
  [
    "dbq_workers",
    "odd beat (concurrency)",
    {
      id: "'odd beat'",
      queue_names: "'[]'",
      concurrency: "'x'",
      lease: 86400000,
      host: "'h'",
      pid: "'z'",
      started_at: "'a'",
      heartbeat_at: "'b'",
      beat: "'c'",
    },
  ],
  [
    "dbq_attempts",
    "2 (generation_id)",
    { task_id: 902, generation_id: "'x'", outcome: "'failed'", started_at: "'y'", ended_at: 9e15 },
  ],
  ["dbq_task_logs", "1 (at)", { task_id: 902, generation_id: 1, at: "'then'", message: "'hi'" }],
  ["dbq_audit", "1 (at)", { at: "'then'", action: "'cancel'", target: "'task 902'", count: "'x'" }],
  [
    "dbq_stats",
    undefined,
    {
      minute: "'x'",
      span: 1,
      worker_id: "'w'",
      queue_name: "'default'",
      func: "'odd'",
      outcome: "'odd'",
      count: "'y'",
      wait_buckets: "'{'",
      run_buckets: "'['",
    },
  ],
];

/** A time that the database has and JavaScript has not. */
export const withTime = (time: string): readonly Row[] => [
  [
    "dbq_tasks",
    "902 (created_at)",
    {
      id: 902,
      func: "'odd'",
      created_at: time,
      updated_at: time,
      wait_until: time,
      started_at: time,
      finished_at: time,
      status: "'completed'",
    },
  ],
  ["dbq_limits", "func late (paused_at)", { scope: "'func'", name: "'late'", paused_at: time }],
  [
    "dbq_schedules",
    "far (created_at)",
    { name: "'far'", func: "'odd'", cron: "'* * * * *'", created_at: time },
  ],
  [
    "dbq_workers",
    "odd beat (heartbeat_at)",
    {
      id: "'odd beat'",
      queue_names: "'[]'",
      concurrency: 1,
      lease: 86400000,
      host: "'h'",
      pid: 1,
      heartbeat_at: time,
    },
  ],
  ["dbq_attempts", "2 (ended_at)", { task_id: 902, generation_id: 1, outcome: "'failed'", ended_at: time }],
];

const insert = ([table, , values]: Row): string =>
  `insert into ${table} (${Object.keys(values).join()}) values (${Object.values(values).join()})`;

/** A queue beside such rows. @param before an SQL expression: the time 100 s ago */
export async function queueBeside(
  target: string,
  sql: (text: string) => unknown,
  before: string,
  rows: readonly Row[],
): Promise<{ queue: Queue; missing(): Promise<string[]> }> {
  const queue = await temporaryQueue({ retention: { completed: Number.POSITIVE_INFINITY } }, target);
  for (const row of [...everywhere, ...rows]) await sql(insert(row).replaceAll(past, before));
  /** The rows that `diagnose` does not name. */
  const missing = async () => {
    const facts = (await queue.diagnose()).map(({ name, warning }) => `${name}: ${warning}`);
    return [...everywhere, ...rows].flatMap(([table, key]) =>
      key === undefined || facts.some((fact) => fact.includes(`rows of ${table}:`) && fact.includes(key))
        ? []
        : [`${table} ${key}`],
    );
  };
  return { queue, missing };
}

const ids = [901, 902, 903, 904];

/** Each throws or rejects where one row keeps the others from being read. */
export const reads: Readonly<Record<string, (queue: Queue) => unknown>> = {
  listTasks: (queue) => queue.listTasks(),
  countTasks: async (queue) => {
    const counts = Object.entries(await queue.countTasks());
    const odd = counts.filter(([, count]) => !Number.isSafeInteger(count));
    if (odd.length > 0) throw new Error(`counts: ${JSON.stringify(odd)}`);
  },
  listCounts: (queue) => queue.listCounts(),
  getTask: (queue) => Promise.all(ids.map((id) => queue.getTask(id))),
  listAttempts: (queue) => Promise.all(ids.map((id) => queue.listAttempts(id))),
  listLogs: (queue) => Promise.all(ids.map((id) => queue.listLogs(id))),
  listWorkers: async (queue) =>
    (await queue.listWorkers()).map(({ heartbeatAt, startedAt }) =>
      [heartbeatAt, startedAt].map((at) => new Date(at)),
    ),
  health: (queue) => queue.health(),
  stats: (queue) => queue.stats(),
  functionStats: (queue) => queue.functionStats(),
  listLimits: (queue) => queue.listLimits(),
  listSchedules: (queue) => queue.listSchedules(),
};

/** What reading threw; undefined: nothing. */
export async function problemOf(read: (queue: Queue) => unknown, queue: Queue): Promise<string | undefined> {
  try {
    await read(queue);
  } catch (error) {
    return String(error);
  }
}

const pages = [
  "/",
  "/queues",
  "/tasks",
  "/tasks/901",
  "/tasks/902",
  "/tasks/903",
  "/tasks/904",
  "/workflows",
  "/workflows/901",
  "/schedules",
  "/workers",
  "/functions",
];

/** The pages and answers of the dashboard that are errors. */
export async function brokenPages(queue: Queue): Promise<string[]> {
  const desk = await openDesk({}, queue);
  const broken: string[] = [];
  for (const page of pages)
    for (const path of [page, `/api${page === "/" ? "/overview" : page}`]) {
      const { status } = await desk.get(path);
      if (status >= 500) broken.push(`${path}: ${status} ${desk.errors.splice(0).map(String)}`);
    }
  return broken;
}

/** Runs a task under a limit of its code, and one of a schedule. Returns the errors of the worker. */
export async function worked(queue: Queue): Promise<string[]> {
  const run = task(uniqueName("beside"), async (n: number) => n, { limit: { concurrency: 2 } });
  const errors: string[] = [];
  const worker = await startedWorker(queue, { tasks: [run] });
  worker.on("error", (error, where) => errors.push(`${where}: ${String(error)}`));
  const result = await queue.awaitTaskResult(await queue.enqueueTask(run, 7), { timeout: "20s" });
  if (result !== 7) errors.push(`the result is ${result}`);
  const fired = new Promise<void>((resolve) => {
    worker.on("completed", ({ scheduleName }) => scheduleName === "fine" && resolve());
  });
  await queue.schedule("fine", { every: "1s", startAt: new Date(0) }, run, 8);
  onTestFinished(() => queue.removeSchedule("fine").catch(() => undefined));
  await fired;
  await worker.stop();
  return errors;
}
