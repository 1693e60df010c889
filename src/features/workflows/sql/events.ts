/** Events and times: their ends become steps of the tasks that wait for them. `WorkflowStore` says what each operation promises. */
import { sql } from "drizzle-orm/sql/sql";
import type { TaskVersion } from "../../../store.ts";
import type { Dialect } from "../../../stores/sql/dialect.ts";
import { count, type Program, rows } from "../../../stores/sql/program.ts";
import { int, textOrNull } from "../../../stores/sql/rows.ts";
import { before, type Statement } from "../../../stores/sql/statements.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import { isFinished } from "../../../task.ts";
import type { StoredStep, Wait } from "../contract.ts";
import type { StepOperations } from "./steps.ts";
import type { TaskTree } from "./task-tree.ts";
import type { WaitRow, WaitRows } from "./wait-rows.ts";

function eventStatements(d: Dialect) {
  return {
    /** Makes the row of an event before it is emitted. A wait and an emit both lock it, so that one of them sees the other. */
    expectEvent: (p) => sql`insert into dbq_events (name) values (${p.name}) ${d.keepExisting("name")}`,

    lockEvent: (p) => sql`
      select ${d.text(sql`payload`)}, case when emitted_at is null then 0 else 1 end as emitted from dbq_events
      where ${d.same("name", p.name)} ${d.locked}`,

    fillEvent: (p) => sql`
      update dbq_events set payload = ${d.json(p.payload)}, emitted_at = ${d.now(p)}
      where ${d.same("name", p.name)} and emitted_at is null`,

    oldEvents: (p) => sql`
      select id from dbq_events where emitted_at < ${before(d, p)} order by emitted_at ${d.atMost(p.limit)} ${d.skipLocked}`,

    /** Events that were not emitted, and for which no task waits any more: waits have made their rows. */
    unusedEvents: (p) => sql`
      select id from dbq_events where emitted_at is null
        and not exists (select 1 from dbq_waits where dbq_waits.target = dbq_events.name) ${d.atMost(p.limit)} ${d.skipLocked}`,

    deleteEvents: (p) => sql`delete from dbq_events where ${d.among("id", p.ids)}`,
  } satisfies Record<string, Statement>;
}

export class EventOperations {
  readonly #s: ReturnType<typeof eventStatements>;
  readonly #tree: TaskTree;
  readonly #steps: StepOperations;
  readonly #waits: WaitRows;

  constructor({ dialect }: Texts, tree: TaskTree, steps: StepOperations, waits: WaitRows) {
    this.#s = eventStatements(dialect);
    this.#tree = tree;
    this.#steps = steps;
    this.#waits = waits;
  }

  /** @param stored whether an earlier try has stored this payload, without an answer to its COMMIT */
  *emit(name: string, payload: string, stored = false): Program<boolean> {
    // A wait that begins at the same time has made this row, or waits until it is committed.
    yield* count(this.#s.expectEvent, { name }, false);
    const isNew = (yield* count(this.#s.fillEvent, { name, payload })) > 0;
    if (isNew) yield* this.#tell(name, payload);
    return isNew || (stored && (yield* this.#payload(name)) === payload);
  }

  /** Ends the waits for an event that another program has written. */
  *tellOf(name: string): Program<void> {
    yield* this.#tell(name, yield* this.#payload(name));
  }

  *#payload(name: string): Program<string | null> {
    const [event] = yield* rows(this.#s.lockEvent, { name });
    return textOrNull(event?.[0]);
  }

  *#tell(name: string, payload: string | null): Program<void> {
    yield* this.#end(yield* this.#waits.forEvent(name), payload);
  }

  *endDue(limit: number): Program<number> {
    const due = yield* this.#waits.due(limit);
    yield* this.#end(due, null);
    return due.length;
  }

  /** Ends waits for an event or a time: each becomes a step. */
  *#end(over: readonly WaitRow[], value: string | null): Program<void> {
    if (over.length === 0) return;
    const tasks = yield* this.#tree.lock(over.map(({ taskId }) => taskId));
    yield* this.#waits.remove(over);
    for (const { taskId, name } of over) {
      const task = tasks.get(taskId);
      if (task && !isFinished(task.status)) yield* this.#steps.storeLast(task, name, value);
    }
    yield* this.#tree.wake([...tasks.values()]);
  }

  /** The step of an event or a time that is over; undefined: it is not. @param row its wait, which an earlier attempt has left */
  *endOf(
    task: TaskVersion,
    { name, kind, target }: Wait,
    row: WaitRow | undefined,
  ): Program<StoredStep | undefined> {
    let value: string | null = null;
    if (row) {
      if (row.left === undefined || row.left > 0) return undefined;
      yield* this.#waits.remove([row]);
    } else {
      const there = yield* this.#steps.named(task.id, name);
      if (there) return there;
      if (kind !== "event") return undefined;
      yield* count(this.#s.expectEvent, { name: target }, false);
      const [event] = yield* rows(this.#s.lockEvent, { name: target });
      if (Number(event?.[1]) !== 1) return undefined;
      value = textOrNull(event?.[0]);
    }
    yield* this.#steps.storeLast(task, name, value);
    return yield* this.#steps.named(task.id, name);
  }

  *prune(age: number, limit: number): Program<number> {
    const old = yield* rows(this.#s.oldEvents, { age, limit });
    const unused = yield* rows(this.#s.unusedEvents, { limit });
    const ids = [...old, ...unused].map(([id]) => int(id));
    return ids.length === 0 ? 0 : yield* count(this.#s.deleteEvents, { ids: JSON.stringify(ids) }, false);
  }
}
