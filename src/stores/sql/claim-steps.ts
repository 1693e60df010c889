/** The steps that the claims of a feature and plain claims have in common. */
import type { WithParts } from "../../base/tasks/part.ts";
import type { ClaimRequest } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import type { Candidate } from "./admission.ts";
import { endExpired, type Unexpired } from "./expiry.ts";
import { idOfPlain, isPlain, toPlainCandidate } from "./plain-candidates.ts";
import { changes, count, type Program, rows } from "./program.ts";
import { probeNames } from "./queries.ts";
import { textOf, toCandidate, toClaimed, toTaskState } from "./rows.ts";
import { Spread } from "./spread.ts";
import type { Texts } from "./texts.ts";
import { inGroups, type Transitions } from "./transitions.ts";

/** SQLite allows 500 in one statement. */
export const mostProbes = 250;

/** Of more pairs, a claim reads the first candidate of each before it reads the tasks of those pairs that have the first ones. */
export const fewPairs = 16;

export type Pairs = readonly (readonly [queueName: string, func: string])[];

/** Plain loops, here and below: each claim pays for them, and most claims have one pair. */
export function pairsOf({ queueNames, funcs }: Pick<ClaimRequest, "queueNames" | "funcs">): Pairs {
  const pairs: [string, string][] = [];
  for (const queueName of queueNames) for (const func of funcs) pairs.push([queueName, func]);
  return pairs;
}

/** Adds the parameters of the probes of a claim to others. */
export function withProbes(params: Record<string, unknown>, pairs: Pairs): Record<string, unknown> {
  let i = 0;
  for (const [queueName, func] of pairs) {
    const [queue, name] = probeNames(i);
    params[queue] = queueName;
    params[name] = func;
    i += 1;
  }
  return params;
}

/**
 * After a look that read more than one in so many tasks twice, tasks are read as a whole so many times. Reading a task again
 * takes three times as long as not reading the columns saves.
 */
const [mostReadTwice, wholeReads] = [1 / 4, 16];

/** Of fewer tasks, the list of their ids takes as long as the statements that it saves: at ten, a drain is 3 % slower. */
const fewestTogether = 32;

const areOfOneGeneration = (tasks: readonly Candidate[]): boolean =>
  tasks.every(({ generationId }) => generationId === tasks[0]?.generationId);

const hasKey = ({ uniqueKey }: TaskRecord) => uniqueKey !== null;

type Ranked = Pick<TaskRecord, "priority" | "id">;

export const byClaimOrder = (a: Ranked, b: Ranked) => b.priority - a.priority || a.id - b.id;

export const powerOfTwo = (least: number): number => 2 ** Math.ceil(Math.log2(Math.max(1, least)));

/** `parts`: what policies answer. */
export interface Claimed extends WithParts {
  tasks: TaskRecord[];
  /** Whether another claim may find more. */
  more: boolean;
  /** As in `SettleAndClaimResult`. */
  expired?: readonly number[] | undefined;
  /**
   * The tasks whose ends let nothing start that this claim has not taken. @default the end of any may let another task start
   */
  endedInVain?: "all" | ReadonlySet<number> | undefined;
}

/** A claim reads this before its transaction begins. `parts`: if there is nothing to claim, the policies answer this. */
export interface Read extends WithParts {
  candidates: readonly Candidate[];
  /** What the feature that makes the claim has noted with it. @default no feature makes it */
  noted?: unknown;
}

export class ClaimSteps {
  readonly texts: Texts;
  readonly spread = new Spread();
  /** How many of the next looks read tasks as a whole. */
  #wholeReads = 0;

  readonly #transitions: Transitions;

  constructor(texts: Texts, transitions: Transitions) {
    this.texts = texts;
    this.#transitions = transitions;
  }

  /** The candidates of these pairs: at most the claim's limit. Another worker may claim them first. */
  *candidates({ limit }: ClaimRequest, pairs: Pairs): Program<readonly Candidate[]> {
    const found = yield* this.read(pairs, this.spread.widened(limit));
    return found.length <= limit ? found : this.spread.chosen(found, limit).sort(byClaimOrder);
  }

  *read(all: Pairs, limit: number): Program<Candidate[]> {
    const found: Candidate[] = [];
    this.#wholeReads = Math.max(0, this.#wholeReads - 1);
    const isRanked = all.length > fewPairs;
    const pairs = isRanked ? yield* this.ranked(all, ([queueName, func]) => ({ queueName, func })) : all;
    // The first tasks are in the first pairs, of which each has one. There are few lengths: each text is compiled once.
    const probes = isRanked ? Math.min(mostProbes, powerOfTwo(limit)) : mostProbes;
    for (let i = 0; i < pairs.length && (!isRanked || found.length < limit); i += probes) {
      const some = pairs.length <= probes ? pairs : pairs.slice(i, i + probes);
      const params = withProbes({ limit }, some);
      if (!this.texts.dialect.oneWriter || this.#wholeReads > 0)
        for (const row of yield* rows(this.texts.candidates(some.length), params))
          found.push(toCandidate(row));
      else yield* this.#readPlain(some, params, found);
    }
    return pairs.length > probes ? found.sort(byClaimOrder).slice(0, limit) : found;
  }

  /** Those of the pairs that have candidates, in the order of their first ones. */
  *ranked<P>(pairs: readonly P[], namesOf: (pair: P) => { queueName: string; func: string }): Program<P[]> {
    const list = JSON.stringify(
      pairs.map((pair, line) => {
        const { queueName, func } = namesOf(pair);
        return { queueName, func, line };
      }),
    );
    const heads = (yield* rows(this.texts.heads, { pairs: list })).flatMap(([head], i) => {
      if (head === null) return [];
      const [priority = 0, id = 0] = textOf(head).split(":").map(Number);
      return { pair: pairs[i] as P, priority, id };
    });
    return heads.sort(byClaimOrder).map(({ pair }) => pair);
  }

  /** Reads tasks without the columns that most of them leave at their defaults, and those that do not once more, as a whole. */
  *#readPlain(pairs: Pairs, params: Record<string, unknown>, found: Candidate[]): Program<void> {
    const read = yield* rows(this.texts.plainCandidates(pairs.length), params);
    const others = read.filter((row) => !isPlain(row)).map((row) => ({ id: idOfPlain(row) }));
    const whole = new Map<number, Candidate>();
    if (others.length > 0) for (const task of yield* this.these(others)) whole.set(task.id, task);
    // A task that has moved meanwhile stays among them: its claim fails by the generation, and the worker looks again.
    for (const row of read) found.push(whole.get(idOfPlain(row)) ?? toPlainCandidate(row, pairs));
    if (others.length > read.length * mostReadTwice) this.#wholeReads = wholeReads;
  }

  /** Locks these tasks, except those that other transactions have locked. */
  *these(admitted: readonly Pick<Candidate, "id">[]): Program<Candidate[]> {
    if (admitted.length === 0) return [];
    const ids = JSON.stringify(admitted.map(({ id }) => id));
    return (yield* rows(this.texts.statements.lockThese, { ids })).map(toCandidate);
  }

  endExpired(tasks: readonly Candidate[], now: number): Program<Unexpired<Candidate>> {
    return endExpired(tasks, now, this.#transitions);
  }

  /**
   * Claims those of the tasks that no other worker has moved since they were read. `together`: the only transaction that writes
   * has read them, so that none has moved.
   */
  *claim(
    tasks: readonly Candidate[],
    workerId: string,
    startedAt: number,
    together = false,
  ): Program<TaskRecord[]> {
    const { claim, claimKeyed } = this.texts.statements;
    const claims = (some: readonly Candidate[]) =>
      some.map(({ id, generationId }) => ({ id, generationId, workerId, startedAt }));
    const won = tasks.some(hasKey)
      ? yield* inGroups(tasks, hasKey, (some, keyed) => changes(keyed ? claimKeyed : claim, claims(some)))
      : together && tasks.length >= fewestTogether && areOfOneGeneration(tasks)
        ? yield* this.#claimAll(tasks, workerId, startedAt)
        : yield* changes(claim, claims(tasks));
    return tasks
      .filter((_, i) => won[i])
      .map((task) => toClaimed(task, task.generationId + 1, workerId, startedAt));
  }

  /** Takes two thirds of the time of one UPDATE for each task. */
  *#claimAll(tasks: readonly Candidate[], workerId: string, startedAt: number): Program<boolean[]> {
    const { claimAll, taskStates } = this.texts.statements;
    const ids = JSON.stringify(tasks.map(({ id }) => id));
    const [first] = tasks;
    const claimed = yield* count(claimAll, { ids, generationId: first?.generationId, workerId, startedAt });
    if (claimed === tasks.length) return tasks.map(() => true);
    // There may be rows that no UPDATE finds. All were pending in this transaction: those that run were claimed now.
    const states = (yield* rows(taskStates, { ids })).map(toTaskState);
    const running = new Set(states.flatMap(({ id, status }) => (status === "running" ? [id] : [])));
    return tasks.map(({ id }) => running.has(id));
  }
}
