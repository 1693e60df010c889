import type { Command } from "commander";
import type { CallOptions, JsonObject, Queue, Task, TaskFunction } from "../../../index.ts";
import { type CommonOptions, withQueue } from "../database.ts";
import { json, line, note } from "../output.ts";
import { duration, given, jsonArray, jsonObject, metaPair, whole } from "../parse.ts";
import { jsonText } from "../text.ts";

interface EnqueueOptions extends CommonOptions, Pick<CallOptions, "uniqueKey" | "requestId" | "meta"> {
  kwargs?: string;
  priority?: number;
  delay?: number;
  queue?: string;
  maxRetries?: number;
  /** True: until it ends. */
  wait?: number | true;
}

const examples = `
Examples:
  $ dbq enqueue resize '["a.png", 320]'
  $ dbq enqueue report --kwargs '{"month": 11}' --delay 5m --unique-key report-11
  $ dbq enqueue resize '["a.png", 320]' --wait=30s`;

export function addEnqueue(program: Command): void {
  const command = program
    .command("enqueue")
    .summary("write a task")
    .description("Write a task, by the name that its function is registered under, and print its id.")
    .argument("<name>", "the function's name")
    .argument("[args]", "its arguments, as a JSON array", "[]");
  addCallOptions(command)
    .option(
      "--wait [timeout]",
      "wait until it ends, or this long, and print its result: --wait, --wait=30s",
      waitTime,
    )
    .addHelpText("after", examples)
    .action(async (name: string, args: string, _: unknown, self: Command) => {
      await enqueue(name, args, self.optsWithGlobals<EnqueueOptions>());
    });
}

function addCallOptions(command: Command): Command {
  return command
    .option("--kwargs <json>", "keyword arguments, as a JSON object")
    .option("--priority <number>", "higher runs first (default: 5)", whole(-2_147_483_648, 2_147_483_647))
    .option("--delay <duration>", "not before this much time has passed, such as 30s or 5m", duration)
    .option("--queue <name>", 'the queue (default: "default")')
    .option("--max-retries <number>", "tries after the first one (default: 3)", whole(0, 2_147_483_647))
    .option("--unique-key <key>", "do nothing, and print the holder's id, while an unfinished task holds it")
    .option("--request-id <id>", "what asked for it, to find it by")
    .option(
      "--meta <key=value>",
      "whatever you like, to find it by; may be repeated, or a JSON object",
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
    if (options.wait !== undefined) await printEnd(queue, id, options);
    else if (options.json) json({ id });
    else line(id);
  });
}

/** @throws TypeError, before there is a database */
async function remote(name: string, options: EnqueueOptions): Promise<TaskFunction<unknown[], unknown>> {
  const { remoteTask } = await import("../../../index.ts");
  const { priority, delay, queue: queueName, maxRetries, uniqueKey, requestId, meta: about } = options;
  const kwargs = options.kwargs === undefined ? undefined : jsonObject(options.kwargs, "--kwargs");
  const call = { priority, delay, queueName, maxRetries, uniqueKey, requestId, meta: about, kwargs };
  return remoteTask(name, given(call) as CallOptions);
}

async function printEnd(queue: Queue, id: number, options: EnqueueOptions): Promise<void> {
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
