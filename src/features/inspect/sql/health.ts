/**
 * The queries behind `queue.health()`, each bounded by an index or a limit: they take as long beside a million tasks as
 * beside a thousand. `HealthStore` in `store.ts` says what they promise.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { PendingTasks, QueueDepth } from "../../../base/tasks/pending.ts";
import { groupBy } from "../../../base/values/group-by.ts";
import type { TaskCount } from "../../../store.ts";
import type { Dialect, Row } from "../../../stores/sql/dialect.ts";
import { type Program, type Runner, rows, rowsOnce } from "../../../stores/sql/program.ts";
import { int } from "../../../stores/sql/rows.ts";
import { clockOf, itemColumns, itemOf, type Statement } from "../../../stores/sql/statements.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import type { TaskStatus } from "../../../task.ts";
import type { FunctionInQueue, HeadOfFunction, HealthStore } from "../contract.ts";
import { isSamePair, type Level, PendingNames } from "./pending-names.ts";

/** Of each priority, the first tasks in the order of claims. */
const sampled = 5;

/** Milliseconds, 31 years. SQLite takes a malformed time of another program for that of 1970. */
const longestAge = sql.raw("1000000000000");

/** Probes in one statement: of a list that it goes through, and where it contains each of them. */
const probesAtOnce = { listed: 1_000, written: 50 };

/** Characters of arguments that say which key encrypted them. */
const longestHeader = 120;

/** The values of a level, or the columns that have them. */
type Columns = Readonly<Record<keyof Level, unknown>>;

/** A probe for each level, with its values. */
function union(levels: readonly Level[], probe: (level: Columns) => SQL): SQL {
  const probes = levels.map((level, n) => sql`select ${sql.raw(String(n))} as n, (${probe(level)}) as found`);
  return sql`${sql.join(probes, sql` union all `)} order by n`;
}

export class HealthOperations {
  readonly #dialect: Dialect;
  readonly #clock: Statement;
  readonly #names: PendingNames;

  constructor({ dialect }: Texts) {
    this.#dialect = dialect;
    this.#clock = clockOf(dialect);
    this.#names = new PendingNames(dialect);
  }

  *backlog(most: number, inAll: number): Program<PendingTasks[]> {
    const found = yield* this.#names.levels();
    const shareOf = (levels: readonly Level[]) =>
      Math.min(most, Math.max(1, Math.floor(inAll / pairsIn(levels).length)));
    const first = yield* this.#countsOf(found, shareOf(found));
    const isVaried = (level: Level) => first.get(pairOf(level)) === varied;
    const others = found.some(isVaried) ? yield* this.#names.variantsOf(found.filter(isVaried)) : [];
    const levels = found.flatMap((level, i) => {
      if (!isVaried(level)) return level;
      return isSamePair(level, found[i - 1]) ? [] : others.filter((other) => isLike(other, level));
    });
    const [pairs, share] = [pairsIn(levels), shareOf(levels)];
    const counts = new Map([...first, ...(yield* this.#exactCountsOf(others, share))]);
    const now = Number((yield* rows(this.#clock))[0]?.[0]);
    const ages: Row[] = yield* this.#probes(levels, (level) => this.#age(level, now));
    const ofLevels = levels.map((level, n) => ({ ...level, oldestPendingAge: ageOf(ages[n]?.[1]) }));
    const byPair = groupBy(ofLevels, pairOf);
    return pairs.map(({ queueName, func, ...level }) => {
      const priorities = (byPair.get(pairOf({ ...level, queueName, func })) ?? []).map(
        ({ priority, oldestPendingAge }) => ({ priority, oldestPendingAge }),
      );
      const known = priorities.flatMap(({ oldestPendingAge }) => oldestPendingAge ?? []);
      const pending = Math.min(share, counts.get(pairOf({ ...level, queueName, func })) ?? 0);
      const oldestPendingAge = known.length === 0 ? null : Math.max(...known);
      // A priority without an age may be that of a name that the collation takes for equal.
      const isOwn = (one: (typeof priorities)[number]) =>
        !this.#dialect.padsNames || known.length === 0 || one.oldestPendingAge !== null;
      return {
        queueName,
        func,
        pending,
        more: pending >= share,
        oldestPendingAge,
        priorities: priorities.filter(isOwn),
      };
    });
  }

  /** By `pairOf`. The pairs of names that the collation takes for equal to others are `varied`. */
  *#countsOf(levels: readonly Level[], most: number): Program<Map<string, number>> {
    return yield* this.#countEach(pairsIn(levels), (level) =>
      this.#dialect.padsNames
        ? this.#countAlike(sql`queue_name = ${level.queueName} and func = ${level.func}`, "", most)
        : this.#count(level, most),
    );
  }

  *#exactCountsOf(levels: readonly Level[], most: number): Program<Map<string, number>> {
    return yield* this.#countEach(pairsIn(levels), (level) => this.#count(level, most));
  }

  *#countEach(pairs: readonly Level[], count: (level: Columns) => SQL): Program<Map<string, number>> {
    const counts: Row[] = yield* this.#probes(pairs, count);
    return new Map(pairs.map((pair, n) => [pairOf(pair), Number(counts[n]?.[1])]));
  }

  *depths(inAll: number): Program<QueueDepth[]> {
    const found = yield* this.#names.queues();
    const levelsOf = (queues: readonly string[]) =>
      queues.map((queueName) => ({ queueName, func: "", priority: 0 }));
    const [pads, most] = [this.#dialect.padsNames, Math.max(1, Math.floor(inAll / found.length))];
    const first = yield* this.#countEach(levelsOf(found), ({ queueName }) =>
      pads ? this.#countAlike(sql`queue_name = ${queueName}`, "func, ", most) : this.#depth(queueName, most),
    );
    const isVaried = (level: Level) => first.get(pairOf(level)) === varied;
    if (!levelsOf(found).some(isVaried))
      return levelsOf(found).map((level) => depthOf(level.queueName, first.get(pairOf(level)) ?? 0, most));
    const queues = yield* this.#names.queueVariantsOf(found);
    const share = Math.max(1, Math.floor(inAll / queues.length));
    const exact = yield* this.#countEach(levelsOf(queues), ({ queueName }) => this.#depth(queueName, share));
    return levelsOf(queues).map((level) => depthOf(level.queueName, exact.get(pairOf(level)) ?? 0, share));
  }

  #depth(queueName: unknown, most: number): SQL {
    return sql`select count(*) from (select 1 as one from ${this.#dialect.tasks}
      where ${this.#dialect.same("queue_name", queueName)} and status = 'pending'
      order by func, ${sql.raw(this.#names.byPriority)} ${this.#limit(most)}) as tasks`;
  }

  /** Names that the collation takes for equal differ in their length. To compare bytes takes six times as long as to count. */
  #countAlike(isLike: SQL, order: string, most: number): SQL {
    return sql`select case when min(length) = max(length) then count(*) else ${sql.raw(String(varied))} end from (
      select char_length(queue_name) * 1000 + ${sql.raw(order === "" ? "char_length(func)" : "0")} as length
      from ${this.#dialect.tasks} where ${isLike} and status = 'pending'
      order by ${sql.raw(order + this.#names.byPriority)} ${this.#limit(most)}) as tasks`;
  }

  /** Of each level, the number that the probe finds; as one query, which is planned once, where the database can. */
  *#probes(levels: readonly Level[], probe: (level: Columns) => SQL): Program<Row[]> {
    const { correlates } = this.#dialect;
    const found: Row[] = [];
    const most = correlates ? probesAtOnce.listed : probesAtOnce.written;
    for (let i = 0; i < levels.length; i += most) {
      const some = levels.slice(i, i + most);
      found.push(...(yield* rowsOnce(correlates ? this.#forEach(some, probe) : union(some, probe))));
    }
    return found;
  }

  #forEach(levels: readonly Level[], probe: (level: Columns) => SQL): SQL {
    const list = JSON.stringify(levels.map((level, n) => ({ n, ...level })));
    const columns: Columns = {
      queueName: itemOf("queueName"),
      func: itemOf("func"),
      priority: itemOf("priority"),
    };
    const items = this.#dialect.objects(list, itemColumns(["n", "queueName", "func", "priority"]));
    return sql`select ${itemOf("n")} as n, (${probe(columns)}) as found from ${items} order by 1`;
  }

  /** In the order of the index: without it, Postgres reads the table from its begin until it has found enough. */
  #count(level: Columns, most: number): SQL {
    return sql`select count(*) from (select 1 as one from ${this.#dialect.tasks} where ${this.#isOf(level)}
      order by ${sql.raw(this.#names.byPriority)} ${this.#limit(most)}) as tasks`;
  }

  #age(level: Columns, at: number): SQL {
    const d = this.#dialect;
    const now = d.time(sql.raw(String(at)));
    const since = sql.raw("case when wait_until > updated_at then wait_until else updated_at end");
    const isLevel =
      d.rank === undefined
        ? sql`priority = ${level.priority}`
        : sql`${sql.raw(d.rank)} = -(${level.priority})`;
    const age = d.minus(now, sql`since`);
    return sql`select max(case when ${age} < ${longestAge} then ${age} end) from (
      select ${since} as since from ${d.tasks} where ${this.#isOf(level)} and ${isLevel}
      order by ${d.byPriority} ${this.#limit(sampled)}) as tasks`;
  }

  #isOf({ queueName, func }: Columns): SQL {
    const d = this.#dialect;
    return sql`${d.same("queue_name", queueName)} and ${d.same("func", func)} and status = 'pending'`;
  }

  #limit(most: number): SQL {
    return sql.raw(`limit ${Math.trunc(most)}`);
  }

  *heads(of: readonly FunctionInQueue[]): Program<HeadOfFunction[]> {
    if (of.length === 0) return [];
    const d = this.#dialect;
    const now = d.time(sql.raw(String(Number((yield* rows(this.#clock))[0]?.[0]))));
    const since = sql.raw("case when wait_until > created_at then wait_until else created_at end");
    const probes = of.map(
      (pair, n) => sql`select * from (
        select ${sql.raw(String(n))} as n, id, generation_id, retry_count, ${d.minus(now, since)} as age,
          substr(${d.text(sql`args`)}, 1, ${sql.raw(String(longestHeader))}) as begun
        from ${d.tasks} where ${this.#isOf({ ...pair, priority: 0 })}
        order by ${d.byPriority} ${this.#limit(1)}) as ${sql.raw(`head_${n}`)}`,
    );
    const found = yield* rowsOnce(sql.join(probes, sql` union all `));
    return found
      .map(([n, id, generationId, retryCount, age, args]) => ({
        ...(of[Number(n)] as FunctionInQueue),
        ...{ taskId: int(id), generationId: int(generationId), retryCount: Number(retryCount) },
        ...{ age: ageOf(age) ?? 0, args: String(args) },
      }))
      .filter(({ taskId }) => Number.isSafeInteger(taskId));
  }

  *drained(): Program<{ queueName: string; carried: boolean }[]> {
    const found = yield* rowsOnce(sql`
      select queue_name, (select count(*) from dbq_workers where dbq_workers.id = dbq_drains.worker_id) from dbq_drains`);
    return found.map(([queueName, workers]) => ({
      queueName: String(queueName),
      carried: Number(workers) > 0,
    }));
  }

  *sample(status: TaskStatus, most: number): Program<TaskCount[]> {
    const d = this.#dialect;
    const some = sql`${sql.raw(`status = '${status}'`)} ${d.indexed.someOf[status] ?? sql``}`;
    const found = yield* rowsOnce(sql`
      select queue_name, func, count(*) from (
        select queue_name, func from dbq_tasks where ${some} ${this.#limit(most)}) as tasks
      group by ${d.exact("queue_name")}, ${d.exact("func")} order by queue_name, func`);
    return found.map(([queueName, func, count]) => ({
      queueName: String(queueName),
      func: String(func),
      status,
      count: Number(count),
    }));
  }
}

/** The count of names of which the collation takes several for equal. */
const varied = -1;

const pairOf = ({ queueName, func }: Level): string => JSON.stringify([queueName, func]);

/** One level of each queue and function. */
const pairsIn = (levels: readonly Level[]): Level[] =>
  levels.filter((level, i) => !isSamePair(level, levels[i - 1]));

/** Whether the collation takes the names for equal. */
const isLike = (a: Level, b: Level): boolean =>
  a.queueName.replace(/ +$/, "") === b.queueName.replace(/ +$/, "") &&
  a.func.replace(/ +$/, "") === b.func.replace(/ +$/, "");

const depthOf = (queueName: string, pending: number, most: number): QueueDepth => ({
  ...{ queueName, pending, more: pending >= most },
});

function ageOf(found: unknown): number | null {
  const age = found === null || found === undefined ? Number.NaN : Number(found);
  return age >= 0 && Number.isFinite(age) ? age : null;
}

export function healthMethods({ run }: Runner, ops: HealthOperations): HealthStore {
  return {
    backlog: (most, inAll) => run(() => ops.backlog(most, inAll)),
    sample: (status, most) => run(() => ops.sample(status, most)),
    depths: (inAll) => run(() => ops.depths(inAll)),
    heads: (of) => run(() => ops.heads(of)),
    drained: () => run(() => ops.drained()),
  };
}
