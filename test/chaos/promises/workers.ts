/**
 * The promises about workers: live workers keep their tasks, dead ones are found, and each holds only what it claimed.
 */
import type { Move } from "../audit.ts";
import { endsAttempt, isClaim, isRefund, key, keyOfEnded, type Promises, processOf } from "./finder.ts";

/** Milliseconds by which two times may differ because of rounding. */
const rounding = 10;

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

  "no worker is rescued within its lease": ({ workerMoves }, { mayDie = () => true }) =>
    workerMoves.filter(
      ({ worker, came, holds, silent, lease }) =>
        came === 0 && holds > 0 && silent < lease - rounding && !mayDie(worker),
    ),

  "only a stopping worker hands back uncharged": ({ entries, moves, ahead }, { unanswered, beforeTurn }) => {
    const timesOf = (word: string) =>
      new Map(entries.filter(({ what }) => what === word).map(({ pid, at }) => [pid, at]));
    // A process that does not log its beginning does not log its stop either.
    const [begun, stopping] = [timesOf("begun"), timesOf("stopping")];
    const started = new Set(entries.filter(({ what }) => what === "start").map(key));
    const mayBe = (move: Move) => (unanswered || beforeTurn || ahead) && !started.has(keyOfEnded(move));
    return moves.filter((move) => {
      const by = processOf(move.worker);
      const early = begun.has(by) && move.at < (stopping.get(by) ?? Number.POSITIVE_INFINITY);
      return endsAttempt(move) && move.status === "pending" && isRefund(move) && early && !mayBe(move);
    });
  },

  "no process dies, fails or is refused": ({ entries }, { allowed = () => false }) =>
    entries.filter((entry) => ["error", "refused", "died"].includes(entry.what) && !allowed(entry)),

  "the database is intact": ({ integrity }) => (integrity === "ok" ? [] : [integrity]),

  "the write-ahead log is within bounds": ({ wal }, { wal: most = 64 * 2 ** 20 }) =>
    wal <= most ? [] : [`${wal} bytes`],
};
