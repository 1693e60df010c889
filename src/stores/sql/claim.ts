/**
 * A claim is a pipeline of four steps:
 *
 * 1. candidates: reads pending tasks that are due, without locks, highest priority first, then oldest.
 * 2. admit: leaves out the tasks that a policy refuses (`admission.ts`), and reads further in their place.
 * 3. lock: on servers, locks as many tasks as were admitted, passing over rows that other transactions have locked.
 * 4. claim: sets each task to `running` by an UPDATE that names the generation that was read.
 *
 * Postgres does the same in one statement, which locks before it admits: `postgres/settle-and-claim.ts`.
 */
import { performance } from "../../base/runtime/timers.ts";
import type { ClaimRequest } from "../../store.ts";
import { Admission, type AdmissionPolicy, type Candidate, crashSensitivePolicy, Depth } from "./admission.ts";
import type { ClaimFeatures, OtherClaims } from "./claim-features.ts";
import { byClaimOrder, type Claimed, type ClaimSteps, pairsOf, type Read } from "./claim-steps.ts";
import { type Program, rows } from "./program.ts";
import { toCandidate } from "./rows.ts";
import type { Texts } from "./texts.ts";

/** What the first two steps found. Nothing was refused where both have the same length. */
interface Found {
  candidates: readonly Candidate[];
  admitted: readonly Candidate[];
}

export class ClaimPipeline {
  readonly #texts: Texts;
  readonly #steps: ClaimSteps;
  readonly features: ClaimFeatures;
  readonly #policies: readonly AdmissionPolicy[];
  readonly #depth = new Depth();
  readonly others: OtherClaims;

  constructor(steps: ClaimSteps, features: ClaimFeatures) {
    this.#texts = steps.texts;
    this.#steps = steps;
    this.features = features;
    this.#policies = [...features.policies, crashSensitivePolicy];
    this.others = features.othersOf(steps, this.#policies);
  }

  /**
   * Takes all four steps, in the caller's transaction. The worker's row names the `version` of what the claim must know. `read` is
   * what was read before the transaction began.
   */
  *run(request: ClaimRequest, startedAt: number, version: number, read?: Read): Program<Claimed> {
    const isPlain = this.others.isPlain(request, version);
    if (!isPlain) {
      const claimed = yield* this.others.run(request, startedAt, version, read);
      if (claimed) return claimed;
    }
    const candidates = read?.candidates ?? (yield* this.#steps.candidates(request, pairsOf(request)));
    const admission = yield* Admission.begin(request, this.#policies, this.#texts);
    const found = admission
      ? yield* this.#admit(candidates, request, admission)
      : { candidates, admitted: candidates };
    const locked = this.#texts.dialect.locks ? yield* this.#lock(found, admission) : found.admitted;
    const together = read === undefined && this.#texts.dialect.oneWriter;
    const { live, ...gone } = yield* this.#steps.endExpired(locked, startedAt);
    const tasks = yield* this.#steps.claim(live, request.workerId, startedAt, together);
    if (this.#texts.dialect.spreads) this.#steps.spread.adapt(tasks.length, live.length);
    const hasMore = found.candidates.length >= request.limit || tasks.length < found.candidates.length;
    // Policies would refuse the same tasks again: only those that they let through count.
    const isInVain = isPlain && !gone.expired && !admission?.admitsAfterEnds;
    const more = found.admitted.length > 0 && hasMore;
    return { tasks, more, ...(isInVain && { endedInVain: "all" }), ...gone };
  }

  /** Reads at most the claim's limit. Another worker may claim them first. */
  *candidates(request: ClaimRequest): Program<Read> {
    const read = yield* this.others.read(request);
    return read ?? { candidates: yield* this.#steps.candidates(request, pairsOf(request)) };
  }

  // ---- admit ---------------------------------------------------------------------------------

  /** Reads further while policies refuse so many candidates that the claim could take more: up to a bound. */
  *#admit(read: readonly Candidate[], request: ClaimRequest, admission: Admission): Program<Found> {
    const all = pairsOf(request);
    const pairs = all.filter(([queueName, func]) => admission.opens(queueName, func));
    let [candidates, depth] = [read, request.limit];
    if (pairs.length < all.length) candidates = yield* this.#steps.read(pairs, depth);
    let admitted = yield* admission.admitted(candidates);
    const [start, admittedAtFirst] = [performance.now(), admitted.length];
    while (admitted.length < request.limit && candidates.length >= depth) {
      const deeper = this.#depth.after(depth, request.limit);
      if (deeper === undefined) break;
      depth = deeper;
      candidates = yield* this.#steps.read(pairs, depth);
      admitted = yield* admission.admitted(candidates);
    }
    if (depth > request.limit && admitted.length === admittedAtFirst) this.#depth.inVain(start);
    return { candidates, admitted };
  }

  // ---- lock ----------------------------------------------------------------------------------

  /**
   * Locks as many tasks as were admitted, and no more: other workers pass over locked tasks, claimed or not. They are any
   * tasks of the same queues and functions, so that workers who read the same candidates each get some; but where
   * policies refused tasks, only those that they admitted. The policies are asked again, about the rows as they are now.
   */
  *#lock({ candidates, admitted }: Found, admission: Admission | undefined): Program<readonly Candidate[]> {
    const wanted =
      admitted.length < candidates.length ? this.#steps.these(admitted) : this.#firstLike(admitted);
    const locked = (yield* wanted).sort(byClaimOrder);
    return admission ? yield* admission.admitted(locked) : locked;
  }

  *#firstLike(admitted: readonly Candidate[]): Program<Candidate[]> {
    const wanted = new Map<string, { queueName: string; func: string; limit: number }>();
    for (const { queueName, func } of admitted) {
      const key = JSON.stringify([queueName, func]);
      wanted.set(key, { queueName, func, limit: (wanted.get(key)?.limit ?? 0) + 1 });
    }
    const locked: Candidate[] = [];
    for (const params of wanted.values())
      for (const row of yield* rows(this.#texts.statements.lockFirst, params)) locked.push(toCandidate(row));
    return locked;
  }
}
