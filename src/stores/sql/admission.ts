/**
 * Admission: which candidates a claim may take. Each rule is a policy; a claim asks the policies that apply to it, and
 * a claim to which none applies pays nothing.
 *
 * A new rule is one more `AdmissionPolicy`, which a feature adds in `features/sql.ts`. The pipeline in `claim.ts` stays as it is:
 * it reads more candidates when policies refuse some, so that a refused task hides no other.
 */

import { performance } from "../../base/runtime/timers.ts";
import { crashSensitiveWhen, isCrashSensitive } from "../../base/tasks/crash-sensitive.ts";
import type { ClaimRequest } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { columnOf } from "./columns.ts";
import type { Program } from "./program.ts";
import type { Texts } from "./texts.ts";

/** A candidate of a claim: a pending task that is due. Where candidates are locked, it has only what policies ask about before. */
export type Candidate = TaskRecord;

/** One policy during one claim. */
export interface Gate {
  /** False: no task of this queue and function may be claimed, so none is read. */
  opens?(queueName: string, func: string): boolean;
  /** Asks the database about the candidates of this pass, before `admits` is asked about each. */
  learn?(candidates: readonly Candidate[]): Program<void>;
  /** Whether the claim may take this task beside those that it has admitted. Asked in the order of claims, once for each. */
  admits(task: Candidate): boolean;
}

export interface AdmissionPolicy {
  /** Whether the policy can refuse anything in this claim. Asked before each claim: it must not need the database. */
  appliesTo(request: ClaimRequest): boolean;
  /** The end of a task may let the policy admit another one. */
  readonly admitsAfterEnds?: true;
  /** Begins to admit: once in a claim, in its transaction, where it may ask the database. Gives a gate for each pass over candidates. */
  begin(request: ClaimRequest, texts: Texts): Program<() => Gate>;
}

/** `isCrashSensitive` as a condition of SQL. */
export const crashSensitiveSql = crashSensitiveWhen
  .map(({ field, is, value }) => `${columnOf(field)} ${is} ${value}`)
  .join(" or ");

/** A worker that claims ahead takes no more crash-sensitive tasks than it has slots: `roomForCrashSensitive` says why. */
export const crashSensitivePolicy: AdmissionPolicy = {
  appliesTo: ({ crashSensitive, limit }) => crashSensitive !== undefined && crashSensitive < limit,
  *begin({ crashSensitive = 0 }) {
    return () => {
      let room = crashSensitive;
      return {
        admits(task) {
          if (!isCrashSensitive(task)) return true;
          room -= 1;
          return room >= 0;
        },
      };
    };
  },
};

/** The policies that apply to one claim. */
export class Admission {
  readonly #limit: number;
  readonly #gates: readonly (() => Gate)[];
  /** Whether the end of a task may let it admit another one. */
  readonly admitsAfterEnds: boolean;

  private constructor(limit: number, gates: readonly (() => Gate)[], admitsAfterEnds: boolean) {
    this.#limit = limit;
    this.#gates = gates;
    this.admitsAfterEnds = admitsAfterEnds;
  }

  /** Undefined: no policy applies, and every candidate is admitted. */
  static *begin(
    request: ClaimRequest,
    among: readonly AdmissionPolicy[],
    texts: Texts,
  ): Program<Admission | undefined> {
    const gates: (() => Gate)[] = [];
    let admitsAfterEnds = false;
    for (const policy of among) {
      if (!policy.appliesTo(request)) continue;
      gates.push(yield* policy.begin(request, texts));
      admitsAfterEnds ||= policy.admitsAfterEnds === true;
    }
    return gates.length === 0 ? undefined : new Admission(request.limit, gates, admitsAfterEnds);
  }

  opens(queueName: string, func: string): boolean {
    return this.#gates.every((gate) => gate().opens?.(queueName, func) ?? true);
  }

  /** Those of the candidates that the claim may take, in their order: as many as its limit. */
  *admitted(candidates: readonly Candidate[]): Program<Candidate[]> {
    const gates = this.#gates.map((gate) => gate());
    for (const gate of gates) if (gate.learn) yield* gate.learn(candidates);
    const admitted: Candidate[] = [];
    for (const task of candidates) {
      if (admitted.length === this.#limit) break;
      if (gates.every((gate) => gate.admits(task))) admitted.push(task);
    }
    return admitted;
  }
}

/** How many candidates a claim reads at most when policies refuse some: this many, or as a multiple of its limit. */
const deepest = { candidates: 1_000, timesLimit: 4 };

/** After reading further in vain, a pause: this many times as long as that took, and at most this many milliseconds. */
const pause = { factor: 10, longest: 250 };

/** When a claim may read further, past candidates that policies refused. Doing so in vain takes a tenth of the time at most. */
export class Depth {
  #pausedUntil = Number.NEGATIVE_INFINITY;

  static bound(limit: number): number {
    return Math.max(deepest.candidates, deepest.timesLimit * limit);
  }

  /** The number of candidates to read after so many; undefined: no more. */
  after(read: number, limit: number): number | undefined {
    const most = Depth.bound(limit);
    return read >= most || performance.now() < this.#pausedUntil ? undefined : Math.min(most, read * 4);
  }

  /** Reading further since `start` admitted no more tasks. */
  inVain(start: number): void {
    const now = performance.now();
    this.#pausedUntil = now + Math.min(pause.factor * (now - start), pause.longest);
  }
}
