/** The operations of drains, each written once for all databases. `DrainStore` in `store.ts` says what they promise. */
import { randomUUID } from "node:crypto";
import { sql } from "drizzle-orm/sql/sql";
import { drainPrefix, isOfDrain, sentOwner } from "../../../base/tasks/drained.ts";
import type { Operated, TaskVersion } from "../../../store.ts";
import type { Batches } from "../../../stores/sql/batches.ts";
import type { Dialect, Params, Row } from "../../../stores/sql/dialect.ts";
import { hasNumber, hasNumberAsMost } from "../../../stores/sql/exact-ids.ts";
import type { MaintenanceOperations } from "../../../stores/sql/maintenance.ts";
import type { CoreOperations } from "../../../stores/sql/operations.ts";
import { changes, count, type Program, type Runner, rows } from "../../../stores/sql/program.ts";
import { idsOf } from "../../../stores/sql/removal.ts";
import { int, toTaskVersion } from "../../../stores/sql/rows.ts";
import { before, type Statement, stateChange, still } from "../../../stores/sql/statements.ts";
import type { TaskOperations } from "../../../stores/sql/tasks.ts";
import type { Transitions } from "../../../stores/sql/transitions.ts";
import type { TableLook } from "../../../stores/sql/unreadable.ts";
import { isFinished } from "../../../task.ts";
import type { DrainedOutcome, DrainLag, DrainStore } from "../contract.ts";

const sent = sql.raw(`'${sentOwner}'`);
/** Whether a drain has the task, or has sent it. */
export const isDrains = sql.raw(`(worker_id = '${sentOwner}' or worker_id like '${drainPrefix}%')`);

/** About who drains a queue, and what is left of it. */
function drainStatements(d: Dialect) {
  const inQueue = (p: Params) => d.same("queue_name", p.queueName);
  const worker = sql.raw("(select 1 from dbq_workers where dbq_workers.id = dbq_drains.worker_id)");
  return {
    origin: () => sql`select value from dbq_settings where name = 'origin'`,

    addOrigin: (p) => sql`
      insert into dbq_settings (name, value) values ('origin', ${p.origin}) ${d.keepExisting("value")}`,

    setOrigin: (p) => sql`update dbq_settings set value = ${p.origin} where name = 'origin'`,

    /** Who drains a queue, and whether that worker is registered. */
    holder: (p) => sql`
      select worker_id, generation_id, ${worker} from dbq_drains where ${inQueue(p)}`,

    addDrain: (p) => sql`
      insert into dbq_drains (queue_name, worker_id, target, updated_at)
      values (${p.queueName}, ${p.workerId}, ${p.target}, ${d.now(p)})
      ${d.keepExisting("target")}`,

    takeDrain: (p) => sql`
      update dbq_drains set worker_id = ${p.workerId}, target = ${p.target}, generation_id = generation_id + 1,
        updated_at = ${d.now(p)}
      where ${inQueue(p)} and generation_id = ${p.generationId}`,

    drains: () => sql`select queue_name, ${worker} from dbq_drains order by queue_name`,

    unsent: (p) => sql`
      select count(*), ${d.minus(d.now(p), sql`min(case when wait_until > created_at then wait_until else created_at end)`)}
      from (
        select created_at, wait_until from ${d.tasks} where ${inQueue(p)} and status = 'pending'
        union all
        select created_at, wait_until from ${d.tasks}
        where ${inQueue(p)} and status = 'running' and worker_id <> ${sent}) as unsent`,
  } satisfies Record<string, Statement>;
}

/** Tasks that are looked at for names that the collation takes for equal. The others come first once these are sent. */
const likeTasks = 1_000;

/** About the tasks of a drain. */
function drainedStatements(d: Dialect) {
  const inQueue = (p: Params) => d.same("queue_name", p.queueName);
  const change = stateChange(d);
  return {
    nextFunc: (p) => sql`
      select func from ${d.tasks} where ${inQueue(p)} and status = 'pending' and func > ${p.after}
      order by func ${sql.raw("limit 1")}`,

    /** Of the first tasks of functions whose names the collation takes for equal: those names. */
    likeFunc: (p) => sql`
      select func from (
        select func from ${d.tasks} where ${inQueue(p)} and status = 'pending' and func = ${p.func}
        order by func, ${d.byPriority} ${sql.raw(`limit ${likeTasks}`)}) as tasks
      group by ${d.exact("func")}, func`,

    manualRetries: (p) => sql`
      select id, manual_retries from ${d.tasks} where ${d.among("id", p.ids)} and manual_retries > 0`,

    /** The task runs on, at whoever has got its message. */
    handOver: change((p) => sql`worker_id = ${sent}, updated_at = ${d.now(p)}`, still("running")),

    overdue: (p) => sql`
      select id, generation_id from ${d.tasks}
      where status = 'running' and ${d.indexed.runBy} = ${sent} and ${inQueue(p)} and updated_at < ${before(d, p)} and ${hasNumber}
      ${d.atMost(p.limit)} ${d.skipLocked}`,

    sentAmong: (p) => sql`
      select id from ${d.tasks} where ${d.among("id", p.ids)} ${still("completed")} and ${isDrains}`,

    completedBefore: (p) => sql`
      select id, ${d.millis(sql.raw("finished_at"))} as ended, case when ${inQueue(p)} and ${isDrains} then 1 else 0 end as is_own
      from ${d.tasks}
      where status = 'completed' and ${d.indexed.endedAs} = 'completed' and finished_at >= ${d.time(d.integer(p.from))} and finished_at < ${before(d, p)} and ${hasNumberAsMost}
      order by finished_at ${d.atMost(p.limit)} ${d.skipLocked}`,
  } satisfies Record<string, Statement>;
}

const overdueError = (within: number) => ({
  name: "TimeoutError",
  message: `no result came within ${within} ms (resultsWithin) after the task was sent`,
});

export const drainLook: TableLook = {
  table: "dbq_drains",
  key: ["queue_name"],
  columns: ["generation_id", "updated_at"],
};

export class DrainOperations {
  readonly #s: ReturnType<typeof drainStatements> & ReturnType<typeof drainedStatements>;
  readonly #transitions: Transitions;
  readonly #tasks: TaskOperations;
  readonly #maintenance: MaintenanceOperations;
  readonly #padsNames: boolean;

  constructor({ texts: { dialect }, transitions, tasks, maintenance }: CoreOperations) {
    this.#s = { ...drainStatements(dialect), ...drainedStatements(dialect) };
    this.#padsNames = dialect.padsNames;
    this.#transitions = transitions;
    this.#tasks = tasks;
    this.#maintenance = maintenance;
  }

  // ---- who drains ----------------------------------------------------------------------------

  *readOrigin(): Program<string | undefined> {
    const [row] = yield* rows(this.#s.origin);
    return row && String(row[0]);
  }

  /** Of two callers at the same moment, one makes it, and both get the same. */
  *origin(): Program<string> {
    yield* count(this.#s.addOrigin, { origin: randomUUID() });
    return (yield* this.readOrigin()) as string;
  }

  *adoptOrigin(origin: string): Program<void> {
    yield* count(this.#s.addOrigin, { origin });
    yield* count(this.#s.setOrigin, { origin });
  }

  /** Undefined: nobody has drained this queue yet. */
  *holder(
    queueName: string,
  ): Program<{ workerId: string | null; generationId: number; lives: boolean } | undefined> {
    const [row] = yield* rows(this.#s.holder, { queueName });
    if (!row) return undefined;
    const [workerId, generationId, lives] = row;
    return { workerId: workerId as string | null, generationId: int(generationId), lives: lives !== null };
  }

  *take(queueName: string, workerId: string, target: string): Program<boolean> {
    yield* count(this.#s.addDrain, { queueName, workerId, target });
    const holder = yield* this.holder(queueName);
    if (!holder || holder.workerId === workerId) return holder !== undefined;
    if (holder.lives) return false;
    const { generationId } = holder;
    return (yield* count(this.#s.takeDrain, { queueName, workerId, target, generationId })) > 0;
  }

  *lag(): Program<DrainLag[]> {
    const lags: DrainLag[] = [];
    for (const [queueName, lives] of yield* rows(this.#s.drains)) {
      const [row] = yield* rows(this.#s.unsent, { queueName });
      const [unsent, age] = row ?? [];
      const oldestUnsentAge = age === null || age === undefined ? null : Math.max(0, Number(age));
      lags.push({
        queueName: String(queueName),
        unsent: Number(unsent),
        oldestUnsentAge,
        active: lives !== null,
      });
    }
    return lags;
  }

  // ---- what there is to send -----------------------------------------------------------------

  /** One look into the index for each function, however many tasks there are. */
  *funcs(queueName: string): Program<string[]> {
    const found: string[] = [];
    for (let after = ""; ; ) {
      const [row] = yield* rows(this.#s.nextFunc, { queueName, after });
      if (!row) return found;
      after = String(row[0]);
      const like = this.#padsNames ? yield* rows(this.#s.likeFunc, { queueName, func: after }) : [row];
      found.push(...like.map(([func]) => String(func)));
    }
  }

  *manualRetries(ids: readonly number[]): Program<Map<number, number>> {
    const found = yield* rows(this.#s.manualRetries, { ids: JSON.stringify(ids) });
    return new Map(found.map(([id, retries]) => [int(id), Number(retries)]));
  }

  // ---- what was sent -------------------------------------------------------------------------

  *handOver(sentTasks: readonly TaskVersion[]): Program<boolean[]> {
    return yield* changes(
      this.#s.handOver,
      sentTasks.map(({ id, generationId }) => ({ id, generationId })),
    );
  }

  /** The ids of those that were handed over. */
  *handedOver(sentTasks: readonly TaskVersion[]): Program<number[]> {
    const handed = yield* this.handOver(sentTasks);
    return sentTasks.flatMap(({ id }, i) => (handed[i] ? [id] : []));
  }

  /** `retries`: the manual retries of the task when the message was sent; undefined: any. */
  *settle(id: number, outcome: DrainedOutcome, retries: number | undefined): Program<Operated> {
    const [transitions, retriesOf] = [this.#transitions, () => this.manualRetries([id])];
    return yield* this.#tasks.operate(id, function* (task) {
      if (isFinished(task.status) || !isOfDrain(task.workerId)) return "as it is";
      if (retries !== undefined && ((yield* retriesOf()).get(id) ?? 0) !== retries) return "as it is";
      const [ended] = yield* transitions.endTasks([{ ...task, ...outcome }]);
      return ended ? "changed" : "moved";
    });
  }

  *expire(queueName: string, within: number, limit: number): Program<number> {
    const overdue = (yield* rows(this.#s.overdue, { queueName, age: within, limit })).map(toTaskVersion);
    const { name, message } = overdueError(within);
    const attempt = {
      outcome: "timeout",
      errorName: name,
      errorMessage: message,
      errorStack: null,
      errorCause: null,
    } as const;
    const error = JSON.stringify({ name, message });
    const ended = yield* this.#transitions.endTasks(
      overdue.map((task) => ({
        ...task,
        workerId: sentOwner,
        startedAt: null,
        kind: "failed",
        error,
        attempt,
      })),
    );
    return ended.filter(Boolean).length;
  }

  // ---- what is kept --------------------------------------------------------------------------

  *remove(ids: readonly number[]): Program<number[]> {
    return yield* this.#maintenance.removed(yield* rows(this.#s.sentAmong, { ids: JSON.stringify(ids) }));
  }

  *forget(
    queueName: string,
    age: number,
    from: number,
    limit: number,
  ): Program<{ removed: number; next: number | undefined }> {
    const { own, next } = yield* this.forgettable(queueName, age, from, limit);
    return { removed: yield* this.#maintenance.remove(own), next };
  }

  /** The tasks that `forget` would delete. */
  *forgettable(
    queueName: string,
    age: number,
    from: number,
    limit: number,
  ): Program<{ own: Row[]; next: number | undefined }> {
    const found = yield* rows(this.#s.completedBefore, { queueName, age, from, limit });
    const own = found.filter(([, , matches]) => Number(matches) === 1);
    if (found.length < limit) return { own, next: undefined };
    // One less, since Postgres rounds to the nearest millisecond: others may have ended in the half before.
    const last = Number(found.at(-1)?.[1]) - 1;
    // So many of one moment: the others of it are found when a drain starts again.
    return { own, next: last > from ? last : from + 1 };
  }
}

export function drainMethods({ run, write }: Runner, ops: DrainOperations, batches: Batches): DrainStore {
  return {
    origin: async () => (await run(() => ops.readOrigin())) ?? (await write(() => ops.origin())),
    knownOrigin: () => run(() => ops.readOrigin()),
    adoptOrigin: (origin) => write(() => ops.adoptOrigin(origin)),
    take: async (queueName, workerId, target) => {
      // A drain that stands by writes nothing.
      const holder = await run(() => ops.holder(queueName));
      if (holder?.workerId === workerId) return true;
      return !holder?.lives && (await write(() => ops.take(queueName, workerId, target)));
    },
    funcs: (queueName) => run(() => ops.funcs(queueName)),
    manualRetries: (ids) => run(() => ops.manualRetries(ids)),
    handOver: async (sent, onKept) => {
      const all = await batches.all(() => write(() => ops.handOver(sent)));
      if (all) return all;
      const byId = new Map(sent.map((task) => [task.id, task]));
      const each = (ids: readonly number[]) =>
        write(() => ops.handedOver(ids.flatMap((id) => byId.get(id) ?? [])));
      const handed = new Set(await batches.each([...byId.keys()], each, onKept));
      return sent.map(({ id }) => handed.has(id));
    },
    settle: (id, outcome, retries) => write(() => ops.settle(id, outcome, retries)),
    expire: (queueName, within, limit) => write(() => ops.expire(queueName, within, limit)),
    remove: async (ids, onKept) =>
      (await batches.each(ids, (some) => write(() => ops.remove(some)), onKept)).length,
    forget: async (queueName, age, from, limit, onKept) => {
      const all = await batches.all(() => write(() => ops.forget(queueName, age, from, limit)));
      if (all) return all;
      const { own, next } = await run(() => ops.forgettable(queueName, age, from, limit));
      const each = (ids: readonly number[]) => write(() => ops.remove(ids));
      return { removed: (await batches.each(idsOf(own), each, onKept)).length, next };
    },
    lag: () => run(() => ops.lag()),
  };
}
