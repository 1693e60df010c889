/** A running task waits: what has ended already, its waits for the rest, and whether it gives its slot up. */
import { sql } from "drizzle-orm/sql/sql";
import type { TaskVersion } from "../../../store.ts";
import { listed } from "../../../stores/sql/columns.ts";
import type { Dialect } from "../../../stores/sql/dialect.ts";
import { changes, type Program, rows } from "../../../stores/sql/program.ts";
import { int, textOrNull } from "../../../stores/sql/rows.ts";
import { type Statement, stateChange, still } from "../../../stores/sql/statements.ts";
import { isFinished as finished } from "../../../stores/sql/statuses.ts";
import type { TaskOperations } from "../../../stores/sql/tasks.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import type { StoredStep, Wait, Waited } from "../contract.ts";
import type { EventOperations } from "./events.ts";
import { rangeIn } from "./fan-in.ts";
import { isAllOf } from "./modes.ts";
import type { StepOperations } from "./steps.ts";
import type { WaitRows } from "./wait-rows.ts";

function parkStatements(d: Dialect) {
  return {
    /** Whether these children have ended, and with which results: a parent may have many. Null columns: the task is gone. */
    childEnds: (p) => sql`
      select asked.value, ${listed(d, "dbq_tasks", ["id", "status", "result"])} from ${d.integers(p.ids)} as asked
      left join ${d.tasks} on id = ${d.only(sql.raw("asked.value"))}
      where id is null or ${sql.raw(finished)}`,

    park: stateChange(d)(
      (
        p,
      ) => sql`status = 'waiting', wait_until = (select min(deadline) from dbq_waits where dbq_waits.task_id = dbq_tasks.id),
        uses = null, put_off_by = null, updated_at = ${d.now(p)}`,
      still("running"),
    ),
  } satisfies Record<string, Statement>;
}

export class ParkOperations {
  readonly #s: ReturnType<typeof parkStatements>;
  readonly #tasks: TaskOperations;
  readonly #steps: StepOperations;
  readonly #waits: WaitRows;
  readonly #events: EventOperations;

  constructor(
    { dialect }: Texts,
    tasks: TaskOperations,
    steps: StepOperations,
    waits: WaitRows,
    events: EventOperations,
  ) {
    this.#s = parkStatements(dialect);
    this.#tasks = tasks;
    this.#steps = steps;
    this.#waits = waits;
    this.#events = events;
  }

  *wait(task: TaskVersion, waits: readonly Wait[], park: boolean): Program<Waited | undefined> {
    if ((yield* this.#steps.lock(task)) === undefined) return undefined;
    const stored = new Map((yield* this.#waits.waits([task.id])).map((one) => [one.name, one]));
    const steps: StoredStep[] = [];
    const missing: Wait[] = [];
    for (const one of waits) {
      const row = stored.get(one.name);
      if (one.kind === "child") {
        if (!row) missing.push(one);
      } else {
        const ended = yield* this.#events.endOf(task, one, row);
        if (ended) steps.push(ended);
        else if (!row) missing.push(one);
      }
    }
    const children = missing.filter(({ kind }) => kind === "child").map(({ target }) => int(target));
    const ends = yield* this.#endsOf(children);
    const ended = new Map<number, boolean>();
    for (const { id } of ends.completed) ended.set(id, true);
    for (const { id, status } of ends.ended) ended.set(id, status === "completed");
    for (const id of ends.gone) ended.set(id, false);
    const isOver = ({ kind, target }: Wait) => kind === "child" && ended.has(int(target));
    const wakes = steps.length > 0 || hasToWake(waits, isOver, (id) => ended.get(id) === true);
    // Those for many children that an earlier attempt has left, since another wait has woken the task.
    yield* this.#waits.remove([...stored.values()].filter(({ mode }) => rangeIn(mode)));
    yield* this.#waits.insert(
      task.id,
      missing.filter((one) => !isOver(one)),
      park && !wakes,
    );
    const parked = park && !wakes && (yield* changes(this.#s.park, [task]))[0] === true;
    return { steps, ...ends, parked };
  }

  /** Reads the whole records only of those that have not completed: a parent may have many children. */
  *#endsOf(children: readonly number[]): Program<Omit<Waited, "steps" | "parked">> {
    if (children.length === 0) return { completed: [], ended: [], gone: [] };
    const completed: Waited["completed"] = [];
    const others: number[] = [];
    for (const [id, , status, result] of yield* rows(this.#s.childEnds, { ids: JSON.stringify(children) }))
      if (status === "completed") completed.push({ id: int(id), result: textOrNull(result) });
      else others.push(int(id));
    const { tasks, gone } =
      others.length === 0 ? { tasks: [], gone: [] } : yield* this.#tasks.findEnded(others);
    // Among them may be some that have completed, which a partition holds.
    return { completed, ended: tasks, gone };
  }
}

/** Whether the ends of children that are over wake the task. */
function hasToWake(
  waits: readonly Wait[],
  isOver: (one: Wait) => boolean,
  completed: (childId: number) => boolean,
): boolean {
  const open = new Set<string | null>();
  for (const one of waits) if (!isOver(one)) open.add(one.mode);
  return waits.some(
    (one) =>
      isOver(one) &&
      (one.mode === null || !open.has(one.mode) || (isAllOf(one.mode) && !completed(Number(one.target)))),
  );
}
