/** The operations of a worker's turn: what has ended is settled, and claimed is as much as there are free slots. */
import type {
  ClaimRequest,
  Outcome,
  SettleAndClaim,
  SettleAndClaimResult,
  TaskVersion,
} from "../../store.ts";
import { isCrashSensitive, type TaskRecord } from "../../task.ts";
import type { Dialect } from "./dialect.ts";
import { changes, type Program, rewindCursors, rows, transaction } from "./program.ts";
import { claimable as claimableOf, probeNames } from "./queries.ts";
import { type Row, toClaimed, toTaskVersion } from "./rows.ts";
import type { Params, Statement, Statements } from "./statements.ts";
import { type Recorded, transitions } from "./transitions.ts";

/** SQLite takes 500 in one statement. */
const mostProbes = 250;

export type Pairs = readonly (readonly [queueName: string, func: string])[];

export const pairsOf = ({ queueNames, funcs }: Pick<ClaimRequest, "queueNames" | "funcs">): Pairs =>
  queueNames.flatMap((queueName) => funcs.map((func) => [queueName, func] as const));

/** The parameters of the probes of a claim. */
export function probeParams(pairs: Pairs): Record<string, unknown> {
  const params: Record<string, unknown> = {};
  for (const [n, [queueName, func]] of pairs.entries()) {
    const [queue, name] = probeNames(n);
    params[queue] = queueName;
    params[name] = func;
  }
  return params;
}

/** Leaves out the crash-sensitive tasks above the request's limit of them. */
function admit(candidates: readonly Row[], { limit, crashSensitive = limit }: ClaimRequest): Row[] {
  let left = crashSensitive;
  return candidates.filter((row) => {
    if (!isCrashSensitive({ retryCount: Number(row[9]), maxRetries: Number(row[10]) })) return true;
    left -= 1;
    return left >= 0;
  });
}

/** Of candidates. */
const byPriorityThenAge = (a: Row, b: Row) => Number(b[7]) - Number(a[7]) || Number(a[0]) - Number(b[0]);

const widestSpread = 64;

/** Wider when others were quicker with half of it or more, narrower when they were not: then priorities are kept best. */
function nextSpread(spread: number, won: number, found: number): number {
  if (found > 0 && won <= found / 2) return Math.min(spread * 4, widestSpread);
  return won === found ? Math.max(1, spread / 2) : spread;
}

/** So many of the rows, any of them, in their order. */
function chosenFrom(found: readonly Row[], count: number): Row[] {
  const left = found.map((row) => ({ row, lot: Math.random() }));
  const chosen = left.sort((a, b) => a.lot - b.lot).slice(0, count);
  return chosen.map(({ row }) => row).sort(byPriorityThenAge);
}

export function claimOperations(d: Dialect, s: Statements) {
  const claimable = claimableOf(d);
  const { record } = transitions(s);

  /** How far workers that lock nothing spread over what there is: so many times as much as each wants. */
  let spread = 1;

  /** What may be claimed now: by the time it is claimed it may be gone. */
  function* candidates(request: ClaimRequest): Program<Row[]> {
    const { limit } = request;
    const found = yield* claimableNow({ ...request, limit: limit * spread });
    return spread === 1 || found.length <= limit ? found : chosenFrom(found, limit);
  }

  function* claimableNow({ queueNames, funcs, limit }: ClaimRequest): Program<Row[]> {
    const pairs = pairsOf({ queueNames, funcs });
    const found: Row[] = [];
    for (let i = 0; i < pairs.length; i += mostProbes) {
      const some = pairs.slice(i, i + mostProbes);
      found.push(...(yield* rows(claimable(some.length), { limit, ...probeParams(some) })));
    }
    return pairs.length > mostProbes ? found.sort(byPriorityThenAge).slice(0, limit) : found;
  }

  /**
   * Of each queue and function as many as were seen, which nobody else can have. So many and no more: what a worker
   * locks and does not claim, no other worker sees.
   */
  function* lock(seen: readonly Row[]): Program<Row[]> {
    const wanted = new Map<string, { queueName: unknown; func: unknown; limit: number }>();
    for (const { 2: func, 8: queueName } of seen) {
      const key = JSON.stringify([queueName, func]);
      wanted.set(key, { queueName, func, limit: (wanted.get(key)?.limit ?? 0) + 1 });
    }
    const locked: Row[] = [];
    for (const params of wanted.values()) locked.push(...(yield* rows(s.lock, params)));
    return wanted.size > 1 ? locked.sort(byPriorityThenAge) : locked;
  }

  /** Claims those of the candidates that nobody has moved since they were read. */
  function* claim(found: readonly Row[], workerId: string, startedAt: number): Program<TaskRecord[]> {
    const won = yield* changes(
      s.claim,
      found.map((row) => ({ ...toTaskVersion(row), workerId, startedAt })),
    );
    return found.filter((_, i) => won[i]).map((row) => toClaimed(row, workerId, startedAt));
  }

  /** The change that an outcome makes, and its parameters. */
  function changeBy(outcome: Outcome): readonly [Statement, Params] {
    const { id, generationId, kind } = outcome;
    const held: TaskVersion = { id, generationId };
    switch (kind) {
      case "completed":
        return [s.complete, { ...held, result: outcome.result }];
      case "failed":
      case "cancelled":
        return [s.finish, { ...held, status: kind, result: null, error: outcome.error }];
      case "retry":
        return [
          s.release,
          { ...held, status: "scheduled", charge: 1, delay: outcome.delay, error: outcome.error },
        ];
      case "snoozed":
        return [s.release, { ...held, status: "scheduled", charge: 0, delay: outcome.delay, error: null }];
      case "interrupted":
        return [s.release, { ...held, status: "pending", charge: 0, delay: null, error: null }];
    }
  }

  /** Those that make the same change are one step; in most turns all have completed. */
  function* settle(outcomes: readonly Outcome[]): Program<boolean[]> {
    if (outcomes.every(({ kind }) => kind === "completed")) return yield* changes(s.complete, outcomes);
    const settled = outcomes.map(() => false);
    const offers = outcomes.map((outcome, at) => ({ at, change: changeBy(outcome) }));
    for (const query of new Set(offers.map(({ change }) => change[0]))) {
      const some = offers.filter(({ change }) => change[0] === query);
      const accepted = yield* changes(
        query,
        some.map(({ change }) => change[1]),
      );
      for (const [i, { at }] of some.entries()) settled[at] = accepted[i] === true;
    }
    yield* record(outcomes.filter((outcome, i) => settled[i] && "attempt" in outcome) as Recorded[]);
    if (outcomes.some(({ kind }, i) => kind === "interrupted" && settled[i])) yield* rewindCursors();
    return settled;
  }

  function* settleOne(outcome: Outcome): Program<boolean> {
    return (yield* settle([outcome]))[0] === true;
  }

  /**
   * With outcomes to settle, candidates are read in the transaction that settles them. Without, they are read first and
   * without a lock: a worker that is woken for nothing writes nothing.
   */
  function* turn(asked: SettleAndClaim): Program<SettleAndClaimResult> {
    const { outcomes, claim } = asked;
    if (outcomes.length > 0 || !claim) return yield* transaction(() => settleAndClaim(asked), true);
    const seen = yield* candidates(claim);
    if (seen.length === 0) return { settled: [], claimed: [], more: false, registered: true };
    return yield* transaction(() => settleAndClaim(asked, seen), false);
  }

  /** `seen`: candidates that were read before this transaction; without them, they are read in it. */
  function* settleAndClaim(
    { outcomes, claim: request }: SettleAndClaim,
    seen?: readonly Row[],
  ): Program<SettleAndClaimResult> {
    const settled = yield* settle(outcomes);
    const none = { settled, claimed: [], more: false, registered: true };
    if (!request) return none;
    const [worker] = yield* rows(s.worker, { workerId: request.workerId });
    if (!worker) return { ...none, registered: false };
    const read = seen ?? (yield* candidates(request));
    const found = admit(d.locks ? yield* lock(read) : read, request);
    const won = yield* claim(found, request.workerId, Number(worker[0]));
    if (d.spreads) spread = nextSpread(spread, won.length, found.length);
    const more = read.length === request.limit || won.length < read.length;
    return { ...none, claimed: won, more };
  }

  return {
    settleOne,
    turn,
    /**
     * Whether to settle and claim in two transactions: what claims without looking for locks waits for who settles the same
     * row, and would be waited for by him, had he more to claim.
     */
    apart: d.spreads,
  };
}
