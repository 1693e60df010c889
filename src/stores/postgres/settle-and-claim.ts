/**
 * A worker's cycle as one statement: on Postgres, completed tasks are settled and as many are claimed in one round trip.
 * The steps of the claim are those of `sql/claim.ts`, under the same names.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { memoize } from "../../base/runtime/memoize.ts";
import { performance } from "../../base/runtime/timers.ts";
import type { ClaimRequest, Outcome, SettleAndClaim } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { crashSensitiveSql, Depth } from "../sql/admission.ts";
import type { ClaimPipeline } from "../sql/claim.ts";
import { type Claimant, type ClaimantInOne, claimantOf, hasPolicyFor } from "../sql/claim-features.ts";
import { byClaimOrder, type Pairs, pairsOf, withProbes } from "../sql/claim-steps.ts";
import { listed } from "../sql/columns.ts";
import type { Dialect, Params, Row } from "../sql/dialect.ts";
import { hasNumber } from "../sql/exact-ids.ts";
import { notifyChange, type Program, rows, startsNothing, transaction } from "../sql/program.ts";
import { probeNames } from "../sql/queries.ts";
import { candidateColumns, toCandidate, toClaimed } from "../sql/rows.ts";
import { type CycleResult, type FurtherClaim, SettleAndClaimOperations } from "../sql/settle-and-claim.ts";
import { itemColumns, itemOf, keyAtClaim, type Statement } from "../sql/statements.ts";
import type { Texts } from "../sql/texts.ts";
import { mayHaveParent, type Transitions } from "../sql/transitions.ts";
import { type ClaimCursor, ClaimCursors, start as startOfClaims } from "./claim-cursor.ts";
import { idOfClaims } from "./dialect.ts";

type Completed = Extract<Outcome, { kind: "completed" }>;

/** Below all ids: a row that another client inserted may have any. */
const lowestId = "-9223372036854775808";

/** Each probe is three queries. */
const mostProbes = 80;

const cursorNames = (i: number) => [`priority${i}`, `after${i}`] as const;

// ---- the statement ---------------------------------------------------------------------------

const sensitive = sql.raw(`(${crashSensitiveSql})`);

/** Whether a task has expired. It is not claimed, and ended by a claim of its own. */
const isExpired = (now: SQL) => sql`(started_at is null and expires_at is not null and expires_at <= ${now})`;

const pending = (
  d: Dialect,
  queueName: unknown,
  func: unknown,
) => sql`queue_name = ${queueName} and func = ${func}
        and status = 'pending' and (wait_until is null or wait_until <= ${d.now({})}) and ${hasNumber}`;

/** Which tasks a statement looks for. `behind`: those behind tasks that the policy refused, so only those that it admits. */
type Look = "all" | "behind";

/** The candidates of one function of one queue: of a higher priority than the cursor's, of the same behind it, of a lower one. */
function candidatesOf(d: Dialect, p: Params, i: number, look: Look): SQL {
  const [queue, func] = probeNames(i);
  const [priority, after] = cursorNames(i);
  const part = (where: SQL, from: SQL) => {
    const near = (limit: unknown) => sql`
      select id, priority, queue_name, func, ${from} as after, ${sensitive} as crash_sensitive from ${d.tasks}
      where ${pending(d, p[queue], p[func])} and ${where} order by ${d.byPriority} limit ${limit}`;
    if (look === "all") return sql`(${near(p.limit)})`;
    return sql`(select * from (${near(p.depth)}) as near
      where not crash_sensitive order by priority desc, id limit ${p.limit})`;
  };
  const [at, id] = [sql`${p[priority]}::integer`, sql`${p[after]}::bigint`];
  const all = sql.raw(`'${lowestId}'::bigint`);
  return sql.join(
    [
      part(sql`priority > ${at}`, all),
      part(sql`priority = ${at} and ${idOfClaims} > ${id}`, id),
      part(sql`priority < ${at}`, all),
    ],
    sql` union all `,
  );
}

/** Beside the claimed tasks, the statement answers with one row of facts, in the columns behind those of a task. */
const noFacts =
  sql.raw(`null::bigint as state, null::bigint as candidates, null::text as settled, null::bigint as now,
      null::float8 as took, null::bigint as locked, null::bigint as expired`);
/** Only the row of facts has a value in this column. */
const stateAt = candidateColumns.length;

/** In the row of facts, which always comes: the commit of the statement does not wait for the disk. */
const relaxed = sql.raw("where set_config('synchronous_commit', 'off', true) = 'off'");

/** The claimant's row, locked so that a rescue cannot delete it during the claim. It names the version that the claim knows. */
const rowOf = ({ state, lock }: ClaimantInOne, d: Dialect, p: Params) => sql`
      select ${state} as state from dbq_workers
      where id = ${p.workerId} and limits_version = ${d.integer(p.version)} and exists (select 1 from candidates) ${lock}`;

function settleAndClaimStatement(
  d: Dialect,
  settled: (p: Params) => SQL,
  probes: number,
  look: Look,
  whose: Claimant,
  isRelaxed: boolean,
): Statement {
  const now = d.now({});
  const columns = listed(d, "dbq_tasks", candidateColumns, { givenKey: true });
  const noTask = sql.raw(candidateColumns.map(() => "null").join(", "));
  const admitted = look === "all" ? sql.raw("") : sql`and not ${sensitive}`;
  const each = Array.from({ length: probes }, (_, i) => i);
  return (p) => {
    const claimant = whose.inOne(d, p);
    return sql`
    with settled as (${settled(p)}),
    candidates as (${sql.join(
      each.map((i) => candidatesOf(d, p, i, look)),
      sql` union all `,
    )} order by priority desc, id limit ${p.limit}),
    worker as (${rowOf(claimant, d, p)}),
    wanted as (select queue_name, func, priority, after, count(*) as n from candidates, worker where state = 1
      group by queue_name, func, priority, after),
    locked as (
      select found.* from wanted cross join lateral (
        select id, generation_id, priority, ${sensitive} as crash_sensitive, ${isExpired(now)} as expired from ${d.tasks}
        where ${pending(d, sql.raw("wanted.queue_name"), sql.raw("wanted.func"))} ${admitted}
          and priority = wanted.priority and ${idOfClaims} > wanted.after and generation_id < ${sql.raw(String(Number.MAX_SAFE_INTEGER))}
        order by ${d.byPriority} limit wanted.n for update skip locked) as found),
    admitted as (
      select id, generation_id from (
        select *, row_number() over (partition by crash_sensitive order by priority desc, id) as place from locked where not expired) as placed
      where place <= ${p.crashSensitive} or not crash_sensitive),
    ${claimant.note}
    claimed as (
      update ${d.tasks} set status = 'running', generation_id = dbq_tasks.generation_id + 1, worker_id = ${p.workerId},
        started_at = ${now}, updated_at = ${now}, progress = null, progress_note = null, unique_key = ${keyAtClaim(now)}
      from unnest(array(select id from admitted), array(select generation_id from admitted)) as mine (id, generation_id)
      where dbq_tasks.id = ${d.only(sql.raw("mine.id"))} and dbq_tasks.generation_id = mine.generation_id
      returning dbq_tasks.*)
    select ${columns}, ${noFacts} from claimed
    union all
    select ${noTask}, coalesce((select state from worker), ${claimant.unlocked}), (select count(*) from candidates),
      (select string_agg(id::text, ',') from settled), ${d.millis(now)},
      date_part('epoch', clock_timestamp() - statement_timestamp()) * 1000, (select count(*) from locked), (select count(*) from locked where expired)
      ${isRelaxed ? relaxed : sql.raw("")}`;
  };
}

/** The statements of a cycle by the number of probes: made once in a process. */
export interface CycleStatements {
  readonly of: (claimant: Claimant) => Record<Look, (probes: number) => Statement>;
  /** Whether their commits do not wait for the disk. */
  readonly isRelaxed: boolean;
}

export function cycleStatements({ dialect, statements }: Texts, isRelaxed = false): CycleStatements {
  const many = dialect.items as NonNullable<Dialect["items"]>;
  const settled = (p: Params) =>
    sql`${statements.complete(
      { id: itemOf("id"), generationId: itemOf("generationId"), result: itemOf("result") },
      many(sql`${p.items}`, itemColumns(["id", "generationId", "result"])),
    )} returning dbq_tasks.id`;
  const of = (whose: Claimant, look: Look) =>
    memoize((probes: number) => settleAndClaimStatement(dialect, settled, probes, look, whose, isRelaxed));
  return { of: memoize((whose) => ({ all: of(whose, "all"), behind: of(whose, "behind") })), isRelaxed };
}

type Answer = ReturnType<typeof answerOf>;

/** What one statement did. */
function answerOf(answer: readonly Row[], workerId: string) {
  const facts = answer.find((row) => row[stateAt] !== null) ?? [];
  const [state, candidates, settled, now, took, locked, expired] = facts.slice(stateAt);
  const startedAt = Number(now);
  const toTask = (row: Row): TaskRecord => {
    const task = toCandidate(row);
    // The rows are those after the claim.
    return toClaimed(task, task.generationId, workerId, startedAt);
  };
  return {
    settled: new Set(String(settled ?? "").split(",")),
    claimed: answer
      .filter((row) => row !== facts)
      .map(toTask)
      .sort(byClaimOrder),
    /** How many tasks it read, and how many of them it locked. */
    candidates: Number(candidates),
    locked: Number(locked),
    /** How many of those have expired, and were not claimed. */
    expired: Number(expired),
    // Not known where there was nothing to claim: an idle worker locks nothing.
    registered: Number(state) > 0 || Number(candidates) === 0,
    knowsVersion: Number(state) === 1,
    isRefused: Number(state) === 2,
    /** Milliseconds on the server. */
    took: Number(took),
  };
}

// ---- the cycle -------------------------------------------------------------------------------

/** A result that is complete only when nothing can undo the cycle any more: its claim then moves the cursors. */
type Pending = () => CycleResult;

/** The cycles of one queue on Postgres, most of them in one statement. */
export class OneStatementCycles extends SettleAndClaimOperations {
  readonly #statements: CycleStatements;
  readonly #depth = new Depth();
  /** For each set of queues and functions: a claim for some says nothing about where the tasks of others are. */
  readonly #cursorsOf = memoize((_pairs: string) => new ClaimCursors());
  #rewinds = 0;

  constructor(texts: Texts, transitions: Transitions, claims: ClaimPipeline, statements: CycleStatements) {
    super(texts, transitions, claims);
    this.#statements = statements;
  }

  override rewind(): void {
    this.#rewinds += 1;
  }

  /**
   * One statement settles only completed tasks without a parent, each once: two outcomes of one task go one after the other, and
   * other kinds of outcomes take several statements. Then the cycle is a transaction, in which the claim is one statement; after
   * outcomes of children, the claim follows the transaction.
   */
  override *run(cycle: SettleAndClaim): Program<CycleResult> {
    const { outcomes, claim } = cycle;
    const completed = outcomes.filter((outcome) => outcome.kind === "completed");
    const ids = new Set(completed.map(({ id }) => id));
    const isSimple = ids.size === outcomes.length && !outcomes.some(mayHaveParent);
    // Only a transaction can begin with the statement that relaxes its commit.
    if (!claim && isSimple && !this.#statements.isRelaxed)
      return { settled: yield* this.settle(outcomes), claimed: [], more: false, registered: true };
    const pairs = claim ? pairsOf(claim) : [];
    if (
      !claim ||
      pairs.length === 0 ||
      pairs.length > mostProbes ||
      hasPolicyFor(this.claims.features, claim) ||
      this.claims.others.concern(claim)
    )
      return yield* super.run(cycle);
    if (isSimple) return yield* this.#checked((yield* this.#inOne(completed, claim, pairs))(), claim);
    if (outcomes.some(mayHaveParent)) {
      const settled = yield* transaction(() => this.settle(outcomes), true);
      return {
        ...{ settled, claimed: [], more: false, registered: true },
        further: () => this.#claimAlone(outcomes, claim, pairs),
      };
    }
    const [settled, claimed] = yield* transaction(() => this.#settleThenClaim(outcomes, claim, pairs), true);
    return yield* this.#checked({ ...claimed(), settled }, claim);
  }

  /**
   * The statement has found no row of this worker that names the known version: the pipeline finds out whether the worker is not
   * registered, or has to learn of another version. By itself if the cycle has settled something: that is
   * committed by now.
   */
  *#checked(result: CycleResult, claim: ClaimRequest): Program<CycleResult> {
    if (result.registered) return result;
    const claimAnew = () => super.run({ outcomes: [], claim });
    if (result.settled.length === 0) return yield* claimAnew();
    return { ...result, more: false, registered: true, further: claimAnew };
  }

  *#settleThenClaim(
    outcomes: readonly Outcome[],
    claim: ClaimRequest,
    pairs: Pairs,
  ): Program<[boolean[], Pending]> {
    const settled = yield* this.settle(outcomes);
    return [settled, yield* this.#inOne([], claim, pairs, handsBack(outcomes))];
  }

  /**
   * Claims after the transaction that has settled these outcomes. That one locks the parents of the tasks, and each of their other
   * children waits for the lock to settle: it is not held while the server looks for work.
   */
  *#claimAlone(outcomes: readonly Outcome[], claim: ClaimRequest, pairs: Pairs): Program<CycleResult> {
    const claimed = yield* this.#inOne([], claim, pairs, handsBack(outcomes));
    return yield* this.#checked(claimed(), claim);
  }

  *#inOne(
    completed: readonly Completed[],
    claim: ClaimRequest,
    pairs: Pairs,
    fromStart = false,
  ): Program<Pending> {
    const cursors = this.#cursorsOf(JSON.stringify(pairs));
    const rewinds = this.#rewinds;
    const fromCursors = !fromStart && cursors.may(rewinds);
    const answer = yield* this.#ask("all", completed, claim, pairs, (key) => cursors.of(key, fromCursors));
    if (completed.length > 0) yield* notifyChange();
    const { others } = this.claims;
    if (completed.length > 0 && answer.knowsVersion && others.isPlain(claim, others.version))
      yield* startsNothing();
    const { settled, claimed, candidates, locked, registered, isRefused, took } = answer;
    const full = candidates === claim.limit;
    const last = lastOfEach(claimed);
    const settledOf = () => completed.map(({ id }) => settled.has(String(id)));
    return () => {
      const leftSome = claimed.length < locked;
      // Nothing was looked at, so it says nothing about where the next tasks are.
      if (isRefused)
        return {
          ...{ settled: settledOf(), claimed, more: false, registered },
          ...claimantOf(this.claims.features, claim).refused,
        };
      const behind = cursors.note({ fromCursors, full, leftSome, took, rewinds }, last);
      return {
        settled: settledOf(),
        claimed,
        // The policy would refuse the same tasks again: they do not count.
        more: behind || ((claimed.length > 0 || locked === 0) && (full || claimed.length < candidates)),
        registered,
        further:
          answer.expired > 0
            ? () => this.#endExpired(answer, claim)
            : this.#behindRefused(answer, claim, pairs),
      };
    };
  }

  /** When the policy refused tasks that the claim had room for: what claims tasks that are behind them. */
  #behindRefused({ claimed, candidates, locked }: Answer, claim: ClaimRequest, pairs: Pairs) {
    const room = claim.limit - claimed.length;
    const hidden = claimed.length < locked && candidates === claim.limit;
    // What a claimant notes, it notes by the first claim that finds tasks.
    if (claimantOf(this.claims.features, claim).note && claimed.length > 0) return undefined;
    if (!hidden || room === 0 || this.#depth.after(claim.limit, claim.limit) === undefined) return undefined;
    return () => this.#claimBehind({ ...claim, limit: room }, pairs);
  }

  /** The pipeline ends the expired tasks that it finds, in the transaction in which it claims. */
  *#endExpired({ claimed, expired }: Answer, claim: ClaimRequest): Program<FurtherClaim> {
    const limit = Math.max(expired, claim.limit - claimed.length);
    return yield* super.run({ outcomes: [], claim: { ...claim, limit: Math.min(limit, claim.limit) } });
  }

  *#claimBehind(claim: ClaimRequest, pairs: Pairs): Program<FurtherClaim> {
    const start = performance.now();
    const { claimed } = yield* this.#ask("behind", [], claim, pairs, () => startOfClaims);
    if (claimed.length === 0) this.#depth.inVain(start);
    return { claimed, more: claimed.length > 0 };
  }

  *#ask(
    look: Look,
    completed: readonly Completed[],
    claim: ClaimRequest,
    pairs: Pairs,
    cursorOf: (key: string) => ClaimCursor,
  ): Program<Answer> {
    // By id: two transactions that took the same rows in different orders would wait for each other.
    const items = completed
      .map(({ id, generationId, result }) => ({ id, generationId, result }))
      .sort((a, b) => a.id - b.id);
    const { workerId, limit, crashSensitive = limit } = claim;
    const claimant = claimantOf(this.claims.features, claim);
    const depth = Depth.bound(limit);
    const params: Record<string, unknown> = {
      items: JSON.stringify(items),
      workerId,
      limit,
      crashSensitive,
      depth,
      version: this.claims.others.version,
      ...claimant.params?.(claim),
    };
    for (const [i, pair] of pairs.entries()) {
      const [priorityName, afterName] = cursorNames(i);
      const { priority, id } = cursorOf(keyOf(...pair));
      params[priorityName] = priority;
      params[afterName] = id;
    }
    const statement = this.#statements.of(claimant)[look](pairs.length);
    return answerOf(yield* rows(statement, withProbes(params, pairs)), workerId);
  }
}

/** A task that the cycle hands back may stand before the cursors. */
const handsBack = (outcomes: readonly Outcome[]): boolean =>
  outcomes.some(({ kind }) => kind === "interrupted");

const keyOf = (queueName: string, func: string) => JSON.stringify([queueName, func]);

/** The last task of each function of each queue. Tasks of one function often stand together: its key is then made once. */
function lastOfEach(claimed: readonly TaskRecord[]): Map<string, ClaimCursor> {
  const last = new Map<string, ClaimCursor>();
  for (const [i, task] of claimed.entries()) {
    const next = claimed[i + 1];
    if (next?.func === task.func && next.queueName === task.queueName) continue;
    last.set(keyOf(task.queueName, task.func), task);
  }
  return last;
}
