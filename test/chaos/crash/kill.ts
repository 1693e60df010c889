/** Kills processes at their points and judges what they leave, before and after healing. */
import { copyFileSync, cpSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Point } from "../../fixtures/crash.ts";
import { EventLog } from "../../fixtures/event-log.ts";
import { demand } from "../checker.ts";
import { type History, historyOf } from "../history.ts";
import { crash } from "./crash.ts";
import { heal } from "./heal.ts";
import { difference, isSame, type State, stateOf } from "./state.ts";
import { deletedBy, filesIn, type Trace } from "./trace.ts";

/** One point at which a process is killed. */
export interface Kill {
  trace: Trace;
  at: number;
}

const folderOf = ({ trace, at }: Kill) => join(trace.folder, `killed-${at}`);

const whole = JSON.stringify([{ integrity_check: "ok" }]);

/** Kills one process at all of these points, in turn. @throws Error unless it dies by the kill */
export async function killAt(kills: readonly Kill[]): Promise<void> {
  const jobs = kills.map((kill) => {
    const folder = folderOf(kill);
    cpSync(kill.trace.prepared, folder, { recursive: true });
    return { ...filesIn(folder), operation: kill.trace.operation.name, at: kill.at };
  });
  const { how, output } = await crash(jobs);
  if (how !== "SIGKILL") throw new Error(`a process that was to be killed ended with ${how}\n${output}`);
}

/**
 * Whether the kill came before the end; an operation that varies may end earlier. @throws Error for a broken promise
 */
export async function survives(kill: Kill): Promise<boolean> {
  const { operation, points } = kill.trace;
  const folder = folderOf(kill);
  const { name, state } = points[kill.at] as Point;
  try {
    const files = filesIn(folder);
    const eventLog = new EventLog(files.eventLog);
    const spared = eventLog.entries("spared").length > 0;
    const varies = operation.commits === undefined;
    if (spared && !varies) throw new Error("the operation did not reach this point");
    const found = look(folder);
    if (!varies && !isSame(found, state))
      throw new Error(`the trace saw another state at this point:\n${difference(found, state)}`);
    await heal(files);
    judge(deletedBy(kill.trace.points), found, await historyOf({ ...files, eventLog }));
    await operation.healed?.(files);
    rmSync(folder, { recursive: true });
    return !spared;
  } catch (error) {
    const where = `${operation.name}, point ${kill.at} of ${points.length} (${name}), in ${folder}`;
    throw new Error(where, { cause: error });
  }
}

/** Reads the state from a copy: the healing process must recover the files as the killed process left them. */
function look(folder: string): State {
  const copy = join(folder, "found");
  mkdirSync(copy);
  for (const file of ["dbq.db", "dbq.db-wal", "dbq.db-journal"])
    if (existsSync(join(folder, file))) copyFileSync(join(folder, file), join(copy, file));
  const state = stateOf(filesIn(copy).database);
  const { integrity } = state;
  if (integrity !== undefined && JSON.stringify(integrity) !== whole)
    throw new Error(`the database is damaged: ${JSON.stringify(integrity)}`);
  return state;
}

/** `found`: the state before healing. @throws Error for a broken promise */
export function judge(deleted: ReadonlySet<number>, found: State, history: History): void {
  demand(withoutDeleted(history, deleted), { mayBeDeleted: (task) => deleted.has(task) });
  const [due, charged] = [attemptsCutOff(found), crashesSince(found, history)].map(String);
  if (due !== charged)
    throw new Error(`crashes were charged to ${charged}, and should have been charged to ${due}`);
}

/** Deleted tasks lose their attempts, which the checker expects of all other tasks. */
function withoutDeleted(history: History, deleted: ReadonlySet<number>): History {
  const there = new Set(history.tasks.map(({ id }) => id));
  const isLeft = ({ task = 0 }) => there.has(task) || !deleted.has(task);
  return { ...history, moves: history.moves.filter(isLeft), entries: history.entries.filter(isLeft) };
}

/** The attempts that ran when the process was killed: none of their workers was alive. */
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
