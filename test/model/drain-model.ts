/**
 * What a drain promises, without SQL: each staged task arrives at the broker at least once and ends once, none is lost, and what
 * a drain that ended has left is sent again.
 */
import assert from "node:assert/strict";

export interface DrainedTask {
  id: number;
  group: string;
  status: string;
  retryCount: number;
  workerId: string | null;
  /** The whole row, as text. */
  row: string;
}

type End = "completed" | "failed";

export class DrainModel {
  /** The group of each task that was enqueued. */
  readonly staged = new Map<number, string>();
  /** How often the broker was sent each task. */
  readonly arrivals = new Map<number, number>();
  /** How often a send of a task had no answer, or an answer that its drain could not write down. */
  readonly unsettled = new Map<number, number>();
  /** The tasks that the broker has refused. */
  readonly refused = new Set<number>();
  /** How the database has accepted that a task ends. */
  readonly ends = new Map<number, End>();
  /** The rows of the ended tasks. */
  readonly #endedRows = new Map<number, string>();
  /** The drains that died and were not rescued. */
  readonly dead = new Set<string>();
  /** How many drains there were. */
  drains = 0;

  arrived(id: number): void {
    assert.ok(this.staged.has(id), `the broker got task ${id}, which nobody has enqueued`);
    assert.ok(!this.ends.has(id), `task ${id} has ended, and was sent again`);
    this.arrivals.set(id, (this.arrivals.get(id) ?? 0) + 1);
  }

  leftUnsettled(id: number): void {
    this.unsettled.set(id, (this.unsettled.get(id) ?? 0) + 1);
  }

  ended(id: number, how: End): void {
    assert.ok(!this.ends.has(id), `task ${id} has ended twice`);
    this.ends.set(id, how);
  }

  /** In order, a task is sent when all earlier ones of its group have arrived. */
  inOrder(id: number): void {
    const group = this.staged.get(id);
    for (const [earlier, of] of this.staged)
      if (group !== "" && of === group && earlier < id)
        assert.equal(this.ends.get(earlier), "completed", `task ${id} was sent before task ${earlier}`);
  }

  agree(tasks: readonly DrainedTask[]): void {
    assert.deepStrictEqual(
      tasks.map(({ id }) => id),
      [...this.staged.keys()],
      "a task was lost",
    );
    for (const task of tasks) this.#judge(task);
  }

  #judge({ id, status, retryCount, workerId, row }: DrainedTask): void {
    const arrivals = this.arrivals.get(id) ?? 0;
    const most = 1 + (this.unsettled.get(id) ?? 0);
    assert.ok(arrivals <= most, `task ${id} was sent ${arrivals} times, and ${most} were enough`);
    assert.equal(retryCount, 0, `task ${id} was charged a retry`);
    assert.equal(this.ends.get(id), status === "completed" || status === "failed" ? status : undefined);
    if (status === "completed") assert.ok(arrivals > 0 && !this.refused.has(id), `task ${id} never arrived`);
    else if (status === "failed") assert.ok(this.refused.has(id), `task ${id} failed without a reason`);
    else if (status === "running") assert.ok(this.dead.has(workerId ?? ""), `nobody holds task ${id}`);
    else assert.equal(status, "pending");
    if (!this.ends.has(id)) return;
    assert.equal(row, this.#endedRows.get(id) ?? row, `task ${id} was changed after its end`);
    this.#endedRows.set(id, row);
  }
}
