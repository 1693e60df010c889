/** The promises about a task's states and its outcome. */
import type { Move } from "../audit.ts";
import { endsAttempt, isCharged, isFinish, isReset, key, type Promises, repeated } from "./finder.ts";

/** The allowed next statuses. Only an operator moves a finished task. */
const allowedMoves: Readonly<Record<string, readonly string[]>> = {
  pending: ["running", "cancelled"],
  scheduled: ["pending", "cancelled"],
  running: ["completed", "failed", "cancelled", "scheduled", "pending", "waiting"],
  waiting: ["pending", "scheduled", "cancelled"],
  completed: ["pending"],
  failed: ["pending"],
  cancelled: ["pending"],
};

const waits = (status: string) => status === "pending" || status === "scheduled";

/** A rate puts a pending task off to its turn. */
const isPutOff = ({ wasStatus, status, putOff }: Move) =>
  wasStatus === "pending" && status === "scheduled" && (putOff ?? null) !== null;

/** What a worker reports, and the change of the row that it stands for. */
const reportedChanges: Readonly<Record<string, string>> = {
  completed: "completed",
  failed: "failed",
  cancelled: "cancelled",
  retrying: "scheduled, charged",
  snoozed: "scheduled",
  interrupted: "pending",
};

/** The transaction that enqueues a chain makes its later tasks wait, before anybody else sees them. */
const isHeldBack = ({ wasStatus, status }: Move) => wasStatus === "pending" && status === "waiting";

const outcomeOf = (move: Move) => `${move.status}${isCharged(move) ? ", charged" : ""}`;

export const moves: Promises = {
  "each state change adds one to the generation": ({ moves }) =>
    moves.filter((move) => {
      const { wasGeneration, generation } = move;
      if (wasGeneration === null || generation === null) return false;
      return generation !== wasGeneration + (isHeldBack(move) ? 0 : 1);
    }),

  "a task only makes allowed changes of state": ({ moves }) => {
    const started = new Set<number>();
    return moves.filter((move) => {
      const { task, wasStatus, status } = move;
      if (isReset(move)) started.delete(task);
      if (wasStatus === null || status === null || allowedMoves[wasStatus]?.includes(status)) {
        if (status === "running") started.add(task);
        return false;
      }
      if (isPutOff(move) || isHeldBack(move)) return false;
      // Another enqueue with its key replaced it: no worker has claimed it yet.
      return started.has(task) || !waits(wasStatus) || !waits(status);
    });
  },

  "at most one outcome is accepted": ({ moves }) => {
    const left = new Map<number, number>();
    return moves.filter((move) => {
      const before = left.get(move.task) ?? 1;
      left.set(move.task, before + (isReset(move) ? 1 : 0) - (isFinish(move) ? 1 : 0));
      return isFinish(move) && before < 1;
    });
  },

  "a worker reports only accepted outcomes": ({ entries, moves }) => {
    // A worker reports the task with the generation that the outcome has given it.
    const accepted = new Set(moves.filter(endsAttempt).map((move) => `${outcomeOf(move)} ${key(move)}`));
    return entries.filter((entry) => {
      const outcome = reportedChanges[entry.what];
      return outcome !== undefined && !accepted.has(`${outcome} ${key(entry)}`);
    });
  },

  "a worker reports an outcome once": ({ entries }) =>
    repeated(entries.filter(({ what }) => reportedChanges[what] !== undefined)),

  "a handler's write in the transaction of its completion happens once": ({ effects, tasks }) => {
    const within = new Set(tasks.filter(({ result }) => result === '"within"').map(({ id }) => id));
    const done = effects.map((task) => ({ task }));
    const doneOnce = new Set(effects);
    return [
      ...repeated(done),
      ...done.filter(({ task }) => !within.has(task)),
      ...[...within].filter((id) => !doneOnce.has(id)).map((task) => ({ task })),
    ];
  },

  "a failed task has an error, and a completed one has none": ({ tasks }) =>
    tasks.filter(
      ({ status, error }) =>
        (status === "failed" && error === null) || (status === "completed" && error !== null),
    ),
};
