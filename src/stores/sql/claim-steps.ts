/** The steps that claims with limits and claims without them have in common. */
import type { ClaimRequest } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import type { Candidate } from "./admission.ts";
import { changes, type Program, rows } from "./program.ts";
import { probeNames } from "./queries.ts";
import { toCandidate, toClaimed } from "./rows.ts";
import { Spread } from "./spread.ts";
import type { Texts } from "./texts.ts";
import { inGroups } from "./transitions.ts";

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

const hasKey = ({ uniqueKey }: TaskRecord) => uniqueKey !== null;

export const byClaimOrder = (a: TaskRecord, b: TaskRecord) => b.priority - a.priority || a.id - b.id;

export interface Claimed {
  tasks: TaskRecord[];
  /** Whether another claim may find more. */
  more: boolean;
  /** Milliseconds after which limits may let some start that they have refused. */
  again?: number | undefined;
  /** Limits or pauses are about tasks of the claim. */
  limited?: boolean;
}

/** What was read before the transaction of a claim. */
export interface Read {
  /** The version of the limits by which it was read; undefined: without any. */
  by?: number;
  candidates: readonly Candidate[];
  /** The ids of those that a rate had put off before. */
  turns?: ReadonlySet<number>;
  again?: number | undefined;
  /** A group has more tasks than were read. */
  leavesSome?: boolean;
}

export class ClaimSteps {
  readonly texts: Texts;
  readonly spread = new Spread();

  constructor(texts: Texts) {
    this.texts = texts;
  }

  /** The candidates of these pairs: at most the claim's limit. Another worker may claim them first. */
  *candidates({ limit }: ClaimRequest, pairs: Pairs): Program<readonly Candidate[]> {
    const found = yield* this.read(pairs, this.spread.widened(limit));
    return found.length <= limit ? found : this.spread.chosen(found, limit).sort(byClaimOrder);
  }

  *read(pairs: Pairs, limit: number): Program<Candidate[]> {
    const found: Candidate[] = [];
    for (let i = 0; i < pairs.length; i += mostProbes) {
      const some = pairs.slice(i, i + mostProbes);
      const read = yield* rows(this.texts.candidates(some.length), { limit, ...probeParams(some) });
      for (const row of read) found.push(toCandidate(row));
    }
    return pairs.length > mostProbes ? found.sort(byClaimOrder).slice(0, limit) : found;
  }

  /** Locks these tasks, except those that other transactions have locked. */
  *these(admitted: readonly Candidate[]): Program<Candidate[]> {
    if (admitted.length === 0) return [];
    const ids = JSON.stringify(admitted.map(({ id }) => id));
    return (yield* rows(this.texts.statements.lockThese, { ids })).map(toCandidate);
  }

  /** Claims those of the tasks that no other worker has moved since they were read. */
  *claim(tasks: readonly Candidate[], workerId: string, startedAt: number): Program<TaskRecord[]> {
    const { claim, claimKeyed } = this.texts.statements;
    const claims = (some: readonly Candidate[]) =>
      some.map(({ id, generationId }) => ({ id, generationId, workerId, startedAt }));
    const won = tasks.some(hasKey)
      ? yield* inGroups(tasks, hasKey, (some, keyed) => changes(keyed ? claimKeyed : claim, claims(some)))
      : yield* changes(claim, claims(tasks));
    return tasks
      .filter((_, i) => won[i])
      .map((task) => toClaimed(task, task.generationId + 1, workerId, startedAt));
  }
}
