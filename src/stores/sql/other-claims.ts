/** The claims that a feature makes in place of the plain ones, with the same steps. */
import type { ClaimRequest } from "../../store.ts";
import type { AdmissionPolicy } from "./admission.ts";
import type { Claimed, ClaimSteps, Read } from "./claim-steps.ts";
import type { Program } from "./program.ts";

/** `version`, here and below: of what all workers must know before they claim, as the row of a worker names it. */
export interface OtherClaims {
  /** The version that is known here. */
  readonly version: number;
  /** Whether, by what is known, this claim is one of them. */
  concern(request: ClaimRequest): boolean;
  /** Whether this claim is none of them, and nothing that this version says can make any claim one. */
  isPlain(request: ClaimRequest, version: number): boolean;
  /** What the claim would take, read before its transaction. Undefined: by what is known, it is a plain one. */
  read(request: ClaimRequest): Program<Read | undefined>;
  /** The four steps, in the caller's transaction. Undefined: by this version, it is a plain claim. */
  run(request: ClaimRequest, startedAt: number, version: number, read?: Read): Program<Claimed | undefined>;
}

export type OtherClaimsOf = (steps: ClaimSteps, policies: readonly AdmissionPolicy[]) => OtherClaims;
