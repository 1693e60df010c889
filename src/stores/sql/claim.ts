/**
 * A claim is a pipeline of four steps:
 * 1. candidates: reads pending tasks that are due, without locks, highest priority first, then oldest.
 * 2. admit: leaves out the tasks that a policy refuses (`admission.ts`), and reads further in their place.
 * 3. lock: on servers, locks as many tasks as were admitted, passing over rows that other transactions have locked.
 * 4. claim: sets each task to `running` by an UPDATE that names the generation that was read.
 * Postgres does the same in one statement, which locks before it admits: `postgres/settle-and-claim.ts`.
 */
import { performance } from "../../base/runtime/timers.ts";
import type { ClaimRequest } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { Admission, type AdmissionPolicy, type Candidate, Depth, policies } from "./admission.ts";
import { changes, type Program, rows } from "./program.ts";
import { probeNames } from "./queries.ts";
import { toCandidate, toClaimed } from "./rows.ts";
import { Spread } from "./spread.ts";
import type { Texts } from "./texts.ts";

/** SQLite allows 500 in one statement. */
const mostProbes = 250;

export type Pairs = readonly (readonly [queueName: string, func: string])[];

export const pairsOf = ({ queueNames, funcs }: Pick<ClaimRequest, "queueNames" | "funcs">): Pairs =>
  queueNames.flatMap((queueName) => funcs.map((func) => [queueName, func] as const));

/** The parameters of the probes of a claim. */
export function probeParams(pairs: Pairs): Record<string, unknown> {
  const params: Record<string, unknown> = {};
  for (const [i, [queueName, func]] of pairs.entries()) {
    const [queue, name] = probeNames(i);
    params[queue] = queueName;
    params[name] = func;
  }
  return params;
}

export const byClaimOrder = (a: TaskRecord, b: TaskRecord) => b.priority - a.priority || a.id - b.id;

export interface Claimed {
  tasks: TaskRecord[];
  /** Whether another claim may find more. */
  more: boolean;
}

/** What the first two steps found. Nothing was refused where both have the same length. */
interface Found {
  candidates: readonly Candidate[];
  admitted: readonly Candidate[];
}

export class ClaimPipeline {
  readonly #texts: Texts;
  readonly #policies: readonly AdmissionPolicy[];
  readonly #depth = new Depth();
  readonly #spread = new Spread();

  constructor(texts: Texts, among: readonly AdmissionPolicy[] = policies) {
    this.#texts = texts;
    this.#policies = among;
  }

  /** All four steps, in the caller's transaction. `read`: candidates that were read before the transaction began. */
  *run(request: ClaimRequest, startedAt: number, read?: readonly Candidate[]): Program<Claimed> {
    const candidates = read ?? (yield* this.candidates(request));
    const admission = yield* Admission.begin(request, this.#policies);
    const found = admission
      ? yield* this.#admit(candidates, request, admission)
      : { candidates, admitted: candidates };
    const locked = this.#texts.dialect.locks ? yield* this.#lock(found, admission) : found.admitted;
    const tasks = yield* this.#claim(locked, request.workerId, startedAt);
    if (this.#texts.dialect.spreads) this.#spread.adapt(tasks.length, locked.length);
    const mayHaveMore = found.candidates.length >= request.limit || tasks.length < found.candidates.length;
    // What policies have just refused, they refuse again.
    return { tasks, more: found.admitted.length > 0 && mayHaveMore };
  }

  // ---- candidates ----------------------------------------------------------------------------

  /** Reads at most the claim's limit. Another worker may claim them first. */
  *candidates(request: ClaimRequest): Program<readonly Candidate[]> {
    const { limit } = request;
    const found = yield* this.#read(pairsOf(request), this.#spread.widened(limit));
    return found.length <= limit ? found : this.#spread.chosen(found, limit).sort(byClaimOrder);
  }

  *#read(pairs: Pairs, limit: number): Program<Candidate[]> {
    const found: Candidate[] = [];
    for (let i = 0; i < pairs.length; i += mostProbes) {
      const some = pairs.slice(i, i + mostProbes);
      const read = yield* rows(this.#texts.candidates(some.length), { limit, ...probeParams(some) });
      for (const row of read) found.push(toCandidate(row));
    }
    return pairs.length > mostProbes ? found.sort(byClaimOrder).slice(0, limit) : found;
  }

  // ---- admit ---------------------------------------------------------------------------------

  /** Reads further while policies refuse so many candidates that the claim could take more: up to a bound. */
  *#admit(read: readonly Candidate[], request: ClaimRequest, admission: Admission): Program<Found> {
    const all = pairsOf(request);
    const pairs = all.filter(([queueName, func]) => admission.opens(queueName, func));
    let [candidates, depth] = [read, request.limit];
    if (pairs.length < all.length) candidates = yield* this.#read(pairs, depth);
    let admitted = admission.admitted(candidates);
    const [start, admittedAtFirst] = [performance.now(), admitted.length];
    while (admitted.length < request.limit && candidates.length >= depth) {
      const deeper = this.#depth.after(depth, request.limit);
      if (deeper === undefined) break;
      depth = deeper;
      candidates = yield* this.#read(pairs, depth);
      admitted = admission.admitted(candidates);
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
    const wanted = admitted.length < candidates.length ? this.#these(admitted) : this.#firstLike(admitted);
    const locked = (yield* wanted).sort(byClaimOrder);
    return admission ? admission.admitted(locked) : locked;
  }

  *#these(admitted: readonly Candidate[]): Program<Candidate[]> {
    if (admitted.length === 0) return [];
    const ids = JSON.stringify(admitted.map(({ id }) => id));
    return (yield* rows(this.#texts.statements.lockThese, { ids })).map(toCandidate);
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

  // ---- claim ---------------------------------------------------------------------------------

  /** Claims those of the tasks that no other worker has moved since they were read. */
  *#claim(tasks: readonly Candidate[], workerId: string, startedAt: number): Program<TaskRecord[]> {
    const claims = tasks.map(({ id, generationId }) => ({ id, generationId, workerId, startedAt }));
    const won = yield* changes(this.#texts.statements.claim, claims);
    return tasks
      .filter((_, i) => won[i])
      .map((task) => toClaimed(task, task.generationId + 1, workerId, startedAt));
  }
}
