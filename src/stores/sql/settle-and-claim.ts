/** A worker's cycle: settles the outcomes of attempts, then claims as many tasks as the worker has free slots. */
import type {
  ClaimRequest,
  Outcome,
  OutcomeKind,
  SettleAndClaim,
  SettleAndClaimResult,
} from "../../store.ts";
import type { ClaimPipeline } from "./claim.ts";
import { claimantOf } from "./claim-features.ts";
import { byClaimOrder, type Claimed, type Read } from "./claim-steps.ts";
import type { Ending, Release } from "./endings.ts";
import { type Program, startsNothing, transaction } from "./program.ts";
import type { Texts } from "./texts.ts";
import { inGroups, mayHaveParent, type Transitions } from "./transitions.ts";

type Released = Exclude<OutcomeKind, Ending["kind"]>;

/** The release that each of these outcomes is. */
const releases = {
  retry: { status: "scheduled", charge: 1 },
  snoozed: { status: "scheduled", charge: 0 },
  interrupted: { status: "pending", charge: 0 },
} as const satisfies Record<Released, Pick<Release, "status" | "charge">>;

/** How an outcome changes its task. Outcomes of the same change are one statement. */
function changeOf({ kind }: Outcome): "complete" | "finish" | "release" {
  if (kind in releases) return "release";
  return kind === "completed" ? "complete" : "finish";
}

const areCompleted = (
  outcomes: readonly Outcome[],
): outcomes is readonly (Outcome & { kind: "completed" })[] =>
  outcomes.every(({ kind }) => kind === "completed");

/** Whether these outcomes let nothing start but what their claim has taken. */
function areInVain(outcomes: readonly Outcome[], among: Claimed["endedInVain"]): boolean {
  if (!among || outcomes.some((one) => changeOf(one) === "release" || mayHaveParent(one))) return false;
  return among === "all" || outcomes.every(({ id }) => among.has(id));
}

const toRelease = (outcome: Outcome & { kind: Released }): Release => ({
  delay: null,
  error: null,
  ...outcome,
  ...releases[outcome.kind],
});

/** What a claim by itself did. */
export type FurtherClaim = Pick<SettleAndClaimResult, "claimed" | "more"> & Partial<CycleResult>;

/** What a cycle did. `further`: a claim that is to be run by itself afterwards. */
export type CycleResult = SettleAndClaimResult & { further?: (() => Program<FurtherClaim>) | undefined };

export class SettleAndClaimOperations {
  /**
   * Whether to settle and claim in two transactions. In a Galera cluster a claim waits for a task that another worker is
   * settling. If that worker's transaction also claimed, the two could wait for each other.
   */
  readonly inTwoTransactions: boolean;
  readonly #texts: Texts;
  readonly #transitions: Transitions;
  protected readonly claims: ClaimPipeline;

  constructor(texts: Texts, transitions: Transitions, claims: ClaimPipeline) {
    this.inTwoTransactions = texts.dialect.spreads;
    this.#texts = texts;
    this.#transitions = transitions;
    this.claims = claims;
  }

  /** For each outcome, in order, whether it was accepted. In most cycles all have completed. */
  *settle(outcomes: readonly Outcome[]): Program<boolean[]> {
    if (outcomes.length > 0 && areCompleted(outcomes)) return yield* this.#transitions.endTasks(outcomes);
    return yield* inGroups(outcomes, changeOf, (some, change) =>
      change === "release"
        ? this.#transitions.releaseTasks((some as readonly (Outcome & { kind: Released })[]).map(toRelease))
        : this.#transitions.endTasks(some as readonly Ending[]),
    );
  }

  *settleOne(outcome: Outcome): Program<boolean> {
    return (yield* this.settle([outcome]))[0] === true;
  }

  /**
   * With outcomes, everything happens in the transaction that settles them. Without, candidates are read before the
   * transaction: a worker that is woken up for nothing writes nothing.
   */
  *run(cycle: SettleAndClaim): Program<CycleResult> {
    const { outcomes, claim } = cycle;
    if (outcomes.length > 0 || !claim) return yield* transaction(() => this.#settleAndClaim(cycle), true);
    const read = yield* this.claims.candidates(claim);
    if (read.candidates.length === 0) return yield* this.#nothing(claim, read);
    return yield* transaction(() => this.#settleAndClaim(cycle, read), false);
  }

  *#nothing(claim: ClaimRequest, { parts }: Read): Program<SettleAndClaimResult> {
    const none = { settled: [], claimed: [], more: false, registered: true };
    const claimant = claimantOf(this.claims.features, claim);
    const own = claimant.nothing ? (yield* claimant.nothing(claim, this.#texts)).parts : undefined;
    return parts || own ? { ...none, parts: { ...parts, ...own } } : none;
  }

  /** Nothing here. On Postgres, where a claim begins where the last one ended, it sends the next claim back to the start. */
  rewind(): void {}

  *#settleAndClaim({ outcomes, claim }: SettleAndClaim, read?: Read): Program<SettleAndClaimResult> {
    const settled = yield* this.settle(outcomes);
    const none = { settled, claimed: [], more: false, registered: true };
    if (!claim) return none;
    const { endedInVain, ...did } = yield* this.#claim(claim, read);
    const result = { ...none, ...did };
    if (outcomes.length === 0 || !areInVain(outcomes, endedInVain)) return result;
    yield* startsNothing();
    return endedInVain === "all" ? result : { ...result, retaken: true };
  }

  *#claim(
    request: ClaimRequest,
    read?: Read,
  ): Program<Partial<SettleAndClaimResult> & Pick<Claimed, "endedInVain">> {
    const claimant = claimantOf(this.claims.features, request);
    const row = yield* claimant.lock(request, this.#texts);
    if ("answer" in row) return row.answer;
    const { tasks, ...rest } = yield* this.claims.run(request, row.startedAt, row.version, read);
    if (tasks.length > 0 && claimant.note) yield* claimant.note(request, this.#texts, row.startedAt);
    return { claimed: tasks, ...rest };
  }
}

type Run = <T>(op: () => Program<T>) => Promise<T>;

type Cycles = Pick<SettleAndClaimOperations, "inTwoTransactions" | "run">;

/** Claims in one call, when other workers claim all candidates each time. */
const mostClaims = 5;

/**
 * Runs a cycle, and claims again when other workers were faster. Not forever: there may be a row that no UPDATE finds, such
 * as one whose generation another client has set beyond 2^53. And not after outcomes were settled: their answer must not
 * depend on the next claim.
 */
export async function settleAndClaim(
  run: Run,
  ops: Cycles,
  cycle: SettleAndClaim,
): Promise<SettleAndClaimResult> {
  const { outcomes, claim } = cycle;
  if (ops.inTwoTransactions && claim && outcomes.length > 0)
    return await settleThenClaim(run, ops, outcomes, claim);
  for (let claims = 1; ; claims += 1) {
    const did = await run(() => ops.run(cycle));
    const result = "further" in did ? await claimFurther(run, did) : did;
    if (outcomes.length > 0) return result;
    if (claims < mostClaims && isInVain(result)) continue;
    return { ...result, more: result.more && (result.claimed.length > 0 || result.expired !== undefined) };
  }
}

const isInVain = ({ claimed, more, registered, failure, expired }: SettleAndClaimResult): boolean =>
  claimed.length === 0 && more && registered && failure === undefined && !expired;

/**
 * A run of its own: what the cycle settled and claimed is committed by now, and must be told whatever becomes of this claim.
 * Were both one run, a deadlock in the second statement would repeat the first, which would then find nothing to do.
 */
async function claimFurther(run: Run, { further, ...result }: CycleResult): Promise<SettleAndClaimResult> {
  if (!further) return result;
  try {
    const { claimed, more, ...did } = await run(further);
    return await claimFurther(run, {
      ...result,
      ...did,
      settled: result.settled,
      claimed: [...result.claimed, ...claimed].sort(byClaimOrder),
      more: result.more || more,
    });
  } catch (failure) {
    return { ...result, failure };
  }
}

async function settleThenClaim(
  run: Run,
  ops: Cycles,
  outcomes: readonly Outcome[],
  claim: ClaimRequest,
): Promise<SettleAndClaimResult> {
  const settling = await run(() => ops.run({ outcomes, claim: undefined }));
  try {
    return { ...(await settleAndClaim(run, ops, { outcomes: [], claim })), settled: settling.settled };
  } catch (failure) {
    return { ...settling, failure };
  }
}
