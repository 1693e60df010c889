/** The claims of an ordered drain: one task of each group at a time. */
import { sql } from "drizzle-orm/sql/sql";
import { memoize } from "../../../base/runtime/memoize.ts";
import { drainPrefix } from "../../../base/tasks/drained.ts";
import type { AdmissionPolicy, Candidate, Gate } from "../../../stores/sql/admission.ts";
import type { Dialect } from "../../../stores/sql/dialect.ts";
import { type Program, rows } from "../../../stores/sql/program.ts";
import { int } from "../../../stores/sql/rows.ts";
import type { Statement } from "../../../stores/sql/statements.ts";
import { orderAsked } from "../contract.ts";

const byDrain = sql.raw(`worker_id like '${drainPrefix}%'`);

const statementsOf = memoize(
  (d: Dialect) =>
    ({
      /** The groups of which a task is under way, or was refused for good. */
      busyGroups: (p) => sql`
        select group_key from ${d.tasks}
        where ${d.same("queue_name", p.queueName)} and status = 'running' and group_key is not null
        union
        select group_key from ${d.tasks}
        where ${d.same("queue_name", p.queueName)} and status = 'failed' and finished_at is not null
          and group_key is not null and ${byDrain}`,

      /** The groups of which a task was refused, and will be sent again. */
      scheduledGroups: (p) => sql`
        select group_key from ${d.tasks}
        where ${d.same("queue_name", p.queueName)} and status = 'scheduled' and group_key is not null and ${byDrain}`,

      groupsOf: (p) => sql`
        select id, group_key from ${d.tasks} where ${d.among("id", p.ids)} and group_key is not null`,
    }) satisfies Record<string, Statement>,
);

/** The end of a task may free its group. */
export const inOrder: AdmissionPolicy = {
  appliesTo: (request) => orderAsked.of(request) !== undefined,
  admitsAfterEnds: true,
  *begin(request, { dialect }) {
    const { busyGroups, scheduledGroups } = statementsOf(dialect);
    const busy = new Set<string>();
    for (const queueName of request.queueNames) {
      const found = yield* rows(busyGroups, { queueName });
      if (orderAsked.of(request)?.scheduledToo) found.push(...(yield* rows(scheduledGroups, { queueName })));
      for (const [group] of found) busy.add(String(group));
    }
    const groups = new Map<number, string>();
    return () => new GroupGate(statementsOf(dialect).groupsOf, groups, new Set(busy));
  },
};

/** Admits the first task of each group that is not busy, and all tasks without a group. */
class GroupGate implements Gate {
  readonly #groupsOf: Statement;
  /** Of the candidates of all passes, the groups of those that have one. */
  readonly #groups: Map<number, string>;
  readonly #taken: Set<string>;

  constructor(groupsOf: Statement, groups: Map<number, string>, taken: Set<string>) {
    this.#groupsOf = groupsOf;
    this.#groups = groups;
    this.#taken = taken;
  }

  *learn(candidates: readonly Candidate[]): Program<void> {
    const ids = candidates.map(({ id }) => id).filter((id) => !this.#groups.has(id));
    for (const [id, group] of yield* rows(this.#groupsOf, { ids: JSON.stringify(ids) }))
      this.#groups.set(int(id), String(group));
  }

  admits({ id }: Candidate): boolean {
    const group = this.#groups.get(id);
    if (group === undefined) return true;
    if (this.#taken.has(group)) return false;
    this.#taken.add(group);
    return true;
  }
}
