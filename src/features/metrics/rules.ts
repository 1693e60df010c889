/** Alerting rules of Prometheus for the causes of a queue. */
import { type CauseKind, causeSeverities } from "../causes/methods.ts";

const summaries: Readonly<Record<CauseKind, string>> = {
  database: "the database warns of something",
  frozen: "a worker has sent no heartbeat for a large part of its lease",
  unserved: "tasks wait that no live worker takes",
  failing: "a function fails in most of its attempts",
  crashing: "workers die while they run a function, or on a host",
  hung: "a task runs for far longer than its function usually does",
  behind: "the pending tasks of a queue grow for long",
  starved: "a group or a priority waits while tasks that came after it start",
  piling: "a schedule has unfinished tasks that pile up",
  limited: "tasks have waited for a limit or a rate for long",
  paused: "tasks wait behind a pause",
};

/** `DbqUnserved` */
const nameOf = (kind: string): string => `Dbq${kind.charAt(0).toUpperCase()}${kind.slice(1)}`;

/** When something counts as wrong is for the thresholds to say: a rule only waits until a second scrape has seen it. */
const ruleOf = ([kind, severity]: [string, string]): string =>
  [
    `      - alert: ${nameOf(kind)}`,
    `        expr: max(dbq_causes{kind="${kind}"}) > 0`,
    "        for: 1m",
    "        labels:",
    `          severity: ${severity}`,
    "        annotations:",
    `          summary: "dbq: ${summaries[kind as CauseKind]}"`,
    '          description: "dbq causes says which, and what repairs it."',
  ].join("\n");

/** The rules as a file of rules, in YAML: one for each kind of cause. It fits the metric `dbq_causes` of `metricsText`. */
export function alertRules(): string {
  return `groups:\n  - name: dbq\n    rules:\n${Object.entries(causeSeverities).map(ruleOf).join("\n")}\n`;
}
