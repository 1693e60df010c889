/** The operations on agents and their sessions, each written once for all databases. `AgentStore` says what they promise. */
import { sql } from "drizzle-orm/sql/sql";
import { groupBy } from "../../../base/values/group-by.ts";
import type { TaskVersion } from "../../../store.ts";
import { columnsOf, listed, positionsIn } from "../../../stores/sql/columns.ts";
import type { Dialect, Row } from "../../../stores/sql/dialect.ts";
import { count, type Program, type Runner, rows } from "../../../stores/sql/program.ts";
import { int, intOrNull, taskColumns, toTaskRecord } from "../../../stores/sql/rows.ts";
import { itemColumns, itemOf, type Statement } from "../../../stores/sql/statements.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import { isNames, type TableLook } from "../../../stores/sql/unreadable.ts";
import type { TaskRecord, TaskStatus } from "../../../task.ts";
import type { AgentAttempt, AgentRecord, AgentStore, AgentTask } from "../contract.ts";

const agentColumns = columnsOf("dbq_agents");
const heldColumns = ["id", "generation_id", "worker_id"];
// biome-ignore format: lists to read
const taskFacts = ["id", "generation_id", "status", "func", "group_key", "queue_name", "worker_id", "created_at", "wait_until",
  "started_at", "retry_count", "max_retries", "parent_id"] as const;
const attemptFacts = ["task_id", "generation_id", "worker_id", "outcome"] as const;

function agentStatements(d: Dialect) {
  const isNamed = (name: unknown) => sql`${d.same("name", name)}`;
  const workerId = itemColumns(["workerId"]);
  const version = itemColumns(["id", "generationId"]);
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

    tasks: (p) => sql`
      select ${listed(d, "dbq_tasks", taskFacts)} from dbq_tasks where ${d.among("id", p.ids)}`,

    attempts: (p) => sql`
      select ${listed(d, "dbq_attempts", attemptFacts)} from ${d.objects(p.versions, version)} ${d.joinEach} dbq_attempts
      where task_id = ${d.only(itemOf("id"))} and generation_id = ${itemOf("generationId")}`,

    cancelErrors: (p) => sql`
      select ${listed(d, "dbq_tasks", ["id", "error"])} from dbq_tasks
      where ${d.among("id", p.ids)} and status = 'cancelled'`,
  } satisfies Record<string, Statement>;
}

export const agentLook: TableLook = {
  table: "dbq_agents",
  key: ["name"],
  columns: ["funcs", "queues", "created_at", "last_seen_at", "expires_at", "revoked_at"],
  accepts: { funcs: isNames, queues: isNames },
};

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
    return (yield* rows(this.#s.list)).flatMap((row) => toAgentRecord(row) ?? []);
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
      id: int(id),
      generationId: int(generationId),
      workerId: String(workerId),
    }));
  }

  *tasks(ids: readonly number[]): Program<AgentTask[]> {
    return (yield* rows(this.#s.tasks, { ids: JSON.stringify(ids) })).map(toAgentTask);
  }

  *attempts(versions: readonly TaskVersion[]): Program<AgentAttempt[]> {
    const asked = versions.map(({ id, generationId }) => ({ id, generationId }));
    return (yield* rows(this.#s.attempts, { versions: JSON.stringify(asked) })).map(toAgentAttempt);
  }

  *cancelErrors(ids: readonly number[]): Program<Pick<TaskRecord, "id" | "error">[]> {
    return (yield* rows(this.#s.cancelErrors, { ids: JSON.stringify(ids) })).map(([id, error]) => ({
      id: int(id),
      error: error as string | null,
    }));
  }
}

const agent = positionsIn(agentColumns);

/** Undefined where the functions or queues cannot be read: such an agent may run nothing, and keeps no other from its tasks. */
function toAgentRecord(row: Row): AgentRecord | undefined {
  const [funcs, queues] = [row[agent.funcs], row[agent.queues]].map(namesOrNone);
  if (funcs === undefined || queues === undefined) return undefined;
  return {
    name: String(row[agent.name]),
    tokenHash: String(row[agent.token_hash]),
    funcs,
    queues,
    createdAt: Number(row[agent.created_at]),
    lastSeenAt: intOrNull(row[agent.last_seen_at]),
    expiresAt: intOrNull(row[agent.expires_at]),
    revokedAt: intOrNull(row[agent.revoked_at]),
    expiresIn: intOrNull(row[agentColumns.length]),
  };
}

const task = positionsIn(taskFacts);

function toAgentTask(row: Row): AgentTask {
  return {
    id: int(row[task.id]),
    generationId: int(row[task.generation_id]),
    status: row[task.status] as TaskStatus,
    func: String(row[task.func]),
    groupKey: row[task.group_key] as string | null,
    queueName: String(row[task.queue_name]),
    workerId: row[task.worker_id] as string | null,
    createdAt: Number(row[task.created_at]),
    waitUntil: intOrNull(row[task.wait_until]),
    startedAt: intOrNull(row[task.started_at]),
    retryCount: int(row[task.retry_count]),
    maxRetries: int(row[task.max_retries]),
    parentId: intOrNull(row[task.parent_id]),
  };
}

function toAgentAttempt([taskId, generationId, workerId, outcome]: Row): AgentAttempt {
  return {
    taskId: int(taskId),
    generationId: int(generationId),
    workerId: workerId as string | null,
    outcome: outcome as AgentAttempt["outcome"],
  };
}

function namesOrNone(json: unknown): string[] | undefined {
  try {
    const names: unknown = JSON.parse(String(json));
    return Array.isArray(names) && names.every((name) => typeof name === "string") ? names : undefined;
  } catch {
    return undefined;
  }
}

export function agentMethods({ run, write }: Runner, ops: AgentOperations): AgentStore {
  return {
    add: (agent) => write(() => ops.add(agent)),
    list: () => run(() => ops.list()),
    revoke: (name) => write(() => ops.revoke(name)),
    // Each is one statement, as a rule: BEGIN and COMMIT would be two round trips more.
    seen: (name) => run(() => ops.seen(name)),
    beat: (workers) => (workers.length === 0 ? Promise.resolve() : run(() => ops.beat(workers))),
    claimed: (workerId) => run(() => ops.claimed(workerId)),
    held: (workerIds) => (workerIds.length === 0 ? Promise.resolve([]) : run(() => ops.held(workerIds))),
    tasks: (ids) => (ids.length === 0 ? Promise.resolve([]) : run(() => ops.tasks(ids))),
    attempts: (versions) => (versions.length === 0 ? Promise.resolve([]) : run(() => ops.attempts(versions))),
    cancelErrors: (ids) => (ids.length === 0 ? Promise.resolve([]) : run(() => ops.cancelErrors(ids))),
  };
}
