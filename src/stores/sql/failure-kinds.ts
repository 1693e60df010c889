/** The kinds of failures that are stored when attempts and tasks end, for `Transitions`: nobody else asks for them. */
import { failureKindOf, failureKindOfTask } from "../../base/values/failure-kind.ts";
import { errorOf } from "../../base/values/records.ts";
import type { Attempted, Ending } from "./endings.ts";
import { type Program, rows } from "./program.ts";
import { int } from "./rows.ts";
import type { Statements } from "./statements.ts";

type FuncOf = (task: Attempted) => string;

/** The functions of tasks. Those that nobody has named are looked up: it happens where the database has refused an outcome. */
export function* functionsOf(s: Statements, tasks: readonly Attempted[]): Program<FuncOf> {
  const unknown = tasks.filter(({ func }) => func === undefined).map(({ id }) => id);
  const found = unknown.length > 0 ? yield* rows(s.functions, { ids: JSON.stringify(unknown) }) : [];
  const funcs = new Map(found.map(([id, func]) => [int(id), String(func)]));
  return ({ id, func }) => func ?? funcs.get(id) ?? "";
}

/** For the row of an attempt; null: it did not fail. */
export function attemptKind(task: Attempted, funcOf: FuncOf): string | null {
  if (task.failure !== undefined) return task.failure;
  return (task.attempt && failureKindOf(funcOf(task), task.attempt)?.id) ?? null;
}

/** For the row of a task. An end that was held up has no attempt of its own: it has the error of the attempt that it began with. */
export function taskKind(ending: Ending, funcOf: FuncOf): string | null {
  if (ending.kind !== "failed") return null;
  if (ending.attempt || ending.failure !== undefined) return attemptKind(ending, funcOf);
  return failureKindOfTask(funcOf(ending), errorOf(ending.error)).id;
}
