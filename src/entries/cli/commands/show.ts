import type { Command } from "commander";
import type { Attempt, Task, TaskError, TaskLog } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { causesOf } from "../failure.ts";
import { block, type Cell, json, line, table } from "../output.ts";
import { taskId } from "../parse.ts";
import { errorText } from "../task-events.ts";
import { columnsOf, isoText, jsonText, moment, shortened } from "../text.ts";
import { statusCell } from "./list.ts";

/** Characters of an error's message. */
const longestError = 10_000;

const examples = `
Examples:
  $ dbq show 4711
  $ dbq show 4711 --json | jq .error.stack`;

export function addShow(program: Command): void {
  program
    .command("show")
    .summary("show one task")
    .description("Show all facts about one task, its failed attempts, and the lines that it logged.")
    .argument("<id>", "task id")
    .addHelpText("after", examples)
    .action(async (id: string, _: unknown, self: Command) => {
      await show(taskId(id), self.optsWithGlobals<CommonOptions>());
    });
}

async function show(id: number, options: CommonOptions): Promise<void> {
  const { TaskNotFoundError } = await import("../../../index.ts");
  await withExistingQueue(options, async (queue) => {
    const task = await queue.getTask(id);
    if (task === undefined) throw new TaskNotFoundError(id);
    const attempts = await queue.listAttempts(id);
    const logs = await queue.listLogs(id);
    if (options.json) json({ ...task, attempts, logs });
    else print(task, attempts, logs);
  });
}

function print(task: Task, attempts: readonly Attempt[], logs: readonly TaskLog[]): void {
  line({ text: `task ${task.id}`, color: "bold" }, task.func, statusCell(task.status));
  const facts = factsOf(task).filter(([, value]) => value !== "");
  const width = Math.max(...facts.map(([name]) => columnsOf(name)));
  for (const [name, value] of facts) line({ text: `  ${name.padEnd(width)}`, color: "dim" }, value);
  if (task.error) printStacks(task.error);
  printAttempts(attempts);
  printLogs(logs);
}

function printAttempts(attempts: readonly Attempt[]): void {
  if (attempts.length === 0) return;
  line("");
  table(["ATTEMPT", "GENERATION", "OUTCOME", "STARTED", "ENDED", "WORKER", ""], attempts.map(attemptRow));
}

/** A heading for each attempt; under it one line for each of its lines. */
function printLogs(logs: readonly TaskLog[]): void {
  let generation: number | undefined;
  for (const { at, generationId, message } of logs) {
    if (generationId !== generation) {
      line("");
      line({ text: `LOG OF GENERATION ${generationId}`, color: "dim" });
    }
    generation = generationId;
    line({ text: isoText(at), color: "dim" }, message);
  }
}

function printStacks(error: TaskError): void {
  if (error.stack) block(error.stack, "    ");
  for (const { name, message, stack } of causesOf(error)) {
    line({ text: "  cause", color: "dim" }, shortened(`${name}: ${message}`, longestError));
    if (stack) block(stack, "    ");
  }
}

/** Names and values; facts with an empty value are not shown. */
function factsOf(task: Task): [string, Cell][] {
  const { progress, progressNote, retryCount, maxRetries, timeout, result, error } = task;
  return [
    ["args", jsonText(task.args)],
    ["kwargs", jsonUnlessEmpty(task.kwargs)],
    ["meta", jsonUnlessEmpty(task.meta)],
    ["queue", task.queueName],
    ["priority", task.priority],
    ["retries", `${retryCount} of ${maxRetries}`],
    ["generation", task.generationId],
    ["request id", task.requestId ?? ""],
    ["unique key", task.uniqueKey ?? ""],
    ["timeout", timeout === null ? "" : `${timeout} ms`],
    ...timesOf(task),
    ["worker", task.workerId ?? ""],
    ["progress", progress === null ? "" : `${progress} ${progressNote ?? ""}`.trim()],
    ["result", result === undefined ? "" : jsonText(result)],
    ["error", error === null ? "" : shortened(`${error.name}: ${error.message}`, longestError)],
  ];
}

function timesOf({ createdAt, updatedAt, waitUntil, startedAt, finishedAt }: Task): [string, Cell][] {
  const times = { created: createdAt, "not before": waitUntil, started: startedAt, finished: finishedAt };
  const entries = Object.entries({ ...times, updated: updatedAt });
  return entries.map(([name, time]) => [name, time ? isoText(time) : ""]);
}

function jsonUnlessEmpty(value: object): string {
  const json = jsonText(value);
  return json === "{}" ? "" : json;
}

function attemptRow(attempt: Attempt, i: number): Cell[] {
  const { generationId, outcome, startedAt, endedAt, workerId, error } = attempt;
  const started = startedAt === null ? "" : moment(startedAt);
  const reason = error === null ? "" : errorText(error);
  return [
    i + 1,
    generationId,
    { text: outcome, color: "yellow" },
    started,
    moment(endedAt),
    workerId ?? "",
    reason,
  ];
}
