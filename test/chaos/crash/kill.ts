/** Kills at points, and the judgement of what each has left: as it was found, and as it has healed. */
import { copyFileSync, cpSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Point } from "../../fixtures/crash.ts";
import { Ledger } from "../../fixtures/ledger.ts";
import { demand } from "../checker.ts";
import { type History, historyOf } from "../history.ts";
import { type Course, deletedBy, filesIn } from "./course.ts";
import { crash } from "./crash.ts";
import { heal } from "./heal.ts";
import { difference, isSame, type State, stateOf } from "./state.ts";

/** One point that a process is killed at. */
export interface Kill {
  course: Course;
  at: number;
}

const folderOf = ({ course, at }: Kill) => join(course.folder, `killed-${at}`);

const whole = JSON.stringify([{ integrity_check: "ok" }]);

/** Kills one process at all of these points. @throws unless it dies by that */
export async function killAt(kills: readonly Kill[]): Promise<void> {
  const jobs = kills.map((kill) => {
    const folder = folderOf(kill);
    cpSync(kill.course.prepared, folder, { recursive: true });
    return { ...filesIn(folder), operation: kill.course.operation.name, at: kill.at };
  });
  const { how, output } = await crash(jobs);
  if (how !== "SIGKILL") throw new Error(`a process that was to be killed ended with ${how}\n${output}`);
}

/** Whether the kill came before the end: not so always with what varies. @throws what was broken by it */
export async function survives(kill: Kill): Promise<boolean> {
  const { operation, points } = kill.course;
  const folder = folderOf(kill);
  const { name, state } = points[kill.at] as Point;
  try {
    const files = filesIn(folder);
    const ledger = new Ledger(files.ledger);
    const spared = ledger.entries("spared").length > 0;
    const varies = operation.commits === undefined;
    if (spared && !varies) throw new Error("it did not come to this point");
    const found = look(folder);
    if (!varies && !isSame(found, state))
      throw new Error(`another process saw something else before:\n${difference(found, state)}`);
    await heal(files);
    judge(deletedBy(kill.course.points), found, await historyOf({ ...files, ledger }));
    rmSync(folder, { recursive: true });
    return !spared;
  } catch (error) {
    const where = `${operation.name}, point ${kill.at} of ${points.length} (${name}), in ${folder}`;
    throw new Error(where, { cause: error });
  }
}

/** What was found, in a copy: whoever heals recovers the files as the killed process has left them. */
function look(folder: string): State {
  const copy = join(folder, "found");
  mkdirSync(copy);
  for (const file of ["dbq.db", "dbq.db-wal", "dbq.db-journal"])
    if (existsSync(join(folder, file))) copyFileSync(join(folder, file), join(copy, file));
  const state = stateOf(filesIn(copy).database);
  const { integrity } = state;
  if (integrity !== undefined && JSON.stringify(integrity) !== whole)
    throw new Error(`it was left broken: ${JSON.stringify(integrity)}`);
  return state;
}

/** `found`: what was there before it healed. @throws what was broken */
export function judge(deleted: ReadonlySet<number>, found: State, history: History): void {
  demand(withoutDeleted(history, deleted), { mayBeDeleted: (task) => deleted.has(task) });
  const [due, charged] = [attemptsCutOff(found), crashesSince(found, history)].map(String);
  if (due !== charged) throw new Error(`crashes were charged to ${charged}, and were due to ${due}`);
}

/** Of what was deleted as it was to be, no attempts are left, which other tasks must have. */
function withoutDeleted(history: History, deleted: ReadonlySet<number>): History {
  const there = new Set(history.tasks.map(({ id }) => id));
  const isLeft = ({ task = 0 }) => there.has(task) || !deleted.has(task);
  return { ...history, moves: history.moves.filter(isLeft), entries: history.entries.filter(isLeft) };
}

/** What ran when the process was killed: nobody of those who ran it was alive. */
function attemptsCutOff({ dbq_tasks: tasks = [] }: State): string[] {
  return tasks
    .filter(({ status }) => status === "running")
    .map(({ id, generation_id }) => `${String(id)}:${String(generation_id)}`)
    .sort();
}

function crashesSince({ dbq_attempts: before = [] }: State, { attempts }: History): string[] {
  const known = new Set(before.map((row) => `${String(row.task_id)}:${String(row.generation_id)}`));
  return attempts
    .filter(({ outcome }) => outcome === "crashed")
    .map(({ task, generation }) => `${task}:${generation}`)
    .filter((attempt) => !known.has(attempt))
    .sort();
}
