/** The claims that a feature makes in place of the plain ones, with the same steps. */
import type { ClaimRequest } from "../../store.ts";
import type { AdmissionPolicy } from "./admission.ts";
import type { Claimed, ClaimSteps, Read } from "./claim-steps.ts";
import type { Program } from "./program.ts";

/** A `version` says which state of the feature's settings is meant; the row of a worker names the one that its next claim must know. */
export interface OtherClaims {
  /** The version that is known here. */
  readonly version: number;
  /** Whether the feature makes this claim, as far as is known here. */
  concern(request: ClaimRequest): boolean;
  /** Whether the claim is a plain one, as is every other claim at this version that asks for nothing of the feature. */
  isPlain(request: ClaimRequest, version: number): boolean;
  /** Reads, before the claim's transaction, what it would take. Undefined: the claim is a plain one, as far as is known here. */
  read(request: ClaimRequest): Program<Read | undefined>;
  /** Takes the four steps, in the caller's transaction. Undefined: at this version, the claim is a plain one. */
  run(request: ClaimRequest, startedAt: number, version: number, read?: Read): Program<Claimed | undefined>;
}

export type OtherClaimsOf = (steps: ClaimSteps, policies: readonly AdmissionPolicy[]) => OtherClaims;
