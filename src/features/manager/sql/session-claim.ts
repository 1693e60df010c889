/** The claim of an agent's session: it notes its request, so that the same request claims once, at whichever Manager. */
import { sql } from "drizzle-orm/sql/sql";
import { memoize } from "../../../base/runtime/memoize.ts";
import type { ClaimRequest } from "../../../store.ts";
import type { Claimant } from "../../../stores/sql/claim-features.ts";
import type { Dialect } from "../../../stores/sql/dialect.ts";
import { count, rows } from "../../../stores/sql/program.ts";
import type { Statement } from "../../../stores/sql/statements.ts";
import { type SessionRequest, sessionAnswered, sessionAsked } from "../contract.ts";

const statementsOf = memoize(
  (d: Dialect) =>
    ({
      /** The time of the claim, and whether the row has this request. Two claims of a session go one after the other. */
      lock: (p) => sql`
        select ${d.millis(d.now(p))} as claimed_at, case when coalesce(request_id, '') = ${p.requestId} then 1 else 0 end as is_known, limits_version
        from dbq_workers where id = ${p.workerId} ${d.locked}`,

      hasRequest: (p) => sql`
        select 1 from dbq_workers where id = ${p.workerId} and request_id = ${p.requestId}`,

      noteRequest: (p) => sql`
        update dbq_workers set heartbeat_at = ${d.now(p)}, beat = beat + 1, host = ${p.host}, request_id = ${p.requestId},
          requested_at = ${d.time(p.startedAt)}
        where id = ${p.workerId}`,
    }) satisfies Record<string, Statement>,
);

const requestOf = (claim: ClaimRequest) => sessionAsked.of(claim) as SessionRequest;

const repeated = sessionAnswered.with("repeated");

export const sessionsOwn: Claimant = {
  appliesTo: (claim) => sessionAsked.of(claim) !== undefined,

  *lock(claim, { dialect }) {
    const { id: requestId, anew } = requestOf(claim);
    const [row] = yield* rows(statementsOf(dialect).lock, { workerId: claim.workerId, requestId });
    if (!row) return { answer: { registered: false } };
    const [startedAt, isKnown, version] = row.map(Number) as [number, number, number];
    return isKnown === 1 && !anew ? { answer: repeated } : { startedAt, version };
  },

  *note(claim, { dialect }, startedAt) {
    const { id: requestId, host } = requestOf(claim);
    yield* count(statementsOf(dialect).noteRequest, { workerId: claim.workerId, requestId, host, startedAt });
  },

  *nothing(claim, { dialect }) {
    const { id: requestId, anew } = requestOf(claim);
    if (anew) return {};
    const hasIt = yield* rows(statementsOf(dialect).hasRequest, { workerId: claim.workerId, requestId });
    return hasIt.length > 0 ? repeated : {};
  },

  /** The row's state is 2 while it has this request. */
  inOne(d, p) {
    const now = d.now(p);
    const isRepeated = sql`(coalesce(request_id, '') = ${p.requestId} and not ${p.anew}::boolean)`;
    return {
      state: sql`case when ${isRepeated} then 2 else 1 end`,
      lock: d.locked,
      note: sql`noted as (
      update dbq_workers set heartbeat_at = ${now}, beat = beat + 1, host = ${p.host}, request_id = ${p.requestId},
        requested_at = ${now}
      where id = ${p.workerId} and exists (select 1 from admitted)),`,
      unlocked: sql`(select count(*) * 2 from dbq_workers where id = ${p.workerId} and ${isRepeated})`,
    };
  },

  params(claim) {
    const { id: requestId, host, anew } = requestOf(claim);
    return { requestId, host, anew };
  },

  refused: repeated,
};
