/** What features add to claims: rules, claimants of their own, and claims that they make in place of the plain ones. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { WithParts } from "../../base/tasks/part.ts";
import type { ClaimRequest, SettleAndClaimResult } from "../../store.ts";
import type { AdmissionPolicy } from "./admission.ts";
import type { Claimed, ClaimSteps, Read } from "./claim-steps.ts";
import type { Dialect, Params } from "./dialect.ts";
import { type Program, rows } from "./program.ts";
import type { Texts } from "./texts.ts";

export interface ClaimFeatures {
  readonly policies: readonly AdmissionPolicy[];
  readonly claimants: readonly Claimant[];
  readonly othersOf: (steps: ClaimSteps, policies: readonly AdmissionPolicy[]) => OtherClaims;
}

/** Whether a feature's policy can refuse anything in this claim. */
export const hasPolicyFor = ({ policies }: ClaimFeatures, request: ClaimRequest): boolean =>
  policies.some((policy) => policy.appliesTo(request));

export const claimantOf = ({ claimants }: ClaimFeatures, request: ClaimRequest): Claimant =>
  claimants.find((claimant) => claimant.appliesTo(request)) ?? workersOwn;

/** A `version` says which state of the feature's settings is meant; the row of a worker names the one that its next claim must know. */
export interface OtherClaims {
  /** The version that is known here. */
  readonly version: number;
  /** Whether the feature makes this claim, as far as is known here. */
  concern(request: ClaimRequest): boolean;
  /** Whether the claim is a plain one, as is every other claim at this version that asks for nothing of the feature. */
  isPlain(request: ClaimRequest, version: number): boolean;
  /** Reads what the claim would take, before its transaction begins. Undefined: by what is known here, the claim is a plain one. */
  read(request: ClaimRequest): Program<Read | undefined>;
  /** Takes the four steps, in the caller's transaction. Undefined: at this version, the claim is a plain one. */
  run(request: ClaimRequest, startedAt: number, version: number, read?: Read): Program<Claimed | undefined>;
}

/** Whose row a claim locks, so that a rescue cannot delete it meanwhile: it would not free the claimed tasks. */
export interface Claimant {
  appliesTo(request: ClaimRequest): boolean;
  /** Locks the row, in the claim's transaction. */
  lock(request: ClaimRequest, texts: Texts): Program<Locked | Refused>;
  /** A claim at this time has found tasks. */
  note?(request: ClaimRequest, texts: Texts, startedAt: number): Program<void>;
  /** There is nothing to claim: locks no row, and gives what the claim answers beside that. */
  nothing?(request: ClaimRequest, texts: Texts): Program<WithParts>;
  /** The same as parts of one statement, for a database that claims by one. */
  inOne(d: Dialect, p: Params): ClaimantInOne;
  /** The parameters of these parts. */
  params?(request: ClaimRequest): Record<string, unknown>;
  /** The answer to a claim whose row has the state 2: it claims nothing. */
  readonly refused?: WithParts;
}

/** The time of the claim in milliseconds since 1970, and the version that it must know. */
export interface Locked {
  startedAt: number;
  version: number;
}

/** Why nothing is claimed. */
export interface Refused {
  answer: Partial<SettleAndClaimResult>;
}

export interface ClaimantInOne {
  /** What the row gives as `state`: 1, it may claim; 2, it may not, and the claimant says why. */
  state: SQL;
  /** How the row is locked. */
  lock: SQL;
  /** What a claim that has found tasks writes to the row: further parts of the statement, each with a comma behind it. */
  note: SQL;
  /** The state of a row that was not locked, since there was nothing to claim. */
  unlocked: SQL;
}

/** A worker, which claims for itself. */
export const workersOwn: Claimant = {
  appliesTo: () => true,
  *lock({ workerId }, { statements }) {
    const [worker] = yield* rows(statements.lockWorker, { workerId });
    if (!worker) return { answer: { registered: false } };
    return { startedAt: Number(worker[0]), version: Number(worker[1]) };
  },
  inOne: (d) => ({ state: sql.raw("1"), lock: d.shared, note: sql.raw(""), unlocked: sql.raw("0") }),
};
