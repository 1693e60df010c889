/** The operations on hooks that crashed attempts owe, each written once for all databases. `HookStore` in `store.ts` says what they promise. */

import { sql } from "drizzle-orm/sql/sql";
import type { Crash } from "../../store.ts";
import { columnsOf, listed, positionsIn } from "../../stores/sql/columns.ts";
import type { Dialect, Params, Row } from "../../stores/sql/dialect.ts";
import { hasRows } from "../../stores/sql/due-looks.ts";
import type { CoreOperations } from "../../stores/sql/operations.ts";
import { count, insertedIds, type Program, type Runner, rows } from "../../stores/sql/program.ts";
import { int } from "../../stores/sql/rows.ts";
import { before, type Statement } from "../../stores/sql/statements.ts";
import type { Texts } from "../../stores/sql/texts.ts";
import { type HookStore, hooksDue, type OwedHook } from "./contract.ts";

const columns = columnsOf("dbq_owed_hooks");
const at = positionsIn(columns);

/** The largest number of the column `tries` on servers. Another program may have written it. */
const mostTries = 2_147_483_647;

const toOwedHook = (row: Row): OwedHook => ({
  id: int(row[at.id]),
  taskId: int(row[at.task_id]),
  generationId: int(row[at.generation_id]),
  queueName: String(row[at.queue_name]),
  func: String(row[at.func]),
  status: row[at.status] as OwedHook["status"],
  retryCount: int(row[at.retry_count]),
  tries: int(row[at.tries]),
});

function owedHookStatements(d: Dialect) {
  /** No other registered worker runs it. The row of a worker that dies is deleted by its rescue. */
  const isFree = (p: Params) => sql`(worker_id is null or worker_id = ${p.workerId}
        or not exists (select 1 from dbq_workers where dbq_workers.id = dbq_owed_hooks.worker_id))`;
  return {
    owe: (p, many) => {
      const row = sql`${p.id}, ${p.generationId}, ${p.queueName}, ${p.func}, ${p.status}, ${d.integer(p.retryCount)}, ${d.now(p)}`;
      return sql`
      insert into dbq_owed_hooks (task_id, generation_id, queue_name, func, status, retry_count, created_at)
        ${many === undefined ? sql`values (${row})` : sql`select ${row} ${many.afterSet}`}`;
    },

    functions: (p) => sql`
      select min(queue_name), min(func) from dbq_owed_hooks where ${isFree(p)}
      group by ${d.exact("queue_name")}, ${d.exact("func")}`,

    lockFree: (p) => sql`
      select ${listed(d, "dbq_owed_hooks", columns)} from dbq_owed_hooks
      where ${d.same("queue_name", p.queueName)} and ${d.same("func", p.func)} and ${isFree(p)}
      order by id ${d.atMost(p.limit)} ${d.skipLocked}`,

    take: (p) => sql`
      update dbq_owed_hooks set worker_id = ${p.workerId}, tries = ${d.integer(p.next)} where id = ${p.id} and tries = ${p.tries}`,

    remove: (p) => sql`delete from dbq_owed_hooks where id = ${p.id} and tries = ${p.tries}`,

    prune: (p) => sql`delete from dbq_owed_hooks where created_at < ${before(d, p)}`,
  } satisfies Record<string, Statement>;
}

/** The functions of one queue. */
export type OwingFunction = Pick<OwedHook, "queueName" | "func">;

export class OwedHookOperations {
  readonly #s: ReturnType<typeof owedHookStatements>;

  constructor({ dialect }: Texts) {
    this.#s = owedHookStatements(dialect);
  }

  /** Written in the transaction of the crash. A worker whose function has no hook deletes the row: a rescuer may not know the function. */
  *owe(crashes: readonly Crash[]): Program<void> {
    const hooks = crashes.map(({ record: { id, generationId, queueName, func, retryCount }, outcome }) => {
      const again = outcome.kind === "retry";
      const status = again ? "scheduled" : "failed";
      return { id, generationId, queueName, func, status, retryCount: retryCount + (again ? 1 : 0) };
    });
    yield* insertedIds(this.#s.owe, hooks);
  }

  *functions(workerId: string): Program<OwingFunction[]> {
    return (yield* rows(this.#s.functions, { workerId })).map(([queueName, func]) => ({
      queueName: String(queueName),
      func: String(func),
    }));
  }

  *take(
    workerId: string,
    functions: readonly OwingFunction[],
    limit: number,
    except: readonly number[],
  ): Program<OwedHook[]> {
    const taken: OwedHook[] = [];
    for (const each of functions) {
      if (taken.length >= limit) break;
      const found = yield* rows(this.#s.lockFree, { workerId, ...each, limit: limit + except.length });
      const free = found.map(toOwedHook).filter(({ id }) => !except.includes(id));
      for (const hook of free.slice(0, limit - taken.length)) {
        const { id, tries } = hook;
        const next = Math.min(tries + 1, mostTries);
        if ((yield* count(this.#s.take, { id, tries, next, workerId }, false)) > 0)
          taken.push({ ...hook, tries: next });
      }
    }
    return taken;
  }

  *remove({ id, tries }: Pick<OwedHook, "id" | "tries">): Program<boolean> {
    return (yield* count(this.#s.remove, { id, tries }, false)) > 0;
  }

  *prune(age: number): Program<number> {
    return yield* count(this.#s.prune, { age }, false);
  }
}

/** The operations, which note each task that has crashed for good. */
export const owedHooksLook = hasRows(hooksDue, "dbq_owed_hooks");

export function owedHooksOf({ texts, maintenance }: CoreOperations): OwedHookOperations {
  const hooks = new OwedHookOperations(texts);
  maintenance.onCrash = (crashes) => hooks.owe(crashes);
  return hooks;
}

export function hookMethods({ run, write }: Runner, ops: OwedHookOperations): HookStore {
  return {
    take: async (workerId, runs, limit, except) => {
      // A look that finds none begins no transaction.
      const known = (await run(() => ops.functions(workerId))).filter(({ queueName, func }) =>
        runs(queueName, func),
      );
      return known.length === 0 ? [] : await write(() => ops.take(workerId, known, limit, except));
    },
    remove: (hook) => run(() => ops.remove(hook)),
    prune: (age) => run(() => ops.prune(age)),
  };
}
