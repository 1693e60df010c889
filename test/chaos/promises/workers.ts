/** What is promised of workers: that the living are known, the dead are found, and nobody is taken for what he is not. */
import type { Move } from "../audit.ts";
import { endsAttempt, isClaim, isRefund, key, keyOfEnded, type Promises, processOf } from "./finder.ts";

/** Milliseconds by which two looks at a clock may differ for having been rounded. */
const rounding = 10;

export const workers: Promises = {
  "nothing runs without a living worker": ({ tasks, workers }, { living = [] }) => {
    const alive = new Set(living);
    return [
      ...tasks.filter(({ status, worker }) => status === "running" && !alive.has(worker ?? "")),
      ...workers.filter((id) => !alive.has(id)),
    ];
  },

  "only a worker that has a row claims": ({ moves }) =>
    moves.filter((move) => isClaim(move) && move.registered !== 1),

  "a worker that registers has no task yet": ({ workerMoves }) =>
    workerMoves.filter(({ came, holds }) => came === 1 && holds > 0),

  "nobody is taken for dead who has beaten within his lease": ({ workerMoves }, { mayDie = () => true }) =>
    workerMoves.filter(
      ({ worker, came, holds, silent, lease }) =>
        came === 0 && holds > 0 && silent < lease - rounding && !mayDie(worker),
    ),

  "only a worker that stops hands back uncharged": ({ entries, moves, ahead }, { unanswered = false }) => {
    const told = (word: string) =>
      new Map(entries.filter(({ what }) => what === word).map(({ pid, at }) => [pid, at]));
    // Of a process that does not tell when it begins, it is not known when it stops.
    const [begun, stopping] = [told("begun"), told("stopping")];
    const started = new Set(entries.filter(({ what }) => what === "start").map(key));
    const mayBe = (move: Move) => (unanswered || ahead) && !started.has(keyOfEnded(move));
    return moves.filter((move) => {
      const by = processOf(move.worker);
      const early = begun.has(by) && move.at < (stopping.get(by) ?? Number.POSITIVE_INFINITY);
      return endsAttempt(move) && move.status === "pending" && isRefund(move) && early && !mayBe(move);
    });
  },

  "no process ended by itself, and none was refused": ({ entries }, { allowed = () => false }) =>
    entries.filter((entry) => ["error", "refused", "died"].includes(entry.what) && !allowed(entry)),

  "the database is whole": ({ integrity }) => (integrity === "ok" ? [] : [integrity]),

  "the write-ahead log is within bounds": ({ wal }, { wal: most = 64 * 2 ** 20 }) =>
    wal <= most ? [] : [`${wal} bytes`],
};
