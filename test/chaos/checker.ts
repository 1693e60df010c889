/**
 * The checker of all chaos tests. From the audit, the event log and the final content of the database it tells which
 * promises were broken. It does not know the scenario.
 */
import type { Entry } from "../fixtures/event-log.ts";
import type { History, TaskRow } from "./history.ts";
import { attempts } from "./promises/attempts.ts";
import { enqueues } from "./promises/enqueues.ts";
import type { Expected, Promises } from "./promises/finder.ts";
import { moves } from "./promises/moves.ts";
import { workers } from "./promises/workers.ts";

export type { Expected } from "./promises/finder.ts";

/** A broken promise, and the first cases of it. */
export interface Violation {
  promise: string;
  cases: string[];
  count: number;
}

const promises: Promises = { ...enqueues, ...moves, ...attempts, ...workers };

/** The names of all promises, in the order in which they are checked. */
export const promiseNames = Object.keys(promises);

/** The broken promises; none when the history is correct. */
export function judge(history: History, expected: Expected = {}): Violation[] {
  return Object.entries(promises).flatMap(([promise, find]) => {
    const cases = find(history, expected);
    const shown = cases.slice(0, 5).map((found) => `${JSON.stringify(found)}${storyOf(history, found)}`);
    return cases.length === 0 ? [] : [{ promise, cases: shown, count: cases.length }];
  });
}

/** All events of the task that a case is about. */
function storyOf({ moves, entries }: History, found: unknown): string {
  const { task, id } = (typeof found === "object" ? (found ?? {}) : {}) as Partial<TaskRow & Entry>;
  const about = task ?? id;
  if (about === undefined) return "";
  const moved = moves.filter((move) => move.task === about).map((move) => ({ at: move.at, move }));
  const logged = entries.filter((entry) => entry.task === about).map((entry) => ({ at: entry.at, entry }));
  const story = [...moved, ...logged].sort((a, b) => a.at - b.at);
  return `\n${story.map((event) => `      ${JSON.stringify(event)}`).join("\n")}`;
}

/** @throws Error that names each broken promise, with its first cases and the events of their tasks */
export function demand(history: History, expected?: Expected): void {
  const broken = judge(history, expected);
  if (broken.length === 0) return;
  const lines = broken.map(
    ({ promise, cases, count }) => `  ${promise}: violated in ${count} cases\n    ${cases.join("\n    ")}`,
  );
  throw new Error(`broken promises:\n${lines.join("\n")}`);
}
