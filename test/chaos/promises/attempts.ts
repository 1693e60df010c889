/** The promises about attempts: each is claimed, started once, and recorded and charged as it ended. */
import {
  endsAttempt,
  isCharged,
  isClaim,
  isRefund,
  isReset,
  key,
  keyOfEnded,
  type Promises,
  processOf,
  repeated,
} from "./finder.ts";

export const attempts: Promises = {
  "no generation of a task starts twice": ({ entries }) =>
    repeated(entries.filter(({ what }) => what === "start")),

  "a worker starts only tasks that it claimed": ({ entries, moves }) => {
    const claimed = new Set(moves.filter(isClaim).map((move) => `${key(move)} ${processOf(move.worker)}`));
    return entries.filter((entry) => entry.what === "start" && !claimed.has(`${key(entry)} ${entry.pid}`));
  },

  "only a started attempt completes": ({ entries, moves }) => {
    const started = new Set(entries.filter(({ what }) => what === "start").map(key));
    return moves.filter((move) => move.status === "completed" && !started.has(keyOfEnded(move)));
  },

  "an attempt is recorded unless it completed or was handed back": ({ moves, attempts }) => {
    const recorded = new Set(attempts.map(key));
    return moves.filter((move) => {
      if (!endsAttempt(move) || move.status === null) return false;
      return recorded.has(keyOfEnded(move)) === (move.status === "completed" || isRefund(move));
    });
  },

  "a recorded attempt has ended as recorded": ({ moves, attempts }) => {
    const ended = new Map(moves.filter(endsAttempt).map((move) => [keyOfEnded(move), move.status]));
    return attempts.filter((attempt) => {
      const status = ended.get(key(attempt));
      return status === undefined || (status === "cancelled") !== (attempt.outcome === "cancelled");
    });
  },

  "no attempt is recorded twice": ({ attempts }) => repeated(attempts),

  // Above all, an error of a busy database must not reach a handler.
  "no attempt fails unless planned": ({ attempts }, { mayFail = () => false }) =>
    attempts.filter(
      (attempt) =>
        ["failed", "timeout"].includes(attempt.outcome) &&
        attempt.error !== "as planned" &&
        !mayFail(attempt),
    ),

  "the retry count is the number of charged attempts, within the limit": ({ moves, tasks }) => {
    const charged = new Map<number, number>();
    for (const move of moves) {
      if (isCharged(move)) charged.set(move.task, (charged.get(move.task) ?? 0) + 1);
      if (isReset(move)) charged.delete(move.task);
    }
    return tasks.filter(
      ({ id, retries, maxRetries }) => retries !== (charged.get(id) ?? 0) || retries > maxRetries,
    );
  },

  "only a crashed or failed attempt is charged": ({ moves }) =>
    moves.filter((move) => isCharged(move) && !endsAttempt(move)),
};
