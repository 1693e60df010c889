/**
 * The wire between a simulated process and the store. Every call takes time in both directions, in which other calls
 * take effect. A call or its answer may get lost, and a killed process gets no answer.
 */

import { thisProcess } from "../../src/base/runtime/process-identity.ts";
import { DatabaseError } from "../../src/errors.ts";
import type { FullStore, FullTransaction } from "../../src/features/store.ts";
import type { Outcome, SettleAndClaimResult, WorkerRecord } from "../../src/store.ts";
import { type Clock, newThread, type Thread } from "./simulator-clock.ts";

/** The conditions for calls in a simulation. */
export interface Conditions {
  /** The part of calls that fail before they take effect, from 0 to 1. */
  refused: number;
  /** The part of calls that fail after they took effect. */
  lost: number;
  /** Milliseconds that a call takes in one direction, at most. */
  latency: number;
  /** The part of calls that take up to a second longer. */
  slow: number;
  /** The part of changes that other processes are notified of. */
  notified: number;
  /** Whether other processes can observe the death of a process. */
  deathsAreVisible: boolean;
}

export const calm = { refused: 0, lost: 0, slow: 0 } as const;

/** A simulated process: its threads end with it. */
export interface Process {
  readonly name: string;
  readonly loop: Thread;
  /** The heartbeat's thread, which does not depend on the event loop. */
  readonly heart: Thread;
  /** Until then it cannot reach the store. */
  cutUntil: number;
}

/** Sees each call as it takes effect. */
export interface Witness {
  tookEffect(process: Process, method: string, args: readonly unknown[], answer: unknown): void;
}

interface Shared {
  clock: Clock;
  beneath: FullStore;
  conditions: Conditions;
  witness: Witness;
  /** The listeners for changes of other processes. */
  listeners: Map<(mayStart: boolean) => void, Process>;
  /** The process that registered each worker. */
  homes: Map<string, Process>;
}

const database = newThread("database");

/** Whether a call has changed something that another process may be waiting for. */
function isWorthNotifying(method: string, answer: unknown): boolean {
  switch (method) {
    case "settleAndClaim":
      return (answer as SettleAndClaimResult).settled.includes(true);
    case "promote":
      return (answer as { promoted: number }).promoted > 0;
    case "rescue":
    case "rescueOrphans":
    case "unregister":
      return Number(answer) > 0;
    default:
      return ["insert", "transaction", "cancel", "retry", "purge", "register"].includes(method);
  }
}

/** What an app's transaction settled. */
export interface Settled {
  outcome: Outcome;
  accepted: boolean;
}

/** Which calls may get lost, when not all may. */
export type MayLose = (method: string, args: readonly unknown[]) => boolean;

export class Wire {
  readonly #shared: Shared;
  readonly #process: Process;
  readonly #mayLose: MayLose;
  /** Settled in the open transaction. */
  #settled: Settled[] = [];

  constructor(shared: Shared, process: Process, mayLose: MayLose) {
    this.#shared = shared;
    this.#process = process;
    this.#mayLose = mayLose;
  }

  /** The store as its process sees it. */
  store(): FullStore {
    const { beneath, homes, listeners } = this.#shared;
    const far = new Proxy(beneath, {
      get: (store, method: keyof FullStore & string) => {
        const value = store[method];
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => this.#call(this.#process.loop, method, args);
      },
    });
    return Object.assign(Object.create(far) as FullStore, {
      register: (worker: Parameters<FullStore["register"]>[0]) => {
        homes.set(worker.id, this.#process);
        const elsewhere = {
          ...worker,
          host: "elsewhere",
          bootId: null,
          pidNamespace: null,
          processStart: null,
        };
        return far.register({ ...elsewhere, pid: 1 });
      },
      within: (tx: unknown) => this.#within(tx),
      isInTransaction: () => false,
      workers: async () => (await far.workers()).map((worker) => this.#seen(worker)),
      transaction: (fn: Parameters<FullStore["transaction"]>[0]) => this.#transaction(fn),
      keepAlive: async (workerId: string, every: number, onLost: () => void) =>
        this.#keepAlive(workerId, every, onLost),
      watch: (listener: (mayStart: boolean) => void) => {
        listeners.set(listener, this.#process);
        return () => listeners.delete(listener);
      },
      close: async () => undefined,
    });
  }

  /** How a worker of a killed process appears on the same host: no process has its pid. */
  #seen(worker: WorkerRecord): WorkerRecord {
    const { conditions, homes } = this.#shared;
    const died = homes.get(worker.id)?.loop.alive === false;
    return died && conditions.deathsAreVisible ? { ...worker, ...thisProcess(), pid: 4_194_305 } : worker;
  }

  // ---- calls ---------------------------------------------------------------------------------

  #call(thread: Thread, method: string, args: unknown[]): Promise<unknown> {
    const { beneath } = this.#shared;
    const act = beneath[method as keyof FullStore] as (...given: unknown[]) => Promise<unknown>;
    return this.#carry(thread, database, method, args, () => act(...args));
  }

  /** The callback is the app's code and runs in its process. Its settles count at the commit. */
  #transaction(fn: Parameters<FullStore["transaction"]>[0]): Promise<unknown> {
    const { loop } = this.#process;
    const settled: Settled[] = [];
    return this.#carry(loop, loop, "transaction", settled, () => {
      this.#settled = settled;
      return this.#shared.beneath.transaction(fn);
    });
  }

  #within(tx: unknown): FullTransaction {
    const inside = this.#shared.beneath.within(tx);
    const settle = (outcome: Outcome) => {
      const accepted = inside.settle(outcome);
      this.#settled.push({ outcome, accepted: accepted === true });
      return accepted;
    };
    return {
      insert: inside.insert.bind(inside),
      settle,
      schedules: inside.schedules,
      workflows: inside.workflows,
    };
  }

  /** `on`: the thread on which the call takes effect. */
  #carry(
    thread: Thread,
    on: Thread,
    method: string,
    args: unknown[],
    act: () => Promise<unknown>,
  ): Promise<unknown> {
    const { clock, conditions } = this.#shared;
    const answer = (run: () => void) => void clock.after(this.#delay(), thread, run);
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        clock.note(`${method}: ${why}`, thread.name);
        answer(() => reject(new DatabaseError(`${method}: ${why}`)));
      };
      if (clock.now < this.#process.cutUntil) return this.#outOfReach(thread, () => fail("out of reach"));
      if (clock.chance(conditions.refused)) return fail("refused");
      const lost = clock.chance(conditions.lost) && this.#mayLose(method, args);
      clock.after(this.#delay(), on, () => {
        // A call sent right before a kill may not have left its host.
        if (!thread.alive && clock.chance(0.5)) return;
        const succeed = (value: unknown) => {
          this.#tookEffect(method, args, value);
          if (lost) fail("done, and its answer lost");
          else answer(() => resolve(value));
        };
        act().then(succeed, (error: unknown) => answer(() => reject(error)));
      });
    });
  }

  /** Some calls fail at once, others when the store can be reached again. */
  #outOfReach(thread: Thread, fail: () => void): void {
    const { clock } = this.#shared;
    clock.after(clock.chance(0.5) ? 10 : this.#process.cutUntil - clock.now, thread, fail);
  }

  #delay(): number {
    const { clock, conditions } = this.#shared;
    const slow = clock.chance(conditions.slow) ? clock.between(0, 1_000) : 0;
    return clock.random() * conditions.latency + slow;
  }

  #tookEffect(method: string, args: unknown[], answer: unknown): void {
    const { witness } = this.#shared;
    witness.tookEffect(this.#process, method, args, answer);
    if (isWorthNotifying(method, answer)) this.#tell();
  }

  #tell(): void {
    const { clock, conditions, listeners } = this.#shared;
    for (const [listener, process] of listeners) {
      if (process === this.#process || !clock.chance(conditions.notified)) continue;
      clock.after(this.#delay(), process.loop, () => listeners.has(listener) && listener(true));
    }
  }

  // ---- heartbeats ----------------------------------------------------------------------------

  #keepAlive(workerId: string, every: number, onLost: () => void): () => Promise<void> {
    const { clock } = this.#shared;
    const { heart, loop } = this.#process;
    let stopped = false;
    const beat = () => {
      if (stopped) return;
      clock.after(every, heart, beat);
      this.#call(heart, "heartbeat", [workerId]).then(
        (alive) => {
          if (alive === false && !stopped) clock.after(0, loop, () => stopped || onLost());
        },
        () => undefined,
      );
    };
    clock.after(0, heart, beat);
    return async () => {
      stopped = true;
    };
  }
}
