/** Builds a fabricated history for the checker's tests: small, with every event that a task can have. */
import type { Entry } from "../fixtures/ledger.ts";
import type { Move } from "./audit.ts";
import type { History, TaskRow } from "./history.ts";
import { isCharged } from "./promises/finder.ts";

type Writable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer E)[] ? E[] : T[K] };

/** A history that a test may change. */
export type Fabrication = Writable<History>;

/** `stopping` gets SIGTERM; `dying` is killed while it runs a task. */
export const names = { steady: "host:11:a", stopping: "host:12:b", dying: "host:13:c" } as const;

const pidOf = (worker: string) => Number(worker.split(":")[1]);

/** How an attempt ends, and what its worker reports. */
interface End {
  status: string;
  told?: string;
  charged?: boolean;
  /** The outcome in the recorded attempt. */
  outcome?: string;
  result?: string;
}

const ends = {
  returned: { status: "completed", told: "completed", result: '"returned"' },
  within: { status: "completed", told: "completed", result: '"within"' },
  failed: { status: "failed", told: "failed", outcome: "failed" },
  cancelled: { status: "cancelled", told: "cancelled", outcome: "cancelled" },
  retrying: { status: "scheduled", told: "retrying", charged: true, outcome: "failed" },
  snoozed: { status: "scheduled", told: "snoozed" },
  interrupted: { status: "pending", told: "interrupted" },
  crashed: { status: "pending", charged: true, outcome: "crashed" },
} as const satisfies Record<string, End>;

class Tale {
  #now = 1_000;
  readonly history: Fabrication = {
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

  tell(what: string, pid: number, more: Partial<Entry> = {}): void {
    this.#now += 10;
    this.history.entries.push({ what, at: this.#now, pid, ...more });
  }

  worker(worker: string): void {
    this.tell("begun", pidOf(worker));
    this.#workerMove(worker, { came: 1, holds: 0, silent: 0 });
    this.tell("ready", pidOf(worker), { note: worker });
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
    this.tell("acknowledged", 9, { task: id, note: name });
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
    const { status, told, charged, outcome, result }: End = ends[how];
    task.worker = worker;
    this.#move(task, "running");
    const held = { task: task.id, generation: task.generation };
    this.tell("start", pidOf(worker), held);
    this.#move(task, status, charged ? 1 : 0);
    if (outcome) {
      task.error = "as planned";
      this.history.attempts.push({ ...held, outcome, error: "as planned" });
    }
    if (result) Object.assign(task, { result, error: null });
    if (told) this.tell(told, pidOf(worker), { task: task.id, generation: task.generation });
  }

  promote(task: TaskRow): void {
    this.#move(task, "pending");
  }
}

/** A correct history. */
export function healthy(): Fabrication {
  const tale = new Tale();
  const { steady, stopping, dying } = names;
  for (const worker of Object.values(names)) tale.worker(worker);
  tale.attempt(tale.task("single:9:0:1"), steady, "returned");
  for (const _ of [1, 2]) tale.attempt(tale.task("batch:9:0", "batch:9:0:2"), steady, "returned");
  tale.history.orders.push("order:9:0");
  const order = tale.task("order:9:0", "order:9:0");
  tale.history.effects.push(order.id);
  tale.attempt(order, steady, "within");
  tale.tell("rolledBack", 9, { note: "rolled:9:0" });
  fail(tale);
  tale.attempt(tale.task("single:9:0:2"), steady, "cancelled");
  const put = tale.task("unique:9:0");
  tale.tell("acknowledged", 9, { task: put.id, note: "unique:9:8" });
  tale.tell("stopping", pidOf(stopping));
  tale.attempt(put, stopping, "interrupted");
  tale.gone(stopping, 0);
  tale.attempt(put, steady, "snoozed");
  tale.promote(put);
  tale.attempt(put, steady, "returned");
  tale.gone(steady, 0);
  return tale.history;

  function fail(told: Tale): void {
    const task = told.task("single:9:0:3");
    told.attempt(task, steady, "retrying");
    told.promote(task);
    told.attempt(task, dying, "crashed");
    told.gone(dying, 1);
    told.attempt(task, steady, "failed");
  }
}

/** The first move that matches. */
export function moveOf({ moves }: Fabrication, matches: (move: Move) => boolean): Move {
  const found = moves.find(matches);
  if (!found) throw new Error("the correct history has no such move");
  return found;
}

export const isPromotion = (move: Move): boolean => move.wasStatus === "scheduled" && !isCharged(move);
