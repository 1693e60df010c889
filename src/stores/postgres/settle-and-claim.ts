/** On Postgres a turn of a worker is one statement: what has completed is settled, and as much is claimed, in one round trip. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { memoize } from "../../base/runtime/memoize.ts";
import type { ClaimRequest, Outcome, SettleAndClaim, SettleAndClaimResult } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { type Pairs, pairsOf, probeParams } from "../sql/claim.ts";
import { listed } from "../sql/columns.ts";
import type { Dialect } from "../sql/dialect.ts";
import { notifyChange, type Program, rows, transaction } from "../sql/program.ts";
import { probeNames } from "../sql/queries.ts";
import { candidateColumns, type Row, toClaimed } from "../sql/rows.ts";
import { itemColumns, itemOf, type Params, type Statement } from "../sql/statements.ts";
import type { Operations } from "../sql/tasks.ts";
import { type ClaimCursor, ClaimCursors } from "./claim-cursor.ts";

type Completed = Extract<Outcome, { kind: "completed" }>;

/** Beside the tasks that were claimed, one row of facts. */
const facts = 6;

/** Before all ids: who inserts a row by himself may give it any. */
const first = "-9223372036854775808";

/** Probes are three queries each. */
const mostProbes = 80;

const headNames = (i: number) => [`priority${i}`, `after${i}`] as const;

const pending = (queueName: unknown, func: unknown) => sql`queue_name = ${queueName} and func = ${func}
        and status = 'pending' and (wait_until is null or wait_until <= statement_timestamp())`;

/** What may be claimed of one function of one queue: of higher priority than its head, of the same and later, of lower. */
function seenOf(p: Params, i: number): SQL {
  const [queue, func] = probeNames(i);
  const [priority, after] = headNames(i);
  const part = (where: SQL, from: SQL) => sql`(
      select id, priority, queue_name, func, ${from} as after from dbq_tasks
      where ${pending(p[queue], p[func])} and ${where} order by priority desc, id limit ${p.limit})`;
  const [head, id] = [sql`${p[priority]}::integer`, sql`${p[after]}::bigint`];
  const all = sql.raw(`'${first}'::bigint`);
  return sql.join(
    [
      part(sql`priority > ${head}`, all),
      part(sql`priority = ${head} and id > ${id}`, id),
      part(sql`priority < ${head}`, all),
    ],
    sql` union all `,
  );
}

function settleAndClaimStatement(d: Dialect, settled: (p: Params) => SQL): (n: number) => Statement {
  const now = sql.raw("statement_timestamp()");
  const columns = listed(d, "dbq_tasks", candidateColumns);
  const nulls = sql.raw(candidateColumns.map(() => "null").join(", "));
  return (n) => (p) =>
    sql`
    with settled as (${settled(p)}),
    seen as (${sql.join(
      Array.from({ length: n }, (_, i) => seenOf(p, i)),
      sql` union all `,
    )} order by priority desc, id limit ${p.limit}),
    asking as (select 1 from dbq_workers where id = ${p.workerId} and exists (select 1 from seen) ${d.shared}),
    wanted as (select queue_name, func, priority, after, count(*) as n from seen, asking group by queue_name, func, priority, after),
    found as (
      select locked.* from wanted cross join lateral (
        select id, generation_id, priority, retry_count > 0 or max_retries = 0 as crash_sensitive from dbq_tasks
        where ${pending(sql.raw("wanted.queue_name"), sql.raw("wanted.func"))}
          and priority = wanted.priority and id > wanted.after and generation_id < ${sql.raw(String(Number.MAX_SAFE_INTEGER))}
        order by priority desc, id limit wanted.n for update skip locked) as locked),
    chosen as (
      select id, generation_id from (
        select *, row_number() over (partition by crash_sensitive order by priority desc, id) as place from found) as placed
      where place <= ${p.crashSensitive} or not crash_sensitive),
    claimed as (
      update dbq_tasks set status = 'running', generation_id = dbq_tasks.generation_id + 1, worker_id = ${p.workerId},
        started_at = ${now}, updated_at = ${now}, progress = null, progress_note = null
      from unnest(array(select id from chosen), array(select generation_id from chosen)) as mine (id, generation_id)
      where dbq_tasks.id = ${d.only(sql.raw("mine.id"))} and dbq_tasks.generation_id = mine.generation_id
      returning dbq_tasks.*)
    select null::bigint as f1, null::bigint as f2, null::text as f3, null::bigint as f4, null::float8 as f5, null::bigint as f6, ${columns} from claimed
    union all
    select (select count(*) from asking), (select count(*) from seen), (select string_agg(id::text, ',') from settled),
      ${d.millis(now)}, date_part('epoch', clock_timestamp() - ${now}) * 1000, (select count(*) from found),
      ${nulls}`;
}

/** The statement of a turn, for each number of probes: made once, whichever queue asks first. */
export function settleAndClaimStatements(ops: Operations, d: Dialect): (probes: number) => Statement {
  const { complete } = ops.statements;
  const many = d.items as NonNullable<Dialect["items"]>;
  const completing = (p: Params) =>
    sql`${complete(
      { id: itemOf("id"), generationId: itemOf("generationId"), result: itemOf("result") },
      many(sql`${p.items}`, itemColumns(["id", "generationId", "result"])),
    )} returning dbq_tasks.id`;
  return memoize(settleAndClaimStatement(d, completing));
}

/** The operations of one queue on Postgres, with turns in one statement. */
export function oneStatementOperations(
  ops: Operations,
  statementFor: (probes: number) => Statement,
): Operations {
  /** For each set of queues and functions that is looked for: a look for some says nothing of where others are. */
  const headsOf = memoize((_pairs: string) => new ClaimCursors());
  let rewinds = 0;
  const headParams = (heads: ClaimCursors, pairs: Pairs, fromHeads: boolean) =>
    pairs.map((pair, i) => {
      const { priority, id } = heads.of(keyOf(...pair), fromHeads);
      const [priorityName, afterName] = headNames(i);
      return { [priorityName]: priority, [afterName]: id };
    });

  /** @returns the result, to be asked for when nothing can undo the turn any more: what it claimed counts for the next look */
  function* inOne(
    completed: readonly Completed[],
    claim: ClaimRequest,
    pairs: Pairs,
  ): Program<() => SettleAndClaimResult> {
    // By id: two who took the same rows in different orders would wait for each other.
    const list = completed
      .map(({ id, generationId, result }) => ({ id, generationId, result }))
      .sort((a, b) => a.id - b.id);
    const { workerId, limit, crashSensitive = limit } = claim;
    const seenRewinds = rewinds;
    const heads = headsOf(JSON.stringify(pairs));
    const fromHeads = heads.may(rewinds);
    const params = Object.assign(
      { items: JSON.stringify(list), workerId, limit, crashSensitive },
      probeParams(pairs),
      ...headParams(heads, pairs, fromHeads),
    );
    const answer = yield* rows(statementFor(pairs.length), params);
    if (completed.length > 0) yield* notifyChange();
    const said = answer.find((row) => row[0] !== null) ?? [];
    const ids = new Set(String(said[2] ?? "").split(","));
    const [seen, now, took, found] = [Number(said[1]), Number(said[3]), Number(said[4]), Number(said[5])];
    const claimed = answer
      .filter((row) => row[0] === null)
      .map((row) => asClaimed(row.slice(facts), workerId, now))
      .sort(byClaimOrder);
    const leaves = claimed.length < found;
    const last = new Map<string, ClaimCursor>(
      claimed.map((task) => [keyOf(task.queueName, task.func), task]),
    );
    return () => {
      const behind = heads.note(
        { fromHeads, full: seen === limit, leaves, took, rewinds: seenRewinds },
        last,
      );
      return {
        settled: completed.map(({ id }) => ids.has(String(id))),
        claimed,
        more: behind || seen === limit || claimed.length < seen,
        // Nobody asks for the row of a worker that found nothing: whoever looks in vain writes nothing.
        registered: Number(said[0]) > 0 || seen === 0,
      };
    };
  }

  /** Two outcomes of one task go one after the other; and what has not completed has more than one statement to it; then all of the turn is a transaction. */
  function* turn(asked: SettleAndClaim): Program<SettleAndClaimResult> {
    const { outcomes, claim } = asked;
    const pairs = claim && pairsOf(claim);
    if (!claim || !pairs || pairs.length === 0 || pairs.length > mostProbes) return yield* ops.turn(asked);
    const completed = outcomes.filter((outcome) => outcome.kind === "completed");
    const ids = new Set(completed.map(({ id }) => id));
    if (ids.size === outcomes.length) return (yield* inOne(completed, claim, pairs))();
    const { settled, claimed } = yield* transaction(function* () {
      const { settled } = yield* ops.turn({ outcomes, claim: undefined });
      return { settled, claimed: yield* inOne([], claim, pairs) };
    }, true);
    return { ...claimed(), settled };
  }

  const rewind = () => {
    rewinds += 1;
  };
  return { ...ops, turn, rewind };
}

/** The rows are those after the claim. */
function asClaimed(row: Row, workerId: string, startedAt: number): TaskRecord {
  const record = toClaimed(row, workerId, startedAt);
  return { ...record, generationId: record.generationId - 1 };
}

const keyOf = (queueName: string, func: string) => JSON.stringify([queueName, func]);

const byClaimOrder = (a: TaskRecord, b: TaskRecord) => b.priority - a.priority || a.id - b.id;
