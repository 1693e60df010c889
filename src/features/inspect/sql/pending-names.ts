/**
 * Finds which queues, functions and priorities have pending tasks: a loose scan of the index of claims, which reads a row or two for each
 * name and not one for each task.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { Dialect, Row } from "../../../stores/sql/dialect.ts";
import { type Program, rowsOnce } from "../../../stores/sql/program.ts";
import { mostHealthNames } from "../contract.ts";

/** The pending tasks of a function in one queue with one priority. */
export interface Level {
  queueName: string;
  func: string;
  priority: number;
}

/** Priorities of a function that are looked at. */
const mostPriorities = 20;

/** Tasks that are looked at in all for names that the collation takes for equal to those that were found, and of each name at least. */
const [variantsInAll, variantsOfEach] = [10_000, 20];

/** Queries for such names in one statement. */
const variantsAtOnce = 50;

/** The steps of a statement whose values are literals: each of `n` steps repeats those before it. */
const [mostSteps, mostSubqueries] = [8, 120];

export class PendingNames {
  readonly #dialect: Dialect;

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  /** The column by which the index of claims sorts the tasks of a function. */
  get byPriority(): string {
    return this.#dialect.rank ?? "priority desc";
  }

  /**
   * Each queue, function and priority of which a task is pending, in this order; priorities from the highest. Of names that the collation
   * takes for equal it finds one: `variantsOf` finds the others.
   */
  *levels(): Program<readonly Level[]> {
    return yield* this.#dialect.steered.skips ? this.#levelsByRecursion() : this.#levelsByLiterals();
  }

  /** Each queue of which a task is pending; of equal names one. */
  *queues(): Program<string[]> {
    return yield* this.#dialect.steered.skips ? this.#queuesByRecursion() : this.#queuesByLiterals();
  }

  // ---- by a recursive query --------------------------------------------------------------------

  *#queuesByRecursion(): Program<string[]> {
    const found = yield* rowsOnce(sql`
      with recursive ${this.#queues} select queue_name from queues where queue_name is not null order by queue_name`);
    return found.map(([name]) => String(name));
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
        where queues.queue_name is not null and n < ${sql.raw(String(mostHealthNames))}
      )`;
  }

  *#levelsByRecursion(): Program<Level[]> {
    const first = this.#first.bind(this);
    const [names, priorities] = [sql.raw(String(mostHealthNames)), sql.raw(String(mostPriorities))];
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
        select pairs.queue_name, pairs.func, ${first("priority", ofPair("pairs"), this.byPriority)}, 1 from pairs
        where pairs.func is not null
        union all
        select levels.queue_name, levels.func, ${first("priority", sql`${ofPair("levels")} ${this.#below("levels.priority")}`, this.byPriority)}, n + 1
        from levels where levels.priority is not null and n < ${priorities}
      )
      select queue_name, func, priority from levels where priority is not null order by queue_name, func, priority desc`);
    return found.map(([queueName, func, priority]) => ({
      queueName: String(queueName),
      func: String(func),
      priority: Number(priority),
    }));
  }

  #below(priority: string): SQL {
    const { rank } = this.#dialect;
    return sql.raw(rank === undefined ? `and priority < ${priority}` : `and ${rank} > -${priority}`);
  }

  // ---- by literals -----------------------------------------------------------------------------

  *#queuesByLiterals(): Program<string[]> {
    const [queues = []] = yield* this.#stepThrough("queue_name", [sql.raw("")], mostHealthNames);
    return queues.map(String);
  }

  *#levelsByLiterals(): Program<Level[]> {
    const queues = yield* this.#queuesByLiterals();
    const ofQueues = queues.map((name) => sql`and queue_name = ${name}`);
    const functions = yield* this.#stepThrough("func", ofQueues, mostHealthNames);
    const pairs = functions.flatMap((of, i) =>
      of.map((func) => ({ queueName: queues[i] ?? "", func: String(func) })),
    );
    const ofPairs = pairs.map(({ queueName, func }) => sql`and queue_name = ${queueName} and func = ${func}`);
    const ranks = yield* this.#stepThrough(this.#dialect.rank ?? "priority", ofPairs, mostPriorities);
    return pairs.flatMap((pair, i) =>
      (ranks[i] ?? []).map((rank) => ({ ...pair, priority: rank === 0 ? 0 : -Number(rank) })),
    );
  }

  /**
   * The different values of a column, in their order, of the pending tasks of each place: `most` at most. MariaDB's optimizer answers
   * `min(column)` by one look into the index where all that it is compared with is known when the query is planned. In a recursive
   * query nothing is: there it reads all pending tasks before the name, for each name.
   */
  *#stepThrough(column: string, places: readonly SQL[], most: number): Program<unknown[][]> {
    const found = places.map((): unknown[] => []);
    let left = places.map((_, place) => place);
    for (;;) {
      const next: number[] = [];
      for (const some of batchesOf(left)) {
        const rows = yield* rowsOnce(this.#nextOf(column, some.places, { places, found, steps: some.steps }));
        for (const [place, ...values] of rows) {
          const known = found[Number(place)] ?? [];
          const present = values.filter((value) => value !== null);
          known.push(...present.slice(0, most - known.length));
          if (present.length === values.length && known.length < most) next.push(Number(place));
        }
      }
      if (next.length === 0) return found;
      left = next;
    }
  }

  /** The next `steps` values of the column for each of these places. */
  #nextOf(
    column: string,
    some: readonly number[],
    { places, found, steps }: { places: readonly SQL[]; found: readonly unknown[][]; steps: number },
  ): SQL {
    const name = sql.raw(column);
    const rows = some.map((place) => {
      const last = found[place]?.at(-1);
      const values: SQL[] = [];
      for (let after = last === undefined ? undefined : literal(last); values.length < steps; ) {
        const isBeyond = after === undefined ? sql.raw("") : sql`and ${name} > ${after}`;
        const value = sql`(select min(${name}) from ${this.#dialect.tasks} where status = 'pending' ${places[place]} ${isBeyond})`;
        values.push(value);
        after = value;
      }
      return sql`select ${sql.raw(String(place))}, ${sql.join(values, sql`, `)}`;
    });
    return sql.join(rows, sql` union all `);
  }

  // ---- names that a collation takes for equal --------------------------------------------------

  /** Those of these levels with all names that the collation takes for equal to theirs. */
  *variantsOf(levels: readonly Level[]): Program<Level[]> {
    const pairs = levels.filter((level, i) => !isSamePair(level, levels[i - 1]));
    const names = yield* this.#namesLike(
      ["queue_name", "func"],
      pairs.map(({ queueName, func }) => sql`queue_name = ${queueName} and func = ${func}`),
    );
    return pairs.flatMap((pair, i) => {
      const priorities = levels.filter((level) => isSamePair(level, pair));
      return (names[i] ?? []).flatMap(([queueName, func]) =>
        priorities.map((level) => ({ ...level, queueName: String(queueName), func: String(func) })),
      );
    });
  }

  /** The same for queues. */
  *queueVariantsOf(queues: readonly string[]): Program<string[]> {
    const same = yield* this.#namesLike(
      ["queue_name"],
      queues.map((name) => sql`queue_name = ${name}`),
    );
    return same.flat().map(([name]) => String(name));
  }

  /** The names that the collation takes for equal, such as two that differ by a space at the end, of some of the tasks that have one. */
  *#namesLike(columns: readonly string[], likes: readonly SQL[]): Program<Row[][]> {
    const most = Math.trunc(Math.max(variantsOfEach, variantsInAll / likes.length));
    const names = sql.raw(columns.join(", "));
    // The columns of the index behind those that the names are of: the literals have another collation than a column, so that MariaDB
    // does not know that this column has one value, and would sort all of its tasks.
    const order = sql.raw(columns.includes("func") ? this.byPriority : `func, ${this.byPriority}`);
    const bytes = sql.join(
      columns.map((column) => this.#dialect.exact(column)),
      sql`, `,
    );
    const found = likes.map((): Row[] => []);
    for (let i = 0; i < likes.length; i += variantsAtOnce) {
      const queries = likes.slice(i, i + variantsAtOnce).map(
        (isLike, n) => sql`(select ${sql.raw(String(i + n))}, ${names}
          from (select ${names} from ${this.#dialect.tasks} where status = 'pending' and ${isLike}
            order by ${order} ${sql.raw(`limit ${most}`)}) as tasks
          group by ${bytes} order by ${bytes})`,
      );
      for (const [place, ...row] of yield* rowsOnce(sql.join(queries, sql` union all `)))
        found[Number(place)]?.push(row);
    }
    return found;
  }
}

/** A number stays one: the driver would send it as a floating-point number. */
const literal = (value: unknown): SQL =>
  typeof value === "number" ? sql.raw(String(Math.trunc(value))) : sql`${value}`;

/** Few places take many steps at once, and many places few. */
function batchesOf(left: readonly number[]): { places: number[]; steps: number }[] {
  const steps = Math.max(1, Math.min(mostSteps, Math.floor(Math.sqrt((2 * mostSubqueries) / left.length))));
  const size = Math.floor((2 * mostSubqueries) / (steps * (steps + 1)));
  const batches: { places: number[]; steps: number }[] = [];
  for (let i = 0; i < left.length; i += size) batches.push({ places: left.slice(i, i + size), steps });
  return batches;
}

export const isSamePair = (a: Level | undefined, b: Level | undefined): boolean =>
  a?.queueName === b?.queueName && a?.func === b?.func;
