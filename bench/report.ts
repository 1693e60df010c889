/** The results for people (tables) and for programs (one object). */
import type { Machine } from "./machine.ts";
import type { Setup, Wishes } from "./plan.ts";
import type { Absent, Result } from "./run.ts";
import { serversText } from "./server/facts.ts";
import { number, table } from "./table.ts";
import type { Line } from "./verdict.ts";

const words = { aim: "reached, and the aim", must: "reached", short: "short" } as const;

export function machineText(machine: Machine): string {
  const { node, os, cpu, cores, memoryGiB, fsyncMicroseconds, load } = machine;
  const others = load === undefined ? "" : `, load ${load.toFixed(1)} before it`;
  return [
    `${cores} x ${cpu}, ${memoryGiB} GiB, ${os}, node ${node}, fsync ${number(fsyncMicroseconds)} µs${others}`,
    ...(machine.on?.includes("sqlite") === false ? [] : sqliteText(machine)),
    ...(machine.servers ? serversText(machine.servers, versionsText(machine)) : []),
  ].join("\n");
}

function versionsText({ dbq, pg, mysql2, graphileWorker, pgBoss, ...machine }: Machine): string {
  const workflows = `OpenWorkflow ${machine.openWorkflow}, DBOS Transact ${machine.dbos}`;
  return `dbq ${dbq}, pg ${pg}, mysql2 ${mysql2}, Graphile Worker ${graphileWorker}, pg-boss ${pgBoss}, ${workflows}`;
}

function sqliteText({ redis, ...machine }: Machine): string[] {
  const persistence =
    redis && `Redis ${redis.version} (appendonly ${redis.appendonly}, save ${redis.save || "never"})`;
  return [
    `dbq ${machine.dbq}, its floor and plainjob ${machine.plainjob} on better-sqlite3 ${machine.betterSqlite3} (SQLite ${machine.sqlite})`,
    `OpenWorkflow ${machine.openWorkflow} on node's own SQLite; BullMQ ${machine.bullmq}, ioredis ${machine.ioredis}, ${persistence ?? "no Redis"}`,
  ];
}

export function benchmarkText({ benchmark }: Setup): string {
  return `\n${benchmark.name}: ${benchmark.title}\n${wrapped(benchmark.about, 110)}`;
}

/** The command that repeats this measurement. */
export function commandOf({ benchmark, variant, synchronous, rounds }: Setup, wishes: Wishes): string {
  const { tasks, minutes, backlog, quick, contenders } = wishes;
  return [
    `npm run bench -- --only ${benchmark.name}`,
    ...(variant.name === "" ? [] : [`--variants "${variant.name}"`]),
    ...(contenders
      ? [`--contenders ${contenders.map((name) => (name.includes(" ") ? `"${name}"` : name)).join(" ")}`]
      : []),
    ...(benchmark.once ? [] : [`--synchronous ${synchronous}`]),
    `--rounds ${rounds}`,
    ...(tasks === undefined ? [] : [`--tasks ${tasks}`]),
    ...(minutes === undefined ? [] : [`--minutes ${minutes}`]),
    ...(backlog === undefined ? [] : [`--backlog ${backlog}`]),
    ...(quick ? ["--quick"] : []),
  ].join(" ");
}

export function resultText({ setup, lines, missing, failed }: Result, wishes: Wishes): string {
  const { benchmark, variant, synchronous, rounds } = setup;
  const durability = benchmark.once ? "" : `synchronous ${synchronous}`;
  const medians = rounds === 1 ? "1 round" : `medians of ${rounds} rounds`;
  const heading = [variant.name, durability, medians].filter((part) => part !== "").join("; ");
  const headings = ["", "", "median", rounds === 1 ? "" : "range", "dbq/other", "must", "aim", ""];
  const rows = lines.map((line, i) => row(line, lines[i - 1]));
  return [
    `\n  ${heading}`,
    ...(rows.length > 0 ? table(headings, rows).map((text) => `  ${text}`) : []),
    ...missing.map(({ contender, reason }) => `  left out: ${contender}: ${reason}`),
    ...failed.map(({ contender, reason }) => `  FAILED: ${contender}: ${indented(reason)}`),
    `  $ ${commandOf(setup, wishes)}`,
  ].join("\n");
}

/** The name of a figure stands once, beside its first contender. */
function row(
  { figure, unit, contender, values, median, ratio, goal }: Line,
  above: Line | undefined,
): string[] {
  const name = unit === "" || figure.includes(unit) ? figure : `${figure}, ${unit}`;
  const range = `${number(Math.min(...values))} – ${number(Math.max(...values))}`;
  return [
    figure === above?.figure ? "" : name,
    contender,
    number(median),
    values.length > 1 ? range : "",
    ratio === undefined ? "" : ratioText(ratio),
    goal ? number(goal.must) : "",
    goal ? number(goal.aim) : "",
    goal ? words[goal.reached] : "",
  ];
}

function ratioText(ratio: number): string {
  return Math.abs(ratio) < 0.1 ? String(Number(ratio.toPrecision(2))) : ratio.toFixed(2);
}

export function summaryText(results: readonly Result[]): string {
  const goals = results.flatMap(({ lines }) => lines.flatMap(({ goal }) => goal ?? []));
  const short = goals.filter(({ reached }) => reached === "short").length;
  const failed = results.flatMap((result) => result.failed).length;
  const reached =
    goals.length === 0
      ? "none of these has a goal"
      : `${goals.length - short} of ${goals.length} goals reached, ${short} short`;
  return `\n${reached}${failed === 0 ? "" : `; ${failed} failed to run`}`;
}

export interface Report {
  readonly at: string;
  readonly machine: Machine;
  readonly settings: Wishes;
  readonly results: readonly {
    readonly benchmark: string;
    readonly title: string;
    readonly variant: Setup["variant"] | null;
    /** Null: measured once, since durability does not matter to it. */
    readonly synchronous: Setup["synchronous"] | null;
    readonly rounds: number;
    readonly command: string;
    readonly figures: readonly Line[];
    readonly missing: readonly Absent[];
    readonly failed: readonly Absent[];
  }[];
}

export function reportOf(machine: Machine, settings: Wishes, results: readonly Result[]): Report {
  return {
    at: new Date().toISOString(),
    machine,
    settings,
    results: results.map(({ setup, lines, missing, failed }) => {
      const { benchmark, variant, synchronous, rounds } = setup;
      return {
        benchmark: benchmark.name,
        title: benchmark.title,
        variant: variant.name === "" ? null : variant,
        synchronous: benchmark.once ? null : synchronous,
        rounds,
        command: commandOf(setup, settings),
        figures: lines,
        missing,
        failed,
      };
    }),
  };
}

function indented(text: string): string {
  return text.replaceAll("\n", "\n    ");
}

function wrapped(text: string, width: number): string {
  const lines: string[] = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1) ?? "";
    if (line.length + word.length + 1 > width) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines.join("\n");
}
