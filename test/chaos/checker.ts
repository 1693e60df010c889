/**
 * The one judge of all chaos tests: given what has happened, what the processes say, and what is there in the end, it
 * says which promises were broken. It knows nothing of how a scenario came about.
 */
import type { Entry } from "../fixtures/ledger.ts";
import type { History, TaskRow } from "./history.ts";
import { attempts } from "./promises/attempts.ts";
import { enqueues } from "./promises/enqueues.ts";
import type { Expected, Promises } from "./promises/finder.ts";
import { moves } from "./promises/moves.ts";
import { workers } from "./promises/workers.ts";

export type { Expected } from "./promises/finder.ts";

/** A promise that was broken, and the first cases of it. */
export interface Violation {
  promise: string;
  cases: string[];
  count: number;
}

const promises: Promises = { ...enqueues, ...moves, ...attempts, ...workers };

/** The names of all promises, in the order in which they are looked at. */
export const promiseNames = Object.keys(promises);

/** The promises that were broken; none, when all is well. */
export function judge(history: History, expected: Expected = {}): Violation[] {
  return Object.entries(promises).flatMap(([promise, find]) => {
    const cases = find(history, expected);
    const shown = cases.slice(0, 5).map((found) => `${JSON.stringify(found)}${storyOf(history, found)}`);
    return cases.length === 0 ? [] : [{ promise, cases: shown, count: cases.length }];
  });
}

/** All that happened to the task that a case is about. */
function storyOf({ moves, entries }: History, found: unknown): string {
  const { task, id } = (typeof found === "object" ? (found ?? {}) : {}) as Partial<TaskRow & Entry>;
  const about = task ?? id;
  if (about === undefined) return "";
  const moved = moves.filter((move) => move.task === about).map((move) => ({ at: move.at, move }));
  const told = entries.filter((entry) => entry.task === about).map((entry) => ({ at: entry.at, entry }));
  const story = [...moved, ...told].sort((a, b) => a.at - b.at);
  return `\n${story.map((event) => `      ${JSON.stringify(event)}`).join("\n")}`;
}

/** @throws an error that names each broken promise, with its first cases and their tasks' stories */
export function demand(history: History, expected?: Expected): void {
  const broken = judge(history, expected);
  if (broken.length === 0) return;
  const told = broken.map(
    ({ promise, cases, count }) => `  ${promise}: not so in ${count} cases\n    ${cases.join("\n    ")}`,
  );
  throw new Error(`broken promises:\n${told.join("\n")}`);
}
