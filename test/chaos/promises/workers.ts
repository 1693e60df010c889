/**
 * The promises about workers: live workers keep their tasks, dead ones are found, and each holds only what it claimed.
 */
import type { Entry } from "../../fixtures/event-log.ts";
import type { Move } from "../audit.ts";
import { endsAttempt, isClaim, isRefund, key, keyOfEnded, type Promises, processOf } from "./finder.ts";

/** Milliseconds by which two times may differ because of rounding. */
const rounding = 10;

/** Whether something happened to a worker before its process began to stop it. */
function beforeStop(entries: readonly Entry[]): (what: { worker: string | null; at: number }) => boolean {
  const timesOf = (word: string) =>
    new Map(entries.filter(({ what }) => what === word).map(({ pid, at }) => [pid, at]));
  // A process that does not log its beginning does not log its stop either.
  const [begun, stopping] = [timesOf("begun"), timesOf("stopping")];
  return ({ worker, at }) => {
    const by = processOf(worker);
    return begun.has(by) && at < (stopping.get(by) ?? Number.POSITIVE_INFINITY);
  };
}

export const workers: Promises = {
  "nothing runs without a live worker": ({ tasks, workers }, { living = [] }) => {
    const alive = new Set(living);
    return [
      ...tasks.filter(({ status, worker }) => status === "running" && !alive.has(worker ?? "")),
      ...workers.filter((id) => !alive.has(id)),
    ];
  },

  "only a registered worker claims": ({ moves }) =>
    moves.filter((move) => isClaim(move) && move.registered !== 1),

  "a worker holds no task when it registers": ({ workerMoves }) =>
    workerMoves.filter(({ came, holds }) => came === 1 && holds > 0),

  "no worker is rescued within its lease": ({ entries, workerMoves }, { mayDie = () => true }) => {
    const isEarly = beforeStop(entries);
    return workerMoves.filter(
      (move) =>
        move.came === 0 &&
        move.silent < move.lease - rounding &&
        isEarly(move) &&
        !mayDie(move.worker, move.at),
    );
  },

  "only a stopping worker hands back uncharged": ({ entries, moves, ahead }, { unanswered, beforeTurn }) => {
    const isEarly = beforeStop(entries);
    const started = new Set(entries.filter(({ what }) => what === "start").map(key));
    const mayBe = (move: Move) => (unanswered || beforeTurn || ahead) && !started.has(keyOfEnded(move));
    return moves.filter(
      (move) =>
        endsAttempt(move) && move.status === "pending" && isRefund(move) && isEarly(move) && !mayBe(move),
    );
  },

  "no process dies, fails or is refused": ({ entries }, { allowed = () => false }) =>
    entries.filter((entry) => ["error", "refused", "died"].includes(entry.what) && !allowed(entry)),

  "the database is intact": ({ integrity }) => (integrity === "ok" ? [] : [integrity]),

  "the write-ahead log is within bounds": ({ wal }, { wal: most = 64 * 2 ** 20 }) =>
    wal <= most ? [] : [`${wal} bytes`],
};
