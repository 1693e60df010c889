/** On Postgres a turn of a worker is one statement: what has completed is settled, and as much is claimed, in one round trip. */
import { sql } from "drizzle-orm/sql/sql";
import type { ClaimRequest, Outcome, Turn, TurnResult } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import type { Dialect } from "./dialect.ts";
import type { Operations } from "./operations.ts";
import { probes } from "./questions.ts";
import { candidateColumns, type Row, toClaimed } from "./rows.ts";
import { itemColumns, itemOf, listed, type Params, type Statement } from "./statements.ts";
import { type Op, rows, tell, transaction } from "./steps.ts";
import { probed } from "./turn-operations.ts";

type Completed = Extract<Outcome, { kind: "completed" }>;

/** Beside the tasks that were claimed, one row of facts. */
const facts = 4;

function turnStatement(d: Dialect, settled: (p: Params) => ReturnType<Statement>): (n: number) => Statement {
  const now = sql.raw("statement_timestamp()");
  const columns = listed(d, candidateColumns);
  const nulls = sql.raw(candidateColumns.replace(/\w+/g, "null"));
  return (n) => (p) =>
    sql`
    with settled as (${settled(p)}),
    seen as (${probes(d, sql.raw("id, priority, queue_name, func"), n)(p)}),
    asking as (select 1 from dbq_workers where id = ${p.workerId} and exists (select 1 from seen) ${d.shared}),
    wanted as (select queue_name, func, count(*) as n from seen, asking group by queue_name, func),
    found as (
      select locked.* from wanted cross join lateral (
        select id, generation_id from dbq_tasks
        where queue_name = wanted.queue_name and func = wanted.func and status = 'pending'
          and (wait_until is null or wait_until <= ${now}) and generation_id < ${sql.raw(String(Number.MAX_SAFE_INTEGER))}
        order by priority desc, id limit wanted.n for update skip locked) as locked),
    claimed as (
      update dbq_tasks set status = 'running', generation_id = dbq_tasks.generation_id + 1, worker_id = ${p.workerId},
        started_at = ${now}, updated_at = ${now}, progress = null, progress_note = null
      from found where dbq_tasks.id = any (array(select id from found)) and dbq_tasks.id = found.id and dbq_tasks.generation_id = found.generation_id
      returning dbq_tasks.*)
    select null::bigint as f1, null::bigint as f2, null::text as f3, null::bigint as f4, ${columns} from claimed
    union all
    select (select count(*) from asking), (select count(*) from seen), (select string_agg(id::text, ',') from settled),
      ${d.millis(now)}, ${nulls}`;
}

/** The operations of Postgres, with turns in one statement. */
export function turnInOne(ops: Operations, d: Dialect): Operations {
  const { complete } = ops.statements;
  const many = d.items as NonNullable<Dialect["items"]>;
  const completing = (p: Params) =>
    sql`${complete(
      { id: itemOf("id"), generationId: itemOf("generationId"), result: itemOf("result") },
      many(sql`${p.items}`, itemColumns(["id", "generationId", "result"])),
    )} returning dbq_tasks.id`;
  const made = new Map<number, Statement>();
  const make = turnStatement(d, completing);
  const statementFor = (n: number) => {
    const statement = made.get(n) ?? make(n);
    made.set(n, statement);
    return statement;
  };

  function* inOne(completed: readonly Completed[], claim: ClaimRequest, pairs: Params): Op<TurnResult> {
    // By id: two who took the same rows in different orders would wait for each other.
    const list = completed
      .map(({ id, generationId, result }) => ({ id, generationId, result }))
      .sort((a, b) => a.id - b.id);
    const { workerId, limit } = claim;
    const params = { ...pairs, items: JSON.stringify(list), workerId, limit };
    const answer = yield* rows(statementFor(claim.queueNames.length * claim.funcs.length), params);
    if (completed.length > 0) yield* tell();
    const said = answer.find((row) => row[0] !== null) ?? [];
    const ids = new Set(String(said[2] ?? "").split(","));
    const [seen, now] = [Number(said[1]), Number(said[3])];
    const claimed = answer
      .filter((row) => row[0] === null)
      .map((row) => asClaimed(row.slice(facts), workerId, now));
    return {
      settled: completed.map(({ id }) => ids.has(String(id))),
      claimed: claimed.sort(byClaimOrder),
      more: seen === limit || claimed.length < seen,
      // Nobody asks for the row of a worker that found nothing: whoever looks in vain writes nothing.
      registered: Number(said[0]) > 0 || seen === 0,
    };
  }

  /** Two outcomes of one task go one after the other; and what has not completed has more than one statement to it; then all of the turn is a transaction. */
  function* turn(asked: Turn): Op<TurnResult> {
    const { outcomes, claim } = asked;
    const pairs = claim && probed(claim);
    if (!claim || !pairs) return yield* ops.turn(asked);
    const completed = outcomes.filter((outcome) => outcome.kind === "completed");
    const ids = new Set(completed.map(({ id }) => id));
    if (ids.size === outcomes.length) return yield* inOne(completed, claim, pairs);
    return yield* transaction(function* () {
      const { settled } = yield* ops.turn({ outcomes, claim: undefined });
      return { ...(yield* inOne([], claim, pairs)), settled };
    }, true);
  }

  return { ...ops, turn };
}

/** The rows are those after the claim. */
function asClaimed(row: Row, workerId: string, startedAt: number): TaskRecord {
  const record = toClaimed(row, workerId, startedAt);
  return { ...record, generationId: record.generationId - 1 };
}

const byClaimOrder = (a: TaskRecord, b: TaskRecord) => b.priority - a.priority || a.id - b.id;
