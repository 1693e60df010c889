/** Prints what a workflow has done and waits for: its steps, its waits and its children. */
import type { NamedTask, Run, RunStep, RunWait, Task, TaskPlace } from "../../index.ts";
import { statusCell } from "./commands/list.ts";
import { type Cell, line, table } from "./output.ts";
import { errorText } from "./task-events.ts";
import { exactMoment, jsonText, shortened, span } from "./text.ts";

/** Characters of a step's value; and on a terminal, which cuts only the last column to its width, where the undos stand beside it. */
const longestValue = { usual: 200, besideUndos: 40 };
/** Waits of one task that are named. */
const mostNamed = 5;

/** Whether there is more to say of it than of a task that is no workflow. */
const isWorkflow = ({ steps, waits, children, more }: Run): boolean =>
  more || steps.length + waits.length + children.length > 0;

/** For `--json`: a task that is no workflow adds nothing. */
export function runRecord(run: Run): { run?: Omit<Run, "task"> } {
  const { task: _, ...rest } = run;
  return isWorkflow(run) ? { run: rest } : {};
}

/** For `--json`: the record has the ids of the parent and of the root. */
export function placeRecord({ memberOf, runsAfter }: TaskPlace): { groupId?: number } {
  const groupId = memberOf ?? runsAfter;
  return groupId === null ? {} : { groupId };
}

/** Where the task stands in its workflow. */
export function placeFacts({ parent, root, memberOf, runsAfter, next }: TaskPlace): [string, Cell][] {
  return [
    ["parent", taskText(parent)],
    ["member of", groupText(memberOf)],
    ["runs after", groupText(runsAfter)],
    ["then", taskText(next)],
    ["root", taskText(root)],
  ];
}

const groupText = (id: number | null): string => (id === null ? "" : `group ${id}`);

function taskText(task: NamedTask | null): string {
  if (task === null) return "";
  return task.func === null ? `task ${task.id}, which was deleted` : `task ${task.id} ${task.func}`;
}

/** What the task waits for, each on a line of its own. */
export function awaitedFacts({ waits }: Run): [string, Cell][] {
  return awaitedTexts(waits).map((text, i) => [i === 0 ? "waits for" : " ", text]);
}

function awaitedTexts(waits: readonly RunWait[]): string[] {
  const named = waits.slice(0, mostNamed).map(awaitedText);
  return waits.length > mostNamed ? [...named, "and others"] : named;
}

/** A wait of a task that has just begun to wait. */
export interface NamedWait extends Pick<RunWait, "kind" | "target"> {
  /** Of its step. */
  name: string;
}

/** What a task waits for, on one line. */
export function waitsText(waits: readonly NamedWait[]): string {
  const named = waits.slice(0, mostNamed).map(({ kind, target, name }) => {
    if (kind === "time") return `the time of ${shortened(name, 80)}`;
    return awaitedText({ kind, target, deadline: null });
  });
  return `for ${named.join(", ")}${waits.length > mostNamed ? " and others" : ""}`;
}

function awaitedText({ kind, target, deadline }: RunWait): string {
  const time = deadline === null ? "" : exactMoment(deadline);
  if (kind === "time") return time;
  const name = kind === "child" ? `task ${target}` : `event ${shortened(target ?? "", 80)}`;
  return time === "" ? name : `${name} until ${time}`;
}

/** @param hidesSteps whether the values and errors of its steps are left out */
export function printRun(run: Run, hidesSteps: boolean): void {
  const { task, steps, children, more } = run;
  if (steps.length > 0) {
    line("");
    const areUndone = steps.some((step) => undoText(task, step) !== "");
    const longest = areUndone && process.stdout.columns ? longestValue.besideUndos : longestValue.usual;
    const rows = steps.map((step) => [
      ...stepRow(step, hidesSteps ? "" : outcomeOf(step, longest)),
      ...(areUndone ? [undoText(task, step)] : []),
    ]);
    table(["STEP", "TOOK", "VALUE", ...(areUndone ? ["UNDO"] : [])], rows);
  }
  if (children.length > 0) {
    line("");
    line({ text: "CHILDREN", color: "dim" });
    for (const child of children) printTree(child, "");
  }
  if (more) {
    line("");
    line(`task ${task.id} has ${leftOutText(run)} than these`);
  }
}

function stepRow({ name, startedAt, endedAt }: RunStep, outcome: string): Cell[] {
  const took = startedAt === null ? "" : span(endedAt.getTime() - startedAt.getTime());
  return [shortened(name, 60), took, outcome];
}

/** Only a wait has no start. An event gives it a value; without one, it was a sleep, or the event did not come in time. */
function outcomeOf({ value, error, startedAt, cut }: RunStep, longest: number): string {
  if (error !== null) return `failed: ${errorText(error, longest)}`;
  if (value === undefined) return startedAt === null ? "its time was over" : "";
  return shortened(cut ? String(value) : jsonText(value), longest);
}

/** Of a task that has completed, nothing is undone any more: an undo that is still wanted is none. */
function undoText({ status }: Task, { undo, undoError }: RunStep): string {
  if (undo === undefined || (status === "completed" && undo === "wanted")) return "";
  return undoError === undefined ? undo : `${undo}: ${errorText(undoError)}`;
}

/** How many steps were not undone of a task that has ended, and what runs their undos again. */
export function notUndoneText({ id, status, error }: Task): string {
  const count = error?.undo?.filter((undo) => undo.status !== "done").length ?? 0;
  if (status !== "failed" || count === 0) return "";
  const [steps, undos] = count === 1 ? ["step", "its undo"] : ["steps", "their undos"];
  return `${count} ${steps}: dbq retry ${id} --undo runs ${undos} again`;
}

/** A task and its children, which stand two columns further to the right. */
function printTree(run: Run, indent: string): void {
  const { task, waits, children, more } = run;
  const { id, func, status } = task;
  const texts = awaitedTexts(waits).join(", ");
  const awaited = texts === "" ? "" : `${status === "waiting" ? "for" : "waits for"} ${texts}`;
  line(`${indent}${id}`, shortened(func, 60), statusCell(status), awaited);
  for (const child of children) printTree(child, `${indent}  `);
  if (more) line({ text: `${indent}  ${leftOutText(run)}: dbq show ${id}`, color: "dim" });
}

function leftOutText({ leftOut }: Run): string {
  if (!leftOut) return "more waits";
  const { steps, children } = leftOut;
  const counts = [
    ...(steps > 0 ? [`${steps} more ${steps === 1 ? "step" : "steps"}`] : []),
    ...(children > 0 ? [`${children} more ${children === 1 ? "child" : "children"}`] : []),
  ];
  return counts.join(" and ");
}
