/** The benchmarks of actions on many tasks. */
import type { Benchmark, Database } from "../benchmark.ts";
import { noServer } from "../server/databases.ts";
import { type Action, measureBeside } from "./beside.ts";

const abouts: Record<Action, string> = {
  retry: "`queue.retryTasks` of 100,000 failed tasks",
  reencrypt: "`queue.reencrypt()` of 100,000 tasks with 1 KiB of arguments",
};

const about = (action: Action) =>
  `${abouts[action]} in one process, in 20 parts, while a worker in another one drains no-op tasks of the same database, 100 at a ` +
  "time. Beside each part, the drain is timed for as long without it; the figure is the median of these pairs. A third process enqueues a " +
  "task and reads it, with 2 ms between: its longest block is that of its event loop, its longest wait that for one answer.";

function besideDrain(action: Action, on: Database): Benchmark {
  const isServer = on === "postgres";
  const title = action === "retry" ? "Bulk retry beside a drain" : "Rotation of a key beside a drain";
  return {
    name: `${isServer ? "pg-" : ""}${action}-beside`,
    title: isServer ? `Postgres: ${title.toLowerCase()}` : title,
    about: about(action),
    on,
    once: true,
    figures: [
      { name: "seconds", unit: "s", better: "lower" },
      { name: "drained/s", unit: "tasks/s", better: "higher" },
      {
        name: "of the drain without",
        unit: "",
        better: "higher",
        goals: action === "retry" ? [{ must: 0.9, aim: 1 }] : [],
      },
      { name: "lower quarter", unit: "", better: "higher" },
      { name: "upper quarter", unit: "", better: "higher" },
      { name: "longest block", unit: "ms", better: "lower", goals: [{ must: 50, aim: 25 }] },
      { name: "longest block without", unit: "ms", better: "lower" },
      { name: "longest wait", unit: "ms", better: "lower" },
      { name: "longest wait without", unit: "ms", better: "lower" },
    ],
    contenders: [
      {
        name: "dbq",
        ...(isServer && { missing: noServer("postgres") }),
        measure: measureBeside(action, on),
      },
    ],
  };
}

export const operateBenchmarks: readonly Benchmark[] = [
  besideDrain("retry", "sqlite"),
  besideDrain("retry", "postgres"),
  besideDrain("reencrypt", "sqlite"),
  besideDrain("reencrypt", "postgres"),
];
