/** A dashboard of Grafana for the metrics of a queue. */

interface Panel {
  title: string;
  /** A sentence that explains the panel to people who do not know dbq. */
  description: string;
  type: "stat" | "timeseries";
  unit: "short" | "s" | "ops" | "percentunit";
  /** Of 24 columns. */
  width: number;
  /** Each query with the text that names its lines. */
  queries: readonly (readonly [expr: string, legend: string])[];
  /** The value from which it is red. */
  redFrom?: number;
}

/** Several processes may be scraped for one database: each tells the same, so that the largest counts and not the sum. */
const once = (labels: string, metric: string): string => `max by (${labels}) (${metric})`;

const ofChosen = 'queue=~"$queue", func=~"$func"';

const attempts = (labels: string, more = ""): string =>
  `sum by (${labels}) (max by (queue, func, outcome) (rate(dbq_task_duration_seconds_count{${ofChosen}${more}}[$__rate_interval])))`;

const quantile = (share: number, label: string, metric: string): string =>
  `histogram_quantile(${share}, sum by (${label}, le) (rate(${metric}_bucket{${ofChosen}}[$__rate_interval])))`;

/** The number of these things of one kind: the sum of a metric over all values of `label`. */
const stat = (things: string, kind: string, description: string, label: string, metric: string): Panel => ({
  ...{ title: `${things}: ${kind}`, description, type: "stat", unit: "short", width: 6 },
  queries: [[`sum(${once(label, metric)})`, kind]],
});

const panels: readonly Panel[] = [
  ...["critical", "warning"].map((severity) => ({
    ...stat(
      "Causes",
      severity,
      "What is wrong now. dbq causes names each, and what repairs it.",
      "kind",
      `dbq_causes{severity="${severity}"}`,
    ),
    redFrom: 1,
  })),
  ...["running", "failed"].map((status) =>
    stat(
      "Tasks",
      status,
      "Counting ends at 5,000.",
      "queue",
      `dbq_tasks{status="${status}", queue=~"$queue"}`,
    ),
  ),
  {
    title: "Pending tasks",
    description: "Tasks that could start now, by queue. Counting ends at 10,000 of each function.",
    type: "timeseries",
    unit: "short",
    width: 12,
    queries: [[once("queue", 'dbq_tasks{status="pending", queue=~"$queue"}'), "{{queue}}"]],
  },
  {
    title: "The longest wait",
    description: "How long the longest waiting of the next tasks has been pending, by queue.",
    type: "timeseries",
    unit: "s",
    width: 12,
    queries: [[once("queue", 'dbq_oldest_pending_seconds{queue=~"$queue"}'), "{{queue}}"]],
  },
  {
    title: "Attempts by outcome",
    description: "Attempts that ended, a second.",
    type: "timeseries",
    unit: "ops",
    width: 12,
    queries: [[attempts("outcome"), "{{outcome}}"]],
  },
  {
    title: "Attempts that fail, by function",
    description: "The share of attempts that failed or are tried again.",
    type: "timeseries",
    unit: "percentunit",
    width: 12,
    queries: [[`${attempts("func", ', outcome=~"failed|retry"')} / ${attempts("func")}`, "{{func}}"]],
  },
  {
    title: "Run times, p95",
    description: "Of 95 % of the attempts of a function, the longest.",
    type: "timeseries",
    unit: "s",
    width: 12,
    queries: [[quantile(0.95, "func", "dbq_task_duration_seconds"), "{{func}}"]],
  },
  {
    title: "Waits, p95",
    description: "From when a task was enqueued or became due until a worker took it: 95 % waited no longer.",
    type: "timeseries",
    unit: "s",
    width: 12,
    queries: [[quantile(0.95, "queue", "dbq_task_wait_seconds"), "{{queue}}"]],
  },
  {
    title: "Put off by a rate",
    description: "Scheduled tasks that a rate has put off to their turns, by queue.",
    type: "timeseries",
    unit: "short",
    width: 12,
    queries: [[once("queue", 'dbq_tasks_put_off{queue=~"$queue"}'), "{{queue}}"]],
  },
  {
    title: "Causes",
    description: "What was wrong when, by kind.",
    type: "timeseries",
    unit: "short",
    width: 12,
    queries: [[`${once("kind, severity", "dbq_causes")} > 0`, "{{kind}}"]],
  },
];

const heights = { stat: 4, timeseries: 8 } as const;
const columns = 24;

const datasource = { type: "prometheus", uid: "$datasource" };

/** The panels in rows from left to right. */
function placed(): object[] {
  let [x, y, rowHeight] = [0, 0, 0];
  return panels.map((panel, i) => {
    const height = heights[panel.type];
    if (x + panel.width > columns) [x, y, rowHeight] = [0, y + rowHeight, 0];
    const gridPos = { x, y, w: panel.width, h: height };
    x += panel.width;
    rowHeight = Math.max(rowHeight, height);
    return { id: i + 1, gridPos, ...contentOf(panel) };
  });
}

function contentOf({ title, description, type, unit, queries, redFrom }: Panel): object {
  const steps = [{ color: "green", value: null }, ...(redFrom ? [{ color: "red", value: redFrom }] : [])];
  return {
    ...{ title, description, type, datasource },
    fieldConfig: {
      defaults: { unit, min: 0, thresholds: { mode: "absolute", steps } },
      overrides: [],
    },
    options:
      type === "stat"
        ? { reduceOptions: { calcs: ["lastNotNull"] }, colorMode: redFrom ? "background" : "value" }
        : { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } },
    targets: queries.map(([expr, legendFormat], i) => ({
      ...{ refId: String.fromCharCode(65 + i), datasource, expr, legendFormat },
    })),
  };
}

/** A list in which the user chooses one or more values of a label. */
const chosen = (name: string, label: string, query: string): object => ({
  ...{ name, label, type: "query", datasource, query, refresh: 2, sort: 1 },
  ...{ multi: true, includeAll: true, allValue: ".*", current: { text: ["All"], value: ["$__all"] } },
});

/**
 * The dashboard as Grafana imports it, in JSON: causes, backlogs, attempts, run times and waits by the metrics of `metricsText`. It
 * asks for the data source of Prometheus, and has lists of queues and functions to choose from.
 */
export function grafanaDashboard(): string {
  const dashboard = {
    ...{ uid: "dbq-ts", title: "dbq", tags: ["dbq"], schemaVersion: 39, version: 1, editable: true },
    ...{ time: { from: "now-6h", to: "now" }, refresh: "30s", timezone: "browser" },
    templating: {
      list: [
        { name: "datasource", label: "Data source", type: "datasource", query: "prometheus" },
        chosen("queue", "Queue", "label_values(dbq_tasks, queue)"),
        chosen("func", "Function", "label_values(dbq_task_duration_seconds_count, func)"),
      ],
    },
    annotations: { list: [] },
    panels: placed(),
  };
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}
