/** What is promised of each task's way through its statuses, and of its outcome. */
import type { Move } from "../audit.ts";
import { endsAttempt, isCharged, isFinish, isReset, key, type Promises, repeated } from "./finder.ts";

/** From each status, where a task may go. A finished one goes on only when an operator says so. */
const allowedMoves: Readonly<Record<string, readonly string[]>> = {
  pending: ["running", "cancelled"],
  scheduled: ["pending", "cancelled"],
  running: ["completed", "failed", "cancelled", "scheduled", "pending"],
  completed: ["pending"],
  failed: ["pending"],
  cancelled: ["pending"],
};

/** What a worker tells of, and what has happened to the row then. */
const told: Readonly<Record<string, string>> = {
  completed: "completed",
  failed: "failed",
  cancelled: "cancelled",
  retrying: "scheduled, charged",
  snoozed: "scheduled",
  interrupted: "pending",
};

const outcomeOf = (move: Move) => `${move.status}${isCharged(move) ? ", charged" : ""}`;

export const moves: Promises = {
  "each state change adds one to the generation": ({ moves }) =>
    moves.filter(
      ({ wasGeneration, generation }) =>
        wasGeneration !== null && generation !== null && generation !== wasGeneration + 1,
    ),

  "a task moves only as it may": ({ moves }) =>
    moves.filter(
      ({ wasStatus, status }) =>
        wasStatus !== null && status !== null && !allowedMoves[wasStatus]?.includes(status),
    ),

  "at most one outcome is accepted": ({ moves }) => {
    const left = new Map<number, number>();
    return moves.filter((move) => {
      const before = left.get(move.task) ?? 1;
      left.set(move.task, before + (isReset(move) ? 1 : 0) - (isFinish(move) ? 1 : 0));
      return isFinish(move) && before < 1;
    });
  },

  "an outcome that a worker tells of was accepted": ({ entries, moves }) => {
    // What it tells of is the task as it is then: of the generation that the outcome has given it.
    const accepted = new Set(moves.filter(endsAttempt).map((move) => `${outcomeOf(move)} ${key(move)}`));
    return entries.filter((entry) => {
      const outcome = told[entry.what];
      return outcome !== undefined && !accepted.has(`${outcome} ${key(entry)}`);
    });
  },

  "an outcome is told of once": ({ entries }) =>
    repeated(entries.filter(({ what }) => told[what] !== undefined)),

  "what a handler does in the transaction of its completion is done once": ({ effects, tasks }) => {
    const within = new Set(tasks.filter(({ result }) => result === '"within"').map(({ id }) => id));
    const done = effects.map((task) => ({ task }));
    const doneOnce = new Set(effects);
    return [
      ...repeated(done),
      ...done.filter(({ task }) => !within.has(task)),
      ...[...within].filter((id) => !doneOnce.has(id)).map((task) => ({ task })),
    ];
  },

  "a task that failed has a reason, and one that completed has none": ({ tasks }) =>
    tasks.filter(
      ({ status, error }) =>
        (status === "failed" && error === null) || (status === "completed" && error !== null),
    ),
};
