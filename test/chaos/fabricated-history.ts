/** Builds a fabricated history for the checker's tests: small, with every event that a task can have. */
import type { Entry } from "../fixtures/event-log.ts";
import type { Move } from "./audit.ts";
import type { History, TaskRow } from "./history.ts";
import { isCharged } from "./promises/finder.ts";

type Writable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer E)[] ? E[] : T[K] };

/** A history that a test may change. */
export type FabricatedHistory = Writable<History>;

/** `stopping` gets SIGTERM; `dying` is killed while it runs a task. */
export const names = { steady: "host:11:a", stopping: "host:12:b", dying: "host:13:c" } as const;

const pidOf = (worker: string) => Number(worker.split(":")[1]);

/** How an attempt ends, and what its worker reports. */
interface End {
  status: string;
  reported?: string;
  charged?: boolean;
  /** The outcome in the recorded attempt. */
  outcome?: string;
  result?: string;
}

const ends = {
  returned: { status: "completed", reported: "completed", result: '"returned"' },
  within: { status: "completed", reported: "completed", result: '"within"' },
  failed: { status: "failed", reported: "failed", outcome: "failed" },
  cancelled: { status: "cancelled", reported: "cancelled", outcome: "cancelled" },
  retrying: { status: "scheduled", reported: "retrying", charged: true, outcome: "failed" },
  snoozed: { status: "scheduled", reported: "snoozed" },
  interrupted: { status: "pending", reported: "interrupted" },
  crashed: { status: "pending", charged: true, outcome: "crashed" },
} as const satisfies Record<string, End>;

class HistoryBuilder {
  #now = 1_000;
  readonly history: FabricatedHistory = {
    entries: [],
    moves: [],
    workerMoves: [],
    tasks: [],
    attempts: [],
    effects: [],
    orders: [],
    workers: [],
    integrity: "ok",
    wal: 4_096,
    ahead: false,
  };

  report(what: string, pid: number, more: Partial<Entry> = {}): void {
    this.#now += 10;
    this.history.entries.push({ what, at: this.#now, pid, ...more });
  }

  worker(worker: string): void {
    this.report("begun", pidOf(worker));
    this.#workerMove(worker, { came: 1, holds: 0, silent: 0 });
    this.report("ready", pidOf(worker), { note: worker });
  }

  gone(worker: string, holds: number): void {
    this.#workerMove(worker, { came: 0, holds, silent: 200 });
  }

  #workerMove(worker: string, what: { came: number; holds: number; silent: number }): void {
    this.#now += 10;
    this.history.workerMoves.push({ worker, at: this.#now, lease: 2_000, ...what });
  }

  /** An acknowledged enqueue, under the enqueuer's name for it. */
  task(name: string, requestId: string | null = null): TaskRow {
    const id = this.history.tasks.length + 1;
    const task: TaskRow = {
      id,
      func: "chore",
      status: "pending",
      generation: 1,
      retries: 0,
      maxRetries: 2,
      worker: null,
      requestId,
      result: null,
      error: null,
    };
    this.history.tasks.push(task);
    this.#moved({ task: id, wasStatus: null, status: "pending", wasGeneration: null, generation: 1 });
    this.report("acknowledged", 9, { task: id, note: name });
    return task;
  }

  #moved(move: Partial<Move> & Pick<Move, "task">): void {
    this.#now += 10;
    const none = { wasStatus: null, status: null, wasGeneration: null, generation: null, worker: null };
    const seq = this.history.moves.length + 1;
    const counts = { wasRetries: 0, retries: 0, registered: null };
    this.history.moves.push({ seq, at: this.#now, ...none, ...counts, ...move });
  }

  #move(task: TaskRow, status: string, charge = 0): void {
    const { status: wasStatus, generation: wasGeneration, retries: wasRetries, id, worker } = task;
    Object.assign(task, { status, generation: wasGeneration + 1, retries: wasRetries + charge });
    const { generation, retries } = task;
    const registered = status === "running" ? 1 : null;
    const change = { wasStatus, status, wasGeneration, generation, wasRetries, retries };
    this.#moved({ task: id, worker, registered, ...change });
  }

  /** One attempt: claimed, started, ended. */
  attempt(task: TaskRow, worker: string, how: keyof typeof ends): void {
    const { status, reported, charged, outcome, result }: End = ends[how];
    task.worker = worker;
    this.#move(task, "running");
    const held = { task: task.id, generation: task.generation };
    this.report("start", pidOf(worker), held);
    this.#move(task, status, charged ? 1 : 0);
    if (outcome) {
      task.error = "as planned";
      this.history.attempts.push({ ...held, outcome, error: "as planned" });
    }
    if (result) Object.assign(task, { result, error: null });
    if (reported) this.report(reported, pidOf(worker), { task: task.id, generation: task.generation });
  }

  promote(task: TaskRow): void {
    this.#move(task, "pending");
  }
}

/** A correct history. */
export function correctHistory(): FabricatedHistory {
  const builder = new HistoryBuilder();
  const { steady, stopping, dying } = names;
  for (const worker of Object.values(names)) builder.worker(worker);
  builder.attempt(builder.task("single:9:0:1"), steady, "returned");
  for (const _ of [1, 2]) builder.attempt(builder.task("batch:9:0", "batch:9:0:2"), steady, "returned");
  builder.history.orders.push("order:9:0");
  const order = builder.task("order:9:0", "order:9:0");
  builder.history.effects.push(order.id);
  builder.attempt(order, steady, "within");
  builder.report("rolledBack", 9, { note: "rolled:9:0" });
  fail(builder);
  builder.attempt(builder.task("single:9:0:2"), steady, "cancelled");
  const put = builder.task("unique:9:0");
  builder.report("acknowledged", 9, { task: put.id, note: "unique:9:8" });
  builder.report("stopping", pidOf(stopping));
  builder.attempt(put, stopping, "interrupted");
  builder.gone(stopping, 0);
  builder.attempt(put, steady, "snoozed");
  builder.promote(put);
  builder.attempt(put, steady, "returned");
  builder.report("stopping", pidOf(steady));
  builder.gone(steady, 0);
  return builder.history;

  function fail(failing: HistoryBuilder): void {
    const task = failing.task("single:9:0:3");
    failing.attempt(task, steady, "retrying");
    failing.promote(task);
    failing.attempt(task, dying, "crashed");
    failing.gone(dying, 1);
    failing.attempt(task, steady, "failed");
  }
}

/** The first move that matches. */
export function moveOf({ moves }: FabricatedHistory, matches: (move: Move) => boolean): Move {
  const found = moves.find(matches);
  if (!found) throw new Error("the correct history has no such move");
  return found;
}

export const isPromotion = (move: Move): boolean => move.wasStatus === "scheduled" && !isCharged(move);
