import type { Command } from "commander";
import type { CallOptions, JsonObject, Queue, Task, TaskFunction } from "../../../index.ts";
import { type CommonOptions, withQueue } from "../database.ts";
import { UsageError } from "../failure.ts";
import { json, line, note } from "../output.ts";
import { duration, given, jsonArray, jsonObject, metaPair, whole } from "../parse.ts";
import { jsonText } from "../text.ts";

interface EnqueueOptions extends CommonOptions, Pick<CallOptions, "uniqueKey" | "requestId" | "meta"> {
  kwargs?: string;
  priority?: number;
  delay?: number;
  queue?: string;
  maxRetries?: number;
  /** `true`: without a time limit. */
  wait?: number | true;
}

const examples = `
Examples:
  $ dbq enqueue resize '["a.png", 320]'
  $ dbq enqueue report --kwargs '{"month": 11}' --delay 5m
  $ dbq enqueue report --unique-key report-11
  $ dbq enqueue resize '["a.png", 320]' --wait=30s`;

export function addEnqueue(program: Command): void {
  const command = program
    .command("enqueue")
    .summary("enqueue a task")
    .description("Enqueue a task by the registered name of its function, and print the task's id.")
    .argument("<name>", "the registered name of the function")
    .argument("[args]", "its arguments, as a JSON array", "[]")
    .allowExcessArguments();
  addCallOptions(command)
    .option("--wait [timeout]", "wait until the task ends, or for this time, and print its result", waitTime)
    .addHelpText("after", examples)
    .action(async (name: string, args: string, _: unknown, self: Command) => {
      refuseSeparateArguments(self.args.slice(1));
      await enqueue(name, args, self.optsWithGlobals<EnqueueOptions>());
    });
}

/** @throws UsageError for `enqueue resize a.png 320`, which names the form that is meant */
function refuseSeparateArguments(given: readonly string[]): void {
  if (given.length < 2) return;
  const values = given.map((text) => (isJson(text) ? text : JSON.stringify(text)));
  throw new UsageError(`enqueue: expected the arguments as one JSON array, such as '[${values.join(", ")}]'`);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function addCallOptions(command: Command): Command {
  return command
    .option("--kwargs <json>", "keyword arguments, as a JSON object")
    .option("--priority <number>", "higher runs first (default: 5)", whole(-2_147_483_648, 2_147_483_647))
    .option("--delay <duration>", "run it after this time, such as 30s or 5m", duration)
    .option("--queue <name>", 'the queue (default: "default")')
    .option(
      "--max-retries <number>",
      "attempts after the first one (default: as the worker has registered the task, else 3)",
      whole(0, 2_147_483_647),
    )
    .option("--unique-key <key>", "if an unfinished task has this key, print that task's id instead")
    .option("--request-id <id>", "id of the request that enqueues it, for --request-id of list")
    .option(
      "--meta <key=value>",
      "your own data, for --meta of list; may be repeated, or a JSON object",
      meta,
    );
}

function waitTime(text: string): number {
  return duration(text);
}

function meta(text: string, before: JsonObject = {}): JsonObject {
  return text.startsWith("{")
    ? { ...before, ...jsonObject(text, "--meta") }
    : { ...before, ...metaPair(text) };
}

async function enqueue(name: string, args: string, options: EnqueueOptions): Promise<void> {
  const list = jsonArray(args, "args");
  const fn = await remote(name, options);
  await withQueue(options, async (queue) => {
    const id = await queue.enqueueTask(fn, ...list);
    if (options.wait !== undefined) await printResult(queue, id, options);
    else if (options.json) json({ id });
    else line(id);
  });
}

/** @throws TypeError for wrong options, before the database is opened */
async function remote(name: string, options: EnqueueOptions): Promise<TaskFunction<unknown[], unknown>> {
  const { remoteTask } = await import("../../../index.ts");
  const { priority, delay, queue: queueName, maxRetries, uniqueKey, requestId, meta: about } = options;
  const kwargs = options.kwargs === undefined ? undefined : jsonObject(options.kwargs, "--kwargs");
  const call = { priority, delay, queueName, maxRetries, uniqueKey, requestId, meta: about, kwargs };
  return remoteTask(name, given(call) as CallOptions);
}

async function printResult(queue: Queue, id: number, options: EnqueueOptions): Promise<void> {
  const { TaskCancelledError, TaskFailedError } = await import("../../../index.ts");
  if (!options.json) note(`task ${id}`);
  const timeout =
    options.wait === true || options.wait === undefined ? Number.POSITIVE_INFINITY : options.wait;
  const task: Task = await queue.awaitTaskCompletion(id, { timeout });
  if (options.json) json(task);
  if (task.status === "failed") throw new TaskFailedError(task);
  if (task.status === "cancelled") throw new TaskCancelledError(id, task.error?.message);
  if (!options.json) line(jsonText(task.result));
}
