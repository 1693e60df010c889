import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import { isJson } from "../../../base/text/json.ts";
import type { CallOptions, JsonObject, Queue, Task, TaskFunction } from "../../../index.ts";
import { type CommonOptions, withQueue } from "../database.ts";
import { UsageError } from "../failure.ts";
import { json, jsonNote, line, note } from "../output.ts";
import { duration, given, jsonArray, jsonObject, label, metaPair, whole } from "../parse.ts";
import { showingOf } from "../redact.ts";
import { jsonText } from "../text.ts";

type FromCall =
  | "uniqueKey"
  | "onDuplicate"
  | "debounceLimit"
  | "uniqueUntil"
  | "uniqueFor"
  | "requestId"
  | "meta";

/** The options of a call, which its task gets. */
export interface CallCommandOptions extends CommonOptions, Pick<CallOptions, FromCall> {
  kwargs?: string;
  priority?: number;
  delay?: number;
  expiresIn?: number;
  queue?: string;
  group?: string;
  maxRetries?: number;
}

interface EnqueueOptions extends CallCommandOptions {
  /** `true`: without a time limit. */
  wait?: number | true;
}

const onDuplicate = ["return", "error", "replace", "debounce"] as const;

const examples = `
Examples:
  $ dbq enqueue resize '["a.png", 320]'
  $ dbq enqueue report --kwargs '{"month": 11}' --delay 5m
  $ dbq enqueue report --unique-key report-11
  $ dbq enqueue index '[7]' --unique-key 7 --on-duplicate debounce --delay 30s
  $ dbq enqueue resize '["a.png", 320]' --wait=30s`;

export function addEnqueue(program: Command): void {
  const command = program
    .command("enqueue")
    .summary("enqueue a task")
    .description("Enqueue a task by the registered name of its function, and print the task's id.")
    .argument("<name>", "the registered name of the function", label)
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

/** `enqueue tasks.js` is most likely a mistake, but a function may be registered by the name of its file. */
function warnOfFile(name: string, { json: asJson }: EnqueueOptions): void {
  if (!/\.[cm]?[jt]s$/.test(name) || !existsSync(name)) return;
  const message = `${name} is also a file: a task is enqueued by the name of its function, the "resize" of task("resize", fn)`;
  if (asJson) jsonNote({ time: new Date(), event: "warning", message });
  else note(`warning: ${message}`);
}

export function addCallOptions(command: Command): Command {
  return command
    .option("--kwargs <json>", "keyword arguments, as a JSON object")
    .option("--priority <number>", "higher runs first (default: 5)", whole(-2_147_483_648, 2_147_483_647))
    .option("--delay <duration>", "run it after this time, such as 30s or 5m", duration)
    .option(
      "--expires-in <duration>",
      "end it as cancelled if no worker has started it this long from now",
      duration,
    )
    .option("--queue <name>", 'the queue (default: "default")', label)
    .option("--group <name>", "the group, such as a tenant (default: none)", label)
    .option(
      "--max-retries <number>",
      "attempts after the first one (default: as the worker has registered the task, else 3)",
      whole(0, 2_147_483_647),
    )
    .option("--unique-key <key>", "if a task holds this key, print that task's id instead", label)
    .addOption(
      new Option("--on-duplicate <what>", "what to do if a task holds the unique key").choices(onDuplicate),
    )
    .option(
      "--debounce-limit <duration>",
      "with debounce: due at the latest this long after the first enqueue",
      duration,
    )
    .addOption(
      new Option("--unique-until <when>", "until when it holds the unique key").choices([
        "finished",
        "started",
      ]),
    )
    .option("--unique-for <duration>", "the unique key stays taken for this long from now", duration)
    .option("--request-id <id>", "id of the request that enqueues it, for --request-id of list", label)
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
  warnOfFile(name, options);
  const fn = await remoteCall(name, options);
  await withQueue(options, async (queue) => {
    const id = await queue.enqueueTask(fn, ...list);
    if (options.wait !== undefined) await printResult(queue, id, options);
    else if (options.json) json({ id });
    else line(id);
  });
}

/** @throws TypeError for wrong options, before the database is opened */
export async function remoteCall(
  name: string,
  options: CallCommandOptions,
): Promise<TaskFunction<unknown[], unknown>> {
  const { remoteTask } = await import("../../../index.ts");
  const { priority, delay, expiresIn, queue: queueName, group, maxRetries, requestId, meta: about } = options;
  const { uniqueKey, onDuplicate, debounceLimit, uniqueUntil, uniqueFor } = options;
  const key = { uniqueKey, onDuplicate, debounceLimit, uniqueUntil, uniqueFor };
  const kwargs = options.kwargs === undefined ? undefined : jsonObject(options.kwargs, "--kwargs");
  const call = {
    priority,
    delay,
    expiresIn,
    queueName,
    group,
    maxRetries,
    ...key,
    requestId,
    meta: about,
    kwargs,
  };
  return remoteTask(name, given(call) as CallOptions);
}

async function printResult(queue: Queue, id: number, options: EnqueueOptions): Promise<void> {
  const { TaskCancelledError, TaskFailedError } = await import("../../../index.ts");
  if (!options.json) note(`task ${id}`);
  const timeout =
    options.wait === true || options.wait === undefined ? Number.POSITIVE_INFINITY : options.wait;
  const show = await showingOf(queue);
  const task: Task = show(await queue.awaitTaskCompletion(id, { timeout }));
  if (options.json) json(task);
  if (task.status === "failed") throw new TaskFailedError(task);
  if (task.status === "cancelled") throw new TaskCancelledError(id, task.error?.message);
  if (!options.json) line(jsonText(task.result));
}
