import type { Command } from "commander";
import { printable } from "../../../base/text/escapes.ts";
import type {
  Attempt,
  Hold,
  Queue,
  Run,
  Task,
  TaskError,
  TaskLog,
  TaskPlace,
  TaskWaits,
} from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { causesOf } from "../failure.ts";
import { rateText } from "../health-tables.ts";
import { block, type Cell, fact, json, line, table } from "../output.ts";
import { taskId } from "../parse.ts";
import { showingOf } from "../redact.ts";
import { awaitedFacts, notUndoneText, placeFacts, placeRecord, printRun, runRecord } from "../run-text.ts";
import { errorText } from "../task-events.ts";
import { columnsOf, exactMoment, jsonText, progressText, shortened } from "../text.ts";
import { statusCell } from "./list.ts";

/** Characters of an error's message. */
const longestError = 10_000;

/** Steps and tasks of a workflow. */
const mostShown = 1_000;

const examples = `
Examples:
  $ dbq show 4711
  $ dbq show 4711 --json | jq .error.stack`;

export function addShow(program: Command): void {
  program
    .command("show")
    .summary("show one task")
    .description(
      "Show all facts about one task, its steps and children, its failed attempts, and the lines that it logged.",
    )
    .argument("<id>", "task id")
    .addHelpText("after", examples)
    .action(async (id: string, _: unknown, self: Command) => {
      await show(taskId(id), self.optsWithGlobals<CommonOptions>());
    });
}

async function show(id: number, options: CommonOptions): Promise<void> {
  const { redactOf, shownRun, TaskNotFoundError, taskPlace, taskWaits } = await import("../../../index.ts");
  await withExistingQueue(options, async (queue) => {
    const found = await (options.json ? queue.getRun(id, { total: mostShown }) : runToPrint(queue, id));
    if (found === undefined) throw new TaskNotFoundError(id);
    const waits = await taskWaits(queue, found.task);
    const place = await taskPlace(queue, found);
    const run = redactOf(queue) ? shownRun(found, await showingOf(queue)) : found;
    const hidesSteps = "hidesSteps" in run && run.hidesSteps === true;
    const { task } = run;
    // What an app has hidden of a task may be in its errors and lines of before, too.
    const attempts = (await queue.listAttempts(id)).map((one) =>
      hidesSteps ? { ...one, error: null } : one,
    );
    const logs = hidesSteps ? [] : await queue.listLogs(id);
    if (options.json) json({ ...task, attempts, logs, ...waits, ...placeRecord(place), ...runRecord(run) });
    else print(run, { waits, place, attempts, logs, hidesSteps });
  });
}

/** The whole task, and of its steps and children what fits in a line. */
async function runToPrint(queue: Queue, id: number): Promise<Run | undefined> {
  const { getRunBeginning } = await import("../../../index.ts");
  const run = await getRunBeginning(queue, id, { total: mostShown });
  const task = run && (await queue.getTask(id));
  return task && { ...run, task };
}

/** What `dbq show` prints of a task besides its run. */
interface Details {
  waits: TaskWaits;
  place: TaskPlace;
  attempts: readonly Attempt[];
  logs: readonly TaskLog[];
  hidesSteps: boolean;
}

function print(run: Run, { waits, place, attempts, logs, hidesSteps }: Details): void {
  const { task } = run;
  const undoing = task.undoing ? "(undoes its steps)" : "";
  line({ text: `task ${task.id}`, color: "bold" }, task.func, statusCell(task.status), undoing);
  const all = [...factsOf(task), ...placeFacts(place), ...waitFacts(task, waits), ...awaitedFacts(run)];
  const facts = all.filter(([, value]) => value !== "");
  const width = Math.max(...facts.map(([name]) => columnsOf(name))) + 2;
  for (const [name, value] of facts) line({ text: `  ${name}`.padEnd(width), color: "dim" }, value);
  if (task.error) printError(task, task.error, width);
  const notUndone = notUndoneText(task);
  if (notUndone !== "") fact("  not undone", width, notUndone);
  const { failure } = attempts.at(-1) ?? {};
  if (task.status === "failed" && failure)
    fact("  kind", width, `${failure} (dbq list --failure ${failure})`);
  printRun(run, hidesSteps);
  printAttempts(attempts, task.error);
  printLogs(logs, attempts);
}

/** Prints an error and its causes, each with the frames of its stack. An unfinished task has that of an attempt before. */
function printError({ finishedAt }: Task, error: TaskError, width: number): void {
  const label = finishedAt === null ? "  last error" : "  error";
  for (const [i, each] of [error, ...causesOf(error)].entries()) {
    fact(i === 0 ? label : "  cause", width, shortened(headingOf(each), longestError));
    const frames = framesOf(each);
    if (frames !== "") block(frames, "    ");
  }
}

function headingOf({ name, message }: TaskError): string {
  return message === "" ? name : `${name}: ${message}`;
}

/** The stack without its heading, which says again what the error's message is. */
function framesOf({ message, stack = "" }: TaskError): string {
  const at = stack.indexOf(message);
  const isHeading = message !== "" && at >= 0 && !stack.slice(0, at).includes("\n");
  return isHeading ? stack.slice(at + message.length).replace(/^\r?\n/, "") : stack;
}

function printAttempts(attempts: readonly Attempt[], last: TaskError | null): void {
  if (attempts.length === 0) return;
  line("");
  table(["ATTEMPT", "OUTCOME", "STARTED", "ENDED"], attempts.map(attemptRow));
  line("");
  const width = "attempt ".length + String(attempts.length).length;
  for (const [i, { workerId, error }] of attempts.entries()) {
    const isLast = error?.name === last?.name && error?.message === last?.message;
    const reason = error === null ? "" : isLast ? "the error above" : errorText(error);
    const where = workerId === null ? "" : `on worker ${workerId}`;
    const text = [where, reason].filter((part) => part !== "").join(": ");
    if (text !== "") fact(`attempt ${i + 1}`, width, printable(text));
  }
}

/** A heading for each attempt; under it one line for each of its lines. */
function printLogs(logs: readonly TaskLog[], attempts: readonly Attempt[]): void {
  let generation: number | undefined;
  for (const { at, generationId, message } of logs) {
    if (generationId !== generation) {
      line("");
      line({ text: `LOG OF ${attemptName(generationId, logs, attempts)}`, color: "dim" });
    }
    generation = generationId;
    line({ text: exactMoment(at), color: "dim" }, message);
  }
}

/** Attempts that did not fail (handed back, snoozed, completed, or running now) have no record, and so no number. */
function attemptName(generation: number, logs: readonly TaskLog[], attempts: readonly Attempt[]): string {
  const i = attempts.findIndex(({ generationId }) => generationId === generation);
  if (i >= 0) return `ATTEMPT ${i + 1}`;
  const later = [...logs, ...attempts].some(({ generationId }) => generationId > generation);
  return later ? "AN ATTEMPT THAT DID NOT FAIL" : "THE LAST ATTEMPT";
}

/** Names and values; facts with an empty value are not shown. */
function factsOf(task: Task): [string, Cell][] {
  const { progress, progressNote, retryCount, maxRetries, timeout, result } = task;
  return [
    ["args", jsonText(task.args)],
    ["kwargs", jsonUnlessEmpty(task.kwargs)],
    ["meta", jsonUnlessEmpty(task.meta)],
    ["queue", task.queueName],
    ["group", task.groupKey ?? ""],
    ["priority", task.priority],
    ["retries", `${retryCount} of ${maxRetries}`],
    ["generation", task.generationId],
    ["request id", task.requestId ?? ""],
    ["unique key", keyOf(task)],
    ["schedule", task.scheduleName ?? ""],
    ["slot", task.slot === null ? "" : exactMoment(task.slot)],
    ["timeout", timeout === null ? "" : `${timeout} ms`],
    ...timesOf(task),
    ["worker", task.workerId ?? ""],
    ["progress", progress === null ? "" : progressText(progress, progressNote)],
    ["result", result === undefined ? "" : jsonText(result)],
  ];
}

/** Why it has not started: a sentence, then each pause and limit on a line of its own. */
function waitFacts(task: Task, { waits, waitsFor }: TaskWaits): [string, Cell][] {
  if (waits === null) return [];
  const holds = waitsFor.flatMap((hold) => holdTexts(hold, task));
  return [["why", waits], ...holds.map((text, i): [string, Cell] => [i === 0 ? "held by" : " ", text])];
}

/** A pause, a throttle and each value of a limit has a text of its own. */
function holdTexts(hold: Hold, { waitUntil }: Task): string[] {
  const { about, name, pausedAt, throttledUntil, concurrency, rate, running, nextFreeAt } = hold;
  const it = `${about === "limit" ? "shared limit" : about} ${printable(shortened(name, 80))}`;
  const each = hold.isOfEach ? ", each group" : "";
  const doubt = hold.isKnownToHold ? "" : ", if the function uses it";
  const turn = hold.hasPutOff && waitUntil ? `, has put it off until ${exactMoment(waitUntil)}` : "";
  const next = nextFreeAt === null ? "" : `, next start ${exactMoment(nextFreeAt)}`;
  return [
    pausedAt === null ? [] : [`${it}: paused since ${exactMoment(pausedAt)}`],
    throttledUntil === null ? [] : [`${it}: throttled until ${exactMoment(throttledUntil)}`],
    concurrency === null ? [] : [`${it}: ${running} of ${concurrency} at once${each}${doubt}`],
    rate === null ? [] : [`${it}: rate ${rateText(rate)}${each}${turn}${next}${doubt}`],
  ].flat();
}

/** The key, and until when it is taken whatever becomes of the task. */
function keyOf({ uniqueKey, uniqueUntil }: Task): string {
  if (uniqueKey === null) return "";
  return uniqueUntil === null ? uniqueKey : `${uniqueKey}, taken until ${exactMoment(uniqueUntil)}`;
}

function timesOf({
  createdAt,
  updatedAt,
  waitUntil,
  expiresAt,
  startedAt,
  finishedAt,
}: Task): [string, Cell][] {
  const times = {
    created: createdAt,
    "not before": waitUntil,
    ...(startedAt ? {} : { expires: expiresAt }),
    started: startedAt,
    finished: finishedAt,
  };
  const entries = Object.entries({ ...times, updated: updatedAt });
  return entries.map(([name, time]) => [name, time ? exactMoment(time) : ""]);
}

function jsonUnlessEmpty(value: object): string {
  const json = jsonText(value);
  return json === "{}" ? "" : json;
}

function attemptRow({ outcome, startedAt, endedAt }: Attempt, i: number): Cell[] {
  const started = startedAt === null ? "" : exactMoment(startedAt);
  return [i + 1, { text: outcome, color: "yellow" }, started, exactMoment(endedAt)];
}
