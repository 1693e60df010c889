/** The operations on agents and their sessions, each written once for all databases. `AgentStore` says what they promise. */
import { sql } from "drizzle-orm/sql/sql";
import { groupBy } from "../../base/values/group-by.ts";
import type { AgentRecord, AgentStore, TaskVersion } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { columnsOf, listed, positionsIn } from "./columns.ts";
import type { Dialect, Row } from "./dialect.ts";
import { count, type Program, rows } from "./program.ts";
import { taskColumns, toTaskRecord } from "./rows.ts";
import { itemColumns, itemOf, type Statement } from "./statements.ts";
import type { Texts } from "./texts.ts";

const agentColumns = columnsOf("dbq_agents");
const heldColumns = ["id", "generation_id", "worker_id"];

function agentStatements(d: Dialect) {
  const isNamed = (name: unknown) => sql`${d.same("name", name)}`;
  const workerId = itemColumns(["workerId"]);
  return {
    list: (p) => sql`
      select ${listed(d, "dbq_agents", agentColumns)}, ${d.minus(sql`expires_at`, d.now(p))} from dbq_agents order by name`,

    removeRevoked: (p) => sql`
      delete from dbq_agents where ${isNamed(p.name)} and revoked_at is not null`,

    hashOf: (p) => sql`
      select token_hash from dbq_agents where ${isNamed(p.name)}`,

    add: (p) => sql`
      insert into dbq_agents (name, token_hash, funcs, queues, created_at, expires_at)
      values (${p.name}, ${p.tokenHash}, ${d.json(p.funcs)}, ${d.json(p.queues)}, ${d.now(p)},
        ${d.plus(d.now(p), d.integer(p.expiresIn))})
      ${d.keepExisting("funcs")}`,

    revoke: (p) => sql`
      update dbq_agents set revoked_at = coalesce(revoked_at, ${d.now(p)}) where ${isNamed(p.name)}`,

    seen: (p) => sql`
      update dbq_agents set last_seen_at = ${d.now(p)} where ${isNamed(p.name)}`,

    beat: (p) => sql`
      update dbq_workers set heartbeat_at = ${d.now(p)}, beat = beat + 1, host = ${p.host}
      where id in (select ${itemOf("workerId")} from ${d.objects(p.workers, workerId)})`,

    claimed: (p) => sql`
      select ${listed(d, "dbq_tasks", taskColumns, { givenKey: true })} from ${d.tasks}
      where status = 'running' and ${d.indexed.runBy} = ${p.workerId}
        and started_at >= (select requested_at from dbq_workers where dbq_workers.id = ${p.workerId}) order by id`,

    held: (p) => sql`
      select ${listed(d, "dbq_tasks", heldColumns)} from ${d.objects(p.workers, workerId)} ${d.joinEach} ${d.tasks}
      where status = 'running' and ${d.indexed.runBy} = ${itemOf("workerId")}`,
  } satisfies Record<string, Statement>;
}

export class AgentOperations {
  readonly #s: ReturnType<typeof agentStatements>;

  constructor({ dialect }: Texts) {
    this.#s = agentStatements(dialect);
  }

  /** By its token a caller knows its own agent: of two callers at the same moment one adds it, and a repetition has done so. */
  *add({ funcs, queues, ...agent }: Parameters<AgentStore["add"]>[0]): Program<boolean> {
    yield* count(this.#s.removeRevoked, { name: agent.name });
    yield* count(this.#s.add, { ...agent, funcs: JSON.stringify(funcs), queues: JSON.stringify(queues) });
    const [row] = yield* rows(this.#s.hashOf, { name: agent.name });
    return row?.[0] === agent.tokenHash;
  }

  *list(): Program<AgentRecord[]> {
    return (yield* rows(this.#s.list)).map(toAgentRecord);
  }

  *revoke(name: string): Program<boolean> {
    return (yield* count(this.#s.revoke, { name })) > 0 || (yield* rows(this.#s.hashOf, { name })).length > 0;
  }

  *seen(name: string): Program<void> {
    yield* count(this.#s.seen, { name });
  }

  /** One statement for each host: most often there is one. A heartbeat is nobody's wake-up. */
  *beat(workers: readonly { workerId: string; host: string }[]): Program<void> {
    const byHost = groupBy(workers, ({ host }) => host);
    for (const [host, some] of [...byHost].sort(([a], [b]) => (a < b ? -1 : 1)))
      yield* count(this.#s.beat, { host, workers: JSON.stringify(some) }, false);
  }

  *claimed(workerId: string): Program<TaskRecord[]> {
    return (yield* rows(this.#s.claimed, { workerId })).map(toTaskRecord);
  }

  *held(workerIds: readonly string[]): Program<(TaskVersion & { workerId: string })[]> {
    const workers = JSON.stringify(workerIds.map((workerId) => ({ workerId })));
    return (yield* rows(this.#s.held, { workers })).map(([id, generationId, workerId]) => ({
      id: Number(id),
      generationId: Number(generationId),
      workerId: String(workerId),
    }));
  }
}

const agent = positionsIn(agentColumns);
const orNull = (value: unknown) => (value === null ? null : Number(value));

function toAgentRecord(row: Row): AgentRecord {
  return {
    name: String(row[agent.name]),
    tokenHash: String(row[agent.token_hash]),
    funcs: JSON.parse(String(row[agent.funcs])) as string[],
    queues: JSON.parse(String(row[agent.queues])) as string[],
    createdAt: Number(row[agent.created_at]),
    lastSeenAt: orNull(row[agent.last_seen_at]),
    expiresAt: orNull(row[agent.expires_at]),
    revokedAt: orNull(row[agent.revoked_at]),
    expiresIn: orNull(row[agentColumns.length]),
  };
}
