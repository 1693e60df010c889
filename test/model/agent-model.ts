/**
 * What the sessions of agents may expect, without SQL: a task is held by one session in one generation, a repeated request claims
 * nothing, an outcome of another generation is refused, and the tasks of a session that died return.
 */
import assert from "node:assert/strict";

export interface AgentTask {
  id: number;
  generation: number;
  status: string;
  workerId: string | null;
  retryCount: number;
  maxRetries: number;
}

/** A task as a session was given it. */
export interface Grant {
  id: number;
  generation: number;
  workerId: string;
}

export class AgentModel {
  readonly tasks = new Map<number, AgentTask>();
  /** All that was ever given, to be settled at any later time. */
  readonly grants: Grant[] = [];
  /** The registered sessions, and the last request that has brought each of them tasks. */
  readonly sessions = new Map<string, string>();
  /** The tasks of that request. */
  readonly #brought = new Map<string, readonly number[]>();
  requests = 0;

  register(session: string): void {
    this.sessions.set(session, "");
    this.#brought.set(session, []);
  }

  /** The running tasks of the session's last request. */
  claimed(session: string): number[] {
    return (this.#brought.get(session) ?? []).filter((id) => {
      const task = this.tasks.get(id);
      const grant = this.grants.findLast((one) => one.id === id);
      return task?.status === "running" && grant?.workerId === session && task.workerId === session;
    });
  }

  pending(): number[] {
    return [...this.tasks.values()].filter(({ status }) => status === "pending").map(({ id }) => id);
  }

  isRunning({ id, generation }: Grant): boolean {
    const task = this.tasks.get(id);
    return task?.status === "running" && task.generation === generation;
  }

  give(session: string, request: string, given: readonly Grant[]): void {
    for (const grant of given) {
      const task = this.tasks.get(grant.id) ?? assert.fail(`there is no task ${grant.id}`);
      assert.equal(task.status, "pending", `task ${task.id} was given while it was ${task.status}`);
      assert.ok(grant.generation > task.generation, `task ${task.id} was given in an old generation`);
      Object.assign(task, { status: "running", generation: grant.generation, workerId: session });
      this.grants.push(grant);
    }
    if (given.length === 0) return;
    this.sessions.set(session, request);
    this.#brought.set(
      session,
      given.map(({ id }) => id),
    );
  }

  /** True: the outcome is accepted. */
  settle(grant: Grant, kind: "completed" | "failed" | "interrupted"): boolean {
    const task = this.tasks.get(grant.id);
    if (!task || !this.isRunning(grant)) return false;
    task.status = kind === "interrupted" ? "pending" : kind;
    return true;
  }

  /** Its tasks return. `charged`: with a retry, or failed when none is left. */
  end(session: string, charged: boolean): void {
    this.sessions.delete(session);
    for (const task of this.tasks.values()) {
      if (task.status !== "running" || task.workerId !== session) continue;
      const isLast = charged && task.retryCount >= task.maxRetries;
      if (charged && !isLast) task.retryCount += 1;
      task.status = isLast ? "failed" : "pending";
    }
  }

  /** The rows are those of the model. A row's generation never goes back, and each change of state moves it. */
  agree(rows: readonly AgentTask[]): void {
    assert.equal(rows.length, this.tasks.size);
    for (const row of rows) {
      const task = this.tasks.get(row.id) ?? assert.fail(`there is no task ${row.id}`);
      assert.equal(row.status, task.status, `task ${row.id} is ${row.status}`);
      assert.equal(row.retryCount, task.retryCount, `task ${row.id} was charged ${row.retryCount} retries`);
      if (row.status === "running")
        assert.deepStrictEqual([row.workerId, row.generation], [task.workerId, task.generation]);
      assert.ok(row.generation >= task.generation);
      task.generation = row.generation;
    }
  }
}
