/** What watchers of causes have reported, each operation written once for all databases. `CauseReportStore` in its contract says what they promise. */
import { sql } from "drizzle-orm/sql/sql";
import { groupBy } from "../../../base/values/group-by.ts";
import type { Dialect } from "../../../stores/sql/dialect.ts";
import { count, type Program, type Runner, rows } from "../../../stores/sql/program.ts";
import { int } from "../../../stores/sql/rows.ts";
import { before, itemColumns, itemOf, type Statement } from "../../../stores/sql/statements.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import type { CauseReport, CauseReportStore, FoundCause, Reporter } from "../contract.ts";

/** Milliseconds that a cause which has ended is kept, and a name that nobody reports for. */
const keepEnded = 86_400_000;
const keepName = 7 * keepEnded;

/** Names that one reporter deletes when it begins. */
const mostNames = 100;

/** Rows that one INSERT writes. */
const insertBatch = 500;

/** MySQL has it as a word of its own. */
const key = sql.identifier("key");

function causeReportStatements(d: Dialect) {
  const named = (p: Parameters<Statement>[0]) => d.same("name", p.name);
  const isLease = (p: Parameters<Statement>[0]) => sql`${named(p)} and ${key} = ''`;
  const isCause = (p: Parameters<Statement>[0]) => sql`${named(p)} and ${key} <> ''`;
  const left = (p: Parameters<Statement>[0]) =>
    sql`case when reporter is null or ended_at is null then 0 else ${d.minus(sql.raw("ended_at"), d.now(p))} end`;
  return {
    /** Milliseconds until the lease runs out. */
    left: (p) => sql`select ${left(p)} from dbq_causes where ${isLease(p)}`,

    add: (p) =>
      sql`insert into dbq_causes (name, ${key}) values (${p.name}, '') ${d.keepExisting("reporter")}`,

    lock: (p) => sql`
      select reporter, ${left(p)} as time_left, ${d.millis(sql.raw("began_at"))} as since, ${d.millis(d.now(p))} as at_now
      from dbq_causes where ${isLease(p)} ${d.locked}`,

    /** The rows of all causes, too: a reporter that comes late finds none that is its own. */
    take: (p) => sql`update dbq_causes set reporter = ${p.reporter} where ${named(p)}`,

    begin: (p) => sql`update dbq_causes set began_at = ${d.now(p)} where ${isLease(p)}`,

    renew: (p) => sql`
      update dbq_causes set seen_at = ${d.now(p)}, ended_at = ${d.plus(d.now(p), d.integer(p.lease))}
      where ${isLease(p)} and reporter = ${p.reporter}`,

    release: (p) => sql`update dbq_causes set reporter = null where ${named(p)} and reporter = ${p.reporter}`,

    stale: (p) => sql`
      select name from dbq_causes where ${key} = '' and seen_at < ${before(d, p)} ${d.atMost(p.most)}`,

    forget: (p) => sql`delete from dbq_causes where ${named(p)}`,

    known: (p) => sql`
      select id, ${key}, ${d.millis(sql.raw("seen_at"))} as seen, ${d.millis(sql.raw("ended_at"))} as ended, reported
      from dbq_causes where ${isCause(p)}`,

    see: (p) => sql`update dbq_causes set seen_at = ${d.now(p)} where ${d.among("id", p.ids)}`,

    end: (p) => sql`update dbq_causes set ended_at = ${d.now(p)} where ${d.among("id", p.ids)}`,

    delete: (p) => sql`delete from dbq_causes where ${d.among("id", p.ids)}`,

    insert: (p) => sql`
      insert into dbq_causes (name, ${key}, cause, began_at, seen_at, reporter)
      select ${p.name}, ${itemOf("key")}, ${d.json(itemOf("cause"))}, ${d.now(p)}, ${d.now(p)}, ${p.reporter}
      from ${d.objects(p.rows, itemColumns(["key", "cause"]))}`,

    /** What the app has not dealt with yet, in the order in which it began. */
    unreported: (p) => sql`
      select id, ${d.text(sql.raw("cause"))} as cause, ${d.millis(sql.raw("ended_at"))} as ended, reported from dbq_causes
      where ${isCause(p)} and (reported is null or (reported = 'began' and ended_at is not null)) order by id`,

    acknowledge: (p) => sql`
      update dbq_causes set reported = ${p.reported} where id = ${p.id} and reporter = ${p.reporter}`,
  } satisfies Record<string, Statement>;
}

/** A cause as it is known, without its JSON. */
interface Known {
  id: number;
  key: string;
  seenAt: number;
  endedAt: number | null;
  reported: unknown;
}

/** What a look changes. */
interface Changes {
  seen: number[];
  ended: number[];
  deleted: number[];
  made: FoundCause[];
}

export class CauseReportOperations {
  readonly #s: ReturnType<typeof causeReportStatements>;

  constructor({ dialect }: Texts) {
    this.#s = causeReportStatements(dialect);
  }

  *left(name: string): Program<number> {
    const [row] = yield* rows(this.#s.left, { name });
    return Math.max(0, Number(row?.[0] ?? 0) || 0);
  }

  *take({ name, reporter, lease }: Reporter): Program<boolean> {
    yield* this.#forgetNames(name);
    yield* count(this.#s.add, { name }, false);
    const [row] = yield* rows(this.#s.lock, { name });
    if (Number(row?.[1]) > 0) return false;
    yield* count(this.#s.take, { name, reporter }, false);
    yield* count(this.#s.begin, { name }, false);
    yield* count(this.#s.renew, { name, reporter, lease }, false);
    return true;
  }

  *#forgetNames(except: string): Program<void> {
    const names = (yield* rows(this.#s.stale, { age: keepName, most: mostNames })).map(([name]) =>
      String(name),
    );
    for (const name of names) if (name !== except) yield* count(this.#s.forget, { name }, false);
  }

  *release(name: string, reporter: string): Program<void> {
    yield* count(this.#s.release, { name, reporter }, false);
  }

  *record(
    of: Reporter,
    found: readonly FoundCause[],
    endedAfter: number,
  ): Program<CauseReport[] | undefined> {
    const { name, reporter } = of;
    const [lease] = yield* rows(this.#s.lock, { name });
    if (lease?.[0] !== reporter) return undefined;
    const [left, since, now] = lease.slice(1).map(Number) as [number, number, number];
    // Nobody has looked meanwhile, and the causes may have been there.
    const isNew = left <= 0;
    if (isNew) yield* count(this.#s.begin, { name }, false);
    yield* count(this.#s.renew, { ...of }, false);
    const known = (yield* rows(this.#s.known, { name })).map(([id, ownKey, seenAt, endedAt, reported]) => ({
      ...{ id: int(id), key: String(ownKey), seenAt: Number(seenAt), reported },
      endedAt: endedAt === null ? null : Number(endedAt),
    }));
    const hasEnded = ({ seenAt }: Known) => now - Math.max(seenAt, isNew ? now : since) >= endedAfter;
    yield* this.#change(of, changesOf(known, found, hasEnded, now));
    return (yield* rows(this.#s.unreported, { name })).flatMap(([id, cause, endedAt, reported]) => {
      const types = [
        ...(reported === "began" ? [] : ["began" as const]),
        ...(endedAt === null ? [] : ["ended" as const]),
      ];
      return types.map((type) => ({ id: int(id), type, cause: String(cause) }));
    });
  }

  *#change({ name, reporter }: Reporter, { seen, ended, deleted, made }: Changes): Program<void> {
    const each = [
      [this.#s.see, seen],
      [this.#s.end, ended],
      [this.#s.delete, deleted],
    ] as const;
    for (const [statement, ids] of each)
      if (ids.length > 0) yield* count(statement, { ids: JSON.stringify(ids) }, false);
    for (let i = 0; i < made.length; i += insertBatch)
      yield* count(
        this.#s.insert,
        { name, reporter, rows: JSON.stringify(made.slice(i, i + insertBatch)) },
        false,
      );
  }

  *acknowledge({ id, type }: Pick<CauseReport, "id" | "type">, reporter: string): Program<boolean> {
    return (yield* count(this.#s.acknowledge, { id, reported: type, reporter }, false)) > 0;
  }
}

/** A cause that has ended is one that begins anew once its end was reported. */
function changesOf(
  known: readonly Known[],
  found: readonly FoundCause[],
  hasEnded: (known: Known) => boolean,
  now: number,
): Changes {
  const byKey = groupBy(known, (one) => one.key);
  const there = new Set(found.map((one) => one.key));
  const isOver = ({ endedAt, reported }: Known) => endedAt !== null && reported === "ended";
  const open = known.filter(({ endedAt }) => endedAt === null);
  const over = known.filter(
    (one) => isOver(one) && (there.has(one.key) || now - (one.endedAt ?? now) >= keepEnded),
  );
  return {
    seen: open.filter((one) => there.has(one.key)).map(({ id }) => id),
    ended: open.filter((one) => !there.has(one.key) && hasEnded(one)).map(({ id }) => id),
    deleted: over.map(({ id }) => id),
    made: found.filter((one) => (byKey.get(one.key) ?? []).every(isOver)),
  };
}

export function reportMethods({ run, write }: Runner, ops: CauseReportOperations): CauseReportStore {
  return {
    take: async (reporter) => {
      // A process that stands by writes nothing.
      const left = await run(() => ops.left(reporter.name));
      if (left > 0) return left;
      return (await write(() => ops.take(reporter)))
        ? 0
        : Math.max(1, await run(() => ops.left(reporter.name)));
    },
    record: (reporter, found, endedAfter) => write(() => ops.record(reporter, found, endedAfter)),
    acknowledge: (report, reporter) => run(() => ops.acknowledge(report, reporter)),
    release: (name, reporter) => run(() => ops.release(name, reporter)),
  };
}
