/** The claim of an agent's session: it notes its request, so that the same request claims once, at whichever Manager. */
import type { AgentRequest, ClaimRequest, SettleAndClaimResult } from "../../store.ts";
import type { ClaimPipeline } from "./claim.ts";
import type { Read } from "./claim-steps.ts";
import { count, type Program, rows } from "./program.ts";
import type { Texts } from "./texts.ts";

/** `read`: what was read before the transaction began. */
export function* claimForSession(
  { statements }: Texts,
  claims: ClaimPipeline,
  claim: ClaimRequest,
  read?: Read,
): Program<Partial<SettleAndClaimResult>> {
  const { workerId, request } = claim;
  const { id: requestId, host, anew } = request as AgentRequest;
  const [session] = yield* rows(statements.lockSession, { workerId, requestId });
  if (!session) return { registered: false };
  if (Number(session[1]) === 1 && !anew) return { repeated: true };
  const [startedAt, , version] = session.map(Number) as [number, number, number];
  const { tasks: claimed, ...rest } = yield* claims.run(claim, startedAt, version, read);
  if (claimed.length > 0) yield* count(statements.noteRequest, { workerId, requestId, host, startedAt });
  return { claimed, ...rest };
}

/** A claim without candidates: it looks only whether it is repeated, for which the session's row need not be locked. */
export function* nothingFor(
  { statements }: Texts,
  { workerId, request }: ClaimRequest,
): Program<SettleAndClaimResult> {
  const nothing = { settled: [], claimed: [], more: false, registered: true };
  if (!request || request.anew) return nothing;
  const hasIt = yield* rows(statements.hasRequest, { workerId, requestId: request.id });
  return { ...nothing, repeated: hasIt.length > 0 };
}
