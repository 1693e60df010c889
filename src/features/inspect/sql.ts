/**
 * The queries behind `queue.health()`, each bounded by an index or a limit: they take as long beside a million tasks as
 * beside a thousand. `HealthStore` in `store.ts` says what they promise.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { PendingTasks, QueueDepth } from "../../base/tasks/pending.ts";
import { groupBy } from "../../base/values/group-by.ts";
import type { TaskCount } from "../../store.ts";
import type { Dialect, Row } from "../../stores/sql/dialect.ts";
import { type Program, type Runner, rows, rowsOnce } from "../../stores/sql/program.ts";
import { clockOf, itemColumns, itemOf, type Statement } from "../../stores/sql/statements.ts";
import type { Texts } from "../../stores/sql/texts.ts";
import type { TaskStatus } from "../../task.ts";
import { type FunctionInQueue, type HeadOfFunction, type HealthStore, mostHealthNames } from "./contract.ts";

/** Priorities of a function that are looked at. */
const mostPriorities = 20;

/** Of each priority, the first tasks in the order of claims. */
const sampled = 5;

/** Milliseconds, 31 years. SQLite takes a malformed time of another program for that of 1970. */
const longestAge = sql.raw("1000000000000");

const mostNames = sql.raw(String(mostHealthNames));

/** Probes in one statement. */
const probesAtOnce = 50;

/** Tasks that are looked at in all for names that the collation takes for equal to those that were found, and of each name at least. */
const [variantsInAll, variantsOfEach] = [10_000, 20];

/** Characters of arguments that say which key encrypted them. */
const longestHeader = 120;

interface Level {
  queueName: string;
  func: string;
  priority: number;
}

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

  constructor({ dialect }: Texts) {
    this.#dialect = dialect;
    this.#clock = clockOf(dialect);
  }

  *backlog(most: number, inAll: number): Program<PendingTasks[]> {
    const levels = yield* this.#allLevels();
    const pairs = levels.filter((level, i) => !isSamePair(level, levels[i - 1]));
    const share = Math.min(most, Math.max(1, Math.floor(inAll / pairs.length)));
    const counts: Row[] = yield* this.#probes(pairs, (level) => this.#count(level, share));
    const now = Number((yield* rows(this.#clock))[0]?.[0]);
    const ages: Row[] = yield* this.#probes(levels, (level) => this.#age(level, now));
    const ofLevels = levels.map((level, n) => ({ ...level, oldestPendingAge: ageOf(ages[n]?.[1]) }));
    const byPair = groupBy(ofLevels, ({ queueName, func }) => JSON.stringify([queueName, func]));
    return pairs.map(({ queueName, func }, i) => {
      const priorities = (byPair.get(JSON.stringify([queueName, func])) ?? []).map(
        ({ priority, oldestPendingAge }) => ({ priority, oldestPendingAge }),
      );
      const known = priorities.flatMap(({ oldestPendingAge }) => oldestPendingAge ?? []);
      const pending = Number(counts[i]?.[1]);
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

  /** The levels, also of names that the steps through the index pass over. */
  *#allLevels(): Program<readonly Level[]> {
    const levels = yield* this.#levels();
    const pairs = levels.filter((level, i) => !isSamePair(level, levels[i - 1]));
    const all: Level[] = [];
    for (const pair of this.#dialect.padsNames ? pairs : []) {
      const isPair = sql`queue_name = ${pair.queueName} and func = ${pair.func}`;
      const priorities = levels.filter((level) => isSamePair(level, pair));
      for (const [queueName, func] of yield* this.#namesLike(["queue_name", "func"], isPair, pairs.length))
        all.push(
          ...priorities.map((level) => ({ ...level, queueName: String(queueName), func: String(func) })),
        );
    }
    return this.#dialect.padsNames ? all : levels;
  }

  /** The names that the collation takes for equal, such as two that differ by a space at the end, of some of the tasks that have one. */
  #namesLike(columns: readonly string[], isLike: SQL, inAll: number): Program<Row[]> {
    const [names, most] = [sql.raw(columns.join(", ")), Math.max(variantsOfEach, variantsInAll / inAll)];
    const bytes = sql.join(
      columns.map((column) => this.#dialect.exact(column)),
      sql`, `,
    );
    return rowsOnce(sql`
      select ${names} from (select ${names} from dbq_tasks where status = 'pending' and ${isLike}
        order by func, ${sql.raw(this.#byPriority)} ${this.#limit(most)}) as tasks
      group by ${bytes} order by ${bytes}`);
  }

  *depths(inAll: number): Program<QueueDepth[]> {
    const queues = yield* this.#queueNames();
    const share = Math.max(1, Math.floor(inAll / queues.length));
    const found: QueueDepth[] = [];
    for (const [name] of queues) {
      const queueName = String(name);
      const [row] = yield* rowsOnce(sql`
        select count(*) from (select 1 as one from ${this.#dialect.tasks}
          where ${this.#dialect.same("queue_name", queueName)} and status = 'pending'
          order by func, ${sql.raw(this.#byPriority)} ${this.#limit(share)}) as tasks`);
      const pending = Number(row?.[0]);
      found.push({ queueName, pending, more: pending >= share });
    }
    return found;
  }

  *#queueNames(): Program<Row[]> {
    const queues = yield* rowsOnce(sql`
      with recursive ${this.#queues} select queue_name from queues where queue_name is not null order by queue_name`);
    if (!this.#dialect.padsNames) return queues;
    const all: Row[] = [];
    for (const [name] of queues)
      all.push(...(yield* this.#namesLike(["queue_name"], sql`queue_name = ${name}`, queues.length)));
    return all;
  }

  /** The first value of a column among pending tasks. */
  #first(column: string, where: SQL, order = column): SQL {
    return sql`(
      select ${sql.raw(column)} from ${this.#dialect.tasks} where status = 'pending' ${where} order by ${sql.raw(order)} ${sql.raw("limit 1")})`;
  }

  /** Each queue that has pending tasks, as a part of a recursive query: one step through the index for each. */
  get #queues(): SQL {
    return sql`queues (queue_name, n) as (
        select ${this.#first("queue_name", sql.raw(""))}, 1
        union all
        select ${this.#first("queue_name", sql.raw("and queue_name > queues.queue_name"))}, n + 1 from queues
        where queues.queue_name is not null and n < ${mostNames}
      )`;
  }

  /** Each queue, function and priority of which a task is pending: one step through the index for each. */
  *#levels(): Program<Level[]> {
    const first = this.#first.bind(this);
    const [names, priorities] = [mostNames, sql.raw(String(mostPriorities))];
    const ofQueue = (name: string) => sql.raw(`and queue_name = ${name}`);
    const ofPair = (name: string) => sql.raw(`and queue_name = ${name}.queue_name and func = ${name}.func`);
    const found = yield* rowsOnce(sql`
      with recursive ${this.#queues}, pairs (queue_name, func, n) as (
        select queues.queue_name, ${first("func", ofQueue("queues.queue_name"))}, 1 from queues
        where queues.queue_name is not null
        union all
        select pairs.queue_name, ${first("func", sql.raw("and queue_name = pairs.queue_name and func > pairs.func"))}, n + 1 from pairs
        where pairs.func is not null and n < ${names}
      ), levels (queue_name, func, priority, n) as (
        select pairs.queue_name, pairs.func, ${first("priority", ofPair("pairs"), this.#byPriority)}, 1 from pairs
        where pairs.func is not null
        union all
        select levels.queue_name, levels.func, ${first("priority", sql`${ofPair("levels")} ${this.#below("levels.priority")}`, this.#byPriority)}, n + 1
        from levels where levels.priority is not null and n < ${priorities}
      )
      select queue_name, func, priority from levels where priority is not null order by queue_name, func, priority desc`);
    return found.map(([queueName, func, priority]) => ({
      queueName: String(queueName),
      func: String(func),
      priority: Number(priority),
    }));
  }

  get #byPriority(): string {
    return this.#dialect.rank === undefined ? "priority desc" : this.#dialect.rank;
  }

  #below(priority: string): SQL {
    const { rank } = this.#dialect;
    return sql.raw(rank === undefined ? `and priority < ${priority}` : `and ${rank} > -${priority}`);
  }

  /** Of each level, the number that the probe finds; as one query, which is planned once, where the database can. */
  *#probes(levels: readonly Level[], probe: (level: Columns) => SQL): Program<Row[]> {
    const found: Row[] = [];
    for (let i = 0; i < levels.length; i += probesAtOnce) {
      const some = levels.slice(i, i + probesAtOnce);
      found.push(
        ...(yield* rowsOnce(this.#dialect.correlates ? this.#forEach(some, probe) : union(some, probe))),
      );
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
      order by ${sql.raw(this.#byPriority)} ${this.#limit(most)}) as tasks`;
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
        ...{ taskId: Number(id), generationId: Number(generationId), retryCount: Number(retryCount) },
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

function ageOf(found: unknown): number | null {
  const age = found === null || found === undefined ? Number.NaN : Number(found);
  return age >= 0 && Number.isFinite(age) ? age : null;
}

const isSamePair = (a: Level | undefined, b: Level | undefined): boolean =>
  a?.queueName === b?.queueName && a?.func === b?.func;

export function healthMethods({ run }: Runner, ops: HealthOperations): HealthStore {
  return {
    backlog: (most, inAll) => run(() => ops.backlog(most, inAll)),
    sample: (status, most) => run(() => ops.sample(status, most)),
    depths: (inAll) => run(() => ops.depths(inAll)),
    heads: (of) => run(() => ops.heads(of)),
    drained: () => run(() => ops.drained()),
  };
}
