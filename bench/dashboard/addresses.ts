/** The addresses that are measured: each page of the dashboard, and of the page of tasks each filter. */

/** Some pages of the dashboard under one name. */
export interface Measured {
  readonly name: string;
  readonly addresses: readonly string[];
}

/** The filters of the page of tasks, by what they are about. */
const filters: Readonly<Record<string, readonly string[]>> = {
  "no filter": [""],
  pending: ["status=pending"],
  scheduled: ["status=scheduled"],
  running: ["status=running"],
  waiting: ["status=waiting"],
  completed: ["status=completed"],
  failed: ["status=failed"],
  cancelled: ["status=cancelled"],
  "two statuses": ["status=failed,cancelled", "status=pending,scheduled"],
  "a function, frequent": ["func=app.jobs.send_0"],
  "a function, rare": ["func=app.jobs.index_59"],
  "a function, unknown": ["func=unknown"],
  "a queue": ["queue=mail", "queue=slow"],
  "a queue, unknown": ["queue=unknown"],
  "a group, frequent": ["group=customer-0"],
  "a group, rare": ["group=customer-4900"],
  "a schedule": ["schedule=schedule-1", "schedule=unknown"],
  "a request": ["requestId=req-777"],
  "a request, 20,000 tasks": ["requestId=import-1"],
  "a unique key": ["uniqueKey=key-1", "uniqueKey=unknown"],
  "meta, frequent": ["meta=region%3Deu"],
  "meta, rare": ["meta=customer%3D4900"],
  "a time": ["from=FROM&to=TO"],
  "a text, frequent": ["q=pdf"],
  "a text, rare": ["q=order+123456"],
  "a text, nowhere": ["q=nothing+has+it"],
  "a text of failed tasks": ["q=answered+503&status=failed"],
  "a function and a status": ["func=app.jobs.send_0&status=failed", "func=app.jobs.index_59&status=failed"],
  "a function, a queue, pending": [
    "func=app.jobs.send_0&queue=default&status=pending",
    "func=app.jobs.index_59&queue=reports&status=pending",
  ],
  "a queue and a status": [
    "queue=mail&status=failed",
    "queue=slow&status=scheduled",
    "queue=unknown&status=completed",
  ],
  "a group and a status": ["group=customer-4900&status=failed", "group=customer-4900&status=completed"],
  "a time and a status": ["from=FROM&to=TO&status=failed", "from=FROM&to=TO&status=completed"],
  "a function and a text": ["func=app.jobs.index_59&q=order+1234"],
  "all fields": [
    "status=failed&func=app.jobs.index_59&queue=reports&group=customer-1&from=FROM&to=TO&meta=region%3Deu&q=answered",
  ],
};

const functionPage = (name: string) => `/functions/detail?name=${name}`;

const pages: readonly Measured[] = [
  { name: "overview", addresses: ["/"] },
  { name: "overview, 24 hours", addresses: ["/?range=24h"] },
  { name: "overview, 7 days", addresses: ["/?range=7d"] },
  { name: "overview, 30 days", addresses: ["/?range=30d"] },
  { name: "queues", addresses: ["/queues"] },
  { name: "schedules", addresses: ["/schedules"] },
  { name: "workers", addresses: ["/workers"] },
  { name: "functions", addresses: ["/functions", "/functions?sort=failed"] },
  { name: "failures", addresses: ["/failures"] },
  { name: "failures, 30 days", addresses: ["/failures?range=30d"] },
  { name: "failures of a function", addresses: ["/failures?func=app.jobs.send_0"] },
  { name: "a function's page", addresses: ["app.jobs.send_0", "app.jobs.index_59"].map(functionPage) },
  { name: "a queue's page", addresses: ["/queues/detail?name=mail", "/queues/detail?name=slow&range=24h"] },
  { name: "audit", addresses: ["/audit"] },
];

const hour = 3_600_000;
/** As the page's form sends a time. */
const timeText = (time: number) => encodeURIComponent(new Date(time).toISOString().slice(0, 16));

/** What is measured over a table of so many tasks. */
export function measured(tasks: number): Measured[] {
  const now = Date.now();
  const [from, to] = [timeText(now - 240 * hour), timeText(now - 239 * hour)];
  const middle = Math.floor(tasks / 2);
  return [
    ...pages,
    { name: "task", addresses: [1, 2, 3, 4, 5].map((n) => `/tasks/${middle + n}`) },
    ...Object.entries(filters).map(([name, queries]) => ({
      name: `tasks, ${name}`,
      addresses: queries.map((query) => `/tasks?${query.replace("FROM", from).replace("TO", to)}`),
    })),
  ];
}

/** The address of the page of tasks that goes on after this task. */
export const onwards = (address: string, after: number): string => `${address}&after=${after}`;
