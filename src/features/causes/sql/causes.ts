/** The queries behind `queue.listCauses()`, each bounded. `CauseStore` in its contract says what they promise. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { Dialect, Row } from "../../../stores/sql/dialect.ts";
import { hasNumberAsMost } from "../../../stores/sql/exact-ids.ts";
import { count, type Program, type Runner, rows, rowsOnce } from "../../../stores/sql/program.ts";
import { int } from "../../../stores/sql/rows.ts";
import { before, itemColumns, itemOf, type Statement } from "../../../stores/sql/statements.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import { moment, orMore } from "../../stats/contract.ts";
import {
  type CauseStore,
  type CrashedAttempt,
  type HeadOfLevel,
  type Level,
  overtakes,
  type RecordedDepth,
  type RunningAttempt,
  type SchedulePile,
  type StartedBounds,
  type StartedTask,
} from "../contract.ts";

/** Tasks after a head that are looked at first. */
const firstPart = 1_000;

/** Of each level, the tasks that are first in the order of claims. */
const headsOfLevel = 5;

function statementsOf(d: Dialect) {
  const schedules = d.unfinishedOf;
  return {
    running: (p) => sql`
      select id, func, queue_name, ${d.minus(d.now(p), sql`started_at`)}, timeout from dbq_tasks
      where status = 'running' ${d.indexed.someOf.running ?? sql``} ${d.atMost(p.most)}`,

    /** By the ids of attempts: no index has their times. */
    crashes: (p) => sql`
      select crashed_worker, func, age, crashed_task from (
        select task_id as crashed_task, worker_id as crashed_worker, outcome as ended, ${d.minus(d.now(p), sql`ended_at`)} as age
        from dbq_attempts order by id desc ${d.atMost(p.most)}) as latest ${d.joinEach} dbq_tasks
      where dbq_tasks.id = ${d.only(sql.raw("crashed_task"))} and ended = 'crashed' and age <= ${d.integer(p.within)}`,

    depths: (p) => sql`
      select queue_name, count, case when outcome = ${sql.raw(`'${orMore}'`)} then 1 else 0 end, ${d.minus(d.now(p), sql`minute`)}
      from dbq_stats where span = ${sql.raw(String(moment))} and worker_id = '' and minute >= ${before(d, p)} order by minute`,

    /** The oldest task has the lowest id: MySQL then reads the index alone. */
    piles: (p) => sql`
      select ${sql.raw(schedules.column)}, count(*), min(id) from (
        select ${sql.raw(schedules.column)}, id from dbq_tasks where ${schedules.where} ${d.atMost(p.most)}) as tasks
      group by ${d.exact(schedules.column)} having count(*) >= ${d.integer(p.least)}`,

    ages: (p) => sql`
      select dbq_tasks.id, ${d.minus(d.now(p), sql`created_at`)} from ${d.tasksWithIds(p.ids)}`,

    overlapping: (p) => sql`
      select ${itemOf("name")} from ${d.objects(p.names, itemColumns(["name"]))} ${d.joinEach} dbq_schedules
      where dbq_schedules.name = ${d.onlyName(itemOf("name"))} and overlap = 'allow'`,

    stored: (p) => sql`
      select ${d.millis(d.now(p))}, (select value from dbq_settings where name = 'causes')`,

    lockThresholds: () => sql`select value from dbq_settings where name = 'causes' ${d.locked}`,
    addThresholds: () => sql`
      insert into dbq_settings (name, value) values ('causes', '{}') ${d.keepExisting("value")}`,
    setThresholds: (p) => sql`update dbq_settings set value = ${p.value} where name = 'causes'`,
  } satisfies Record<string, Statement>;
}

export class CauseOperations {
  readonly #dialect: Dialect;
  readonly #s: ReturnType<typeof statementsOf>;

  constructor({ dialect }: Texts) {
    this.#dialect = dialect;
    this.#s = statementsOf(dialect);
  }

  *running(most: number): Program<RunningAttempt[]> {
    const found = yield* rows(this.#s.running, { most });
    return found
      .map(([id, func, queueName, age, timeout]) => ({
        taskId: int(id),
        func: String(func),
        queueName: String(queueName),
        age: age === null ? Number.NaN : Number(age),
        timeout: timeout === null ? null : Number(timeout),
      }))
      .filter(isReadable);
  }

  *crashes(within: number, most: number): Program<CrashedAttempt[]> {
    const found = yield* rows(this.#s.crashes, { within, most });
    return found
      .filter(([workerId]) => workerId !== null)
      .map(([workerId, func, age, taskId]) => ({
        workerId: String(workerId),
        func: String(func),
        age: Math.max(0, Number(age) || 0),
        taskId: int(taskId),
      }));
  }

  *depths(within: number): Program<RecordedDepth[]> {
    return (yield* rows(this.#s.depths, { age: within })).map(([queueName, pending, more, age]) => ({
      queueName: String(queueName),
      pending: Number(pending),
      more: Number(more) === 1,
      age: Number(age),
    }));
  }

  *heads(levels: readonly Level[], now: number): Program<HeadOfLevel[]> {
    if (levels.length === 0) return [];
    const d = this.#dialect;
    const since = sql.raw("case when wait_until > updated_at then wait_until else updated_at end");
    const probes = levels.map(({ queueName, func, priority }, n) => {
      const isPriority =
        d.rank === undefined
          ? sql`priority = ${d.integer(priority)}`
          : sql`${sql.raw(d.rank)} = ${d.integer(-priority)}`;
      return sql`select * from (
        select ${sql.raw(String(n))} as n, id, group_key, ${since} as since from ${d.tasks}
        where ${d.same("queue_name", queueName)} and ${d.same("func", func)} and status = 'pending' and ${isPriority}
        order by ${d.byPriority} ${sql.raw(`limit ${headsOfLevel}`)}) as ${sql.raw(`level_${n}`)}`;
    });
    // Once for all of them: a server reads this expression for longer than it looks for a task.
    const found = yield* rowsOnce(sql`
      select n, id, group_key, ${d.millis(sql.raw("since"))} from (${sql.join(probes, sql` union all `)}) as heads`);
    return found
      .map(([n, id, group, at]) => ({
        ...(levels[Number(n)] as Level),
        ...{ taskId: int(id), group: group === null ? null : String(group), age: ageAt(now, at) },
      }))
      .filter(isReadable);
  }

  *started(heads: readonly HeadOfLevel[], bounds: StartedBounds, now: number): Program<StartedTask[]> {
    if (heads.length === 0) return [];
    const found = new Overtakers(heads, bounds.enough);
    yield* this.#startedAfter(found, bounds.next, now);
    if (!found.isEnough) found.add(yield* this.#endedLast(found, bounds.ended, now));
    return found.all;
  }

  *#endedLast(of: Overtakers, most: number, now: number): Program<StartedTask[]> {
    const d = this.#dialect;
    const found = yield* rowsOnce(sql`
      select id, queue_name, ${startedAt(d)} from (
        select id, queue_name, started_at from dbq_tasks
        where status = 'completed' and ${d.indexed.endedAs} = 'completed' and finished_at is not null and ${hasNumberAsMost}
        order by finished_at desc ${sql.raw(`limit ${most}`)}) as walked
      where id > ${d.integer(of.first)} and ${this.#hasStartedIn(of.queueNames)}`);
    return startedIn(found, now);
  }

  #hasStartedIn(queueNames: readonly string[]): SQL {
    const isOne = queueNames.map((name) => sql`(${this.#dialect.same("queue_name", name)})`);
    return sql`started_at is not null and (${sql.join(isOne, sql` or `)})`;
  }

  /**
   * Heads that have waited for long came at about the same time: one walk from the oldest of them finds the tasks of most queues. A head
   * that is beyond its end begins the second walk, which is the last one.
   */
  *#startedAfter(of: Overtakers, next: number, now: number): Program<void> {
    let end = of.first;
    for (let walks = 0; walks < 2; walks += 1) {
      const first = of.nextHead(end);
      if (first === undefined) return;
      end = first;
      // Where tasks are overtaken, the first part has enough that did so.
      for (const part of [Math.min(next, firstPart), next - firstPart]) {
        if (part <= 0 || of.isEnough || end === Number.POSITIVE_INFINITY) break;
        end = yield* this.#startedFrom(end, part, of, now);
      }
    }
  }

  /** @returns the id at which the look has ended */
  *#startedFrom(first: number, next: number, of: Overtakers, now: number): Program<number> {
    const d = this.#dialect;
    // The last row is about the walk itself: where it ended, and how many tasks it has seen.
    const found = yield* rowsOnce(sql`
      with walked as (
        select id, queue_name, started_at from ${d.tasks}
        where id > ${d.integer(first)} order by id ${sql.raw(`limit ${next}`)})
      select id, queue_name, ${startedAt(d)}, null as seen from walked where ${this.#hasStartedIn(of.queueNames)}
      union all select max(id), null, null, count(*) from walked`);
    const end = found.find(([, , , seen]) => seen !== null);
    const tasks = found.filter(([, , , seen]) => seen === null);
    of.add(startedIn(tasks, now));
    // Fewer than it may look at: there are no later tasks.
    return Number(end?.[3]) < next ? Number.POSITIVE_INFINITY : int(end?.[0]);
  }

  *piles(least: number, most: number): Program<SchedulePile[]> {
    const found = yield* rows(this.#s.piles, { least, most });
    if (found.length === 0) return [];
    const names = JSON.stringify(found.map(([name]) => ({ name: String(name) })));
    const overlapping = new Set((yield* rows(this.#s.overlapping, { names })).map(([name]) => String(name)));
    const ids = JSON.stringify(found.map(([, , oldest]) => Number(oldest)));
    const ages = new Map((yield* rows(this.#s.ages, { ids })).map(([id, age]) => [Number(id), Number(age)]));
    return found.map(([schedule, unfinished, oldest]) => ({
      schedule: String(schedule),
      overlaps: overlapping.has(String(schedule)),
      unfinished: Number(unfinished),
      oldestAge: Math.max(0, ages.get(Number(oldest)) || 0),
    }));
  }

  *stored(): Program<{ now: number; thresholds: string | undefined }> {
    const [[now, thresholds = null] = []] = yield* rows(this.#s.stored);
    return { now: Number(now), thresholds: thresholds === null ? undefined : String(thresholds) };
  }

  *changeThresholds(change: (before: string | undefined) => string): Program<void> {
    yield* count(this.#s.addThresholds, {});
    const [row] = yield* rows(this.#s.lockThresholds);
    yield* count(this.#s.setThresholds, { value: change(row && String(row[0])) });
  }
}

const startedAt = (d: Dialect): SQL => d.millis(sql.raw("started_at"));

/** A time that JavaScript cannot read has no age. */
const ageAt = (now: number, time: unknown): number => (time === null ? Number.NaN : now - Number(time));

const isReadable = ({ taskId, age }: { taskId: number; age: number }): boolean =>
  Number.isSafeInteger(taskId) && Number.isFinite(age);

const startedIn = (found: readonly Row[], now: number): StartedTask[] =>
  found
    .map(([id, queueName, at]) => ({ taskId: int(id), queueName: String(queueName), age: ageAt(now, at) }))
    .filter(isReadable);

/** Started tasks, and whether `enough` of them have overtaken each of these heads. */
class Overtakers {
  readonly queueNames: readonly string[];
  readonly #heads: readonly HeadOfLevel[];
  readonly #enough: number;
  readonly #found = new Map<number, StartedTask>();
  readonly #counts: number[];

  constructor(heads: readonly HeadOfLevel[], enough: number) {
    this.#heads = [...heads].sort((a, b) => a.taskId - b.taskId);
    this.#enough = enough;
    this.#counts = this.#heads.map(() => 0);
    this.queueNames = [...new Set(heads.map(({ queueName }) => queueName))];
  }

  get all(): StartedTask[] {
    return [...this.#found.values()];
  }

  get isEnough(): boolean {
    return this.#counts.every((count) => count >= this.#enough);
  }

  /** The id of the oldest head. */
  get first(): number {
    return this.#heads[0]?.taskId ?? 0;
  }

  /** The id of the oldest head that has this id or a later one. */
  nextHead(from: number): number | undefined {
    return this.#heads.find(({ taskId }) => taskId >= from)?.taskId;
  }

  add(tasks: readonly StartedTask[]): void {
    for (const task of tasks) {
      if (this.#found.has(task.taskId)) continue;
      this.#found.set(task.taskId, task);
      for (const [i, head] of this.#heads.entries())
        if (overtakes(task, head)) this.#counts[i] = (this.#counts[i] ?? 0) + 1;
    }
  }
}

export function causeMethods({ run, write }: Runner, ops: CauseOperations): Omit<CauseStore, "reports"> {
  return {
    running: (most) => run(() => ops.running(most)),
    crashes: (within, most) => run(() => ops.crashes(within, most)),
    depths: (within) => run(() => ops.depths(within)),
    heads: (levels, now) => run(() => ops.heads(levels, now)),
    started: (heads, bounds, now) => run(() => ops.started(heads, bounds, now)),
    piles: (least, most) => run(() => ops.piles(least, most)),
    stored: () => run(() => ops.stored()),
    changeThresholds: (change) => write(() => ops.changeThresholds(change)),
  };
}
