/**
 * The wire between a simulated process and the store: every call takes its time there and back, in which others come
 * between. It may get lost before it takes effect, or its answer may; a process that is killed hears nothing more.
 */

import { thisProcess } from "../../src/base/runtime/process-identity.ts";
import { DatabaseError } from "../../src/errors.ts";
import type {
  Outcome,
  SettleAndClaimResult,
  Store,
  StoreTransaction,
  WorkerRecord,
} from "../../src/store.ts";
import { type Clock, newThread, type Thread } from "./simulator-clock.ts";

/** How the calls of a simulation fare. */
export interface Weather {
  /** How many of the calls fail before they take effect, from 0 to 1. */
  refused: number;
  /** How many fail after they took effect. */
  lost: number;
  /** Milliseconds that a call takes one way, at most. */
  latency: number;
  /** How many of the calls take up to a second more. */
  slow: number;
  /** How many of the changes others are told of. */
  told: number;
  /** Whether the death of a process can be seen by others. */
  deathsAreSeen: boolean;
}

export const calm = { refused: 0, lost: 0, slow: 0 } as const;

/** A process of the simulation: what it runs stops with it. */
export interface Process {
  readonly name: string;
  readonly loop: Thread;
  /** Beats, whatever the event loop does. */
  readonly heart: Thread;
  /** Until then the store is out of its reach. */
  cutUntil: number;
}

/** What sees each call as it takes effect. */
export interface Witness {
  tookEffect(process: Process, method: string, args: readonly unknown[], answer: unknown): void;
}

interface Shared {
  clock: Clock;
  beneath: Store;
  weather: Weather;
  witness: Witness;
  /** Those who listen for what others write. */
  listeners: Map<() => void, Process>;
  /** Which process registered a worker. */
  homes: Map<string, Process>;
}

const database = newThread("database");

/** Whether a call has changed something that somebody else may be waiting for. */
function isWorthTelling(method: string, answer: unknown): boolean {
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

/** What was settled in a transaction of the app's. */
export interface Settled {
  outcome: Outcome;
  accepted: boolean;
}

/** Which calls may get lost, when not all of them may. */
export type MayLose = (method: string, args: readonly unknown[]) => boolean;

export class Wire {
  readonly #shared: Shared;
  readonly #process: Process;
  readonly #mayLose: MayLose;
  /** By the transaction that is open. */
  #settled: Settled[] = [];

  constructor(shared: Shared, process: Process, mayLose: MayLose) {
    this.#shared = shared;
    this.#process = process;
    this.#mayLose = mayLose;
  }

  /** The store as its process sees it. */
  store(): Store {
    const { beneath, homes, listeners } = this.#shared;
    const far = new Proxy(beneath, {
      get: (store, method: keyof Store & string) => {
        const value = store[method];
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => this.#call(this.#process.loop, method, args);
      },
    });
    return Object.assign(Object.create(far) as Store, {
      register: (worker: Parameters<Store["register"]>[0]) => {
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
      workers: async () => (await far.workers()).map((worker) => this.#seen(worker)),
      transaction: (fn: Parameters<Store["transaction"]>[0]) => this.#transaction(fn),
      keepAlive: async (workerId: string, every: number, onLost: () => void) =>
        this.#keepAlive(workerId, every, onLost),
      watch: (listener: () => void) => {
        listeners.set(listener, this.#process);
        return () => listeners.delete(listener);
      },
      close: async () => undefined,
    });
  }

  /** As a worker of a process that has died looks on the same host: no process has this id. */
  #seen(worker: WorkerRecord): WorkerRecord {
    const { weather, homes } = this.#shared;
    const died = homes.get(worker.id)?.loop.alive === false;
    return died && weather.deathsAreSeen ? { ...worker, ...thisProcess(), pid: 4_194_305 } : worker;
  }

  // ---- calls ---------------------------------------------------------------------------------

  #call(thread: Thread, method: string, args: unknown[]): Promise<unknown> {
    const { beneath } = this.#shared;
    const act = beneath[method as keyof Store] as (...given: unknown[]) => Promise<unknown>;
    return this.#carry(thread, database, method, args, () => act(...args));
  }

  /** The callback is the app's own: it runs in its process. What it settles counts when it is committed. */
  #transaction(fn: Parameters<Store["transaction"]>[0]): Promise<unknown> {
    const { loop } = this.#process;
    const settled: Settled[] = [];
    return this.#carry(loop, loop, "transaction", settled, () => {
      this.#settled = settled;
      return this.#shared.beneath.transaction(fn);
    });
  }

  #within(tx: unknown): StoreTransaction {
    const inside = this.#shared.beneath.within(tx);
    const settle = (outcome: Outcome) => {
      const accepted = inside.settle(outcome);
      this.#settled.push({ outcome, accepted: accepted === true });
      return accepted;
    };
    return { insert: inside.insert.bind(inside), settle };
  }

  /** `on`: the thread that the call takes effect on. */
  #carry(
    thread: Thread,
    on: Thread,
    method: string,
    args: unknown[],
    act: () => Promise<unknown>,
  ): Promise<unknown> {
    const { clock, weather } = this.#shared;
    const answer = (run: () => void) => void clock.after(this.#delay(), thread, run);
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        clock.note(`${method}: ${why}`, thread.name);
        answer(() => reject(new DatabaseError(`${method}: ${why}`)));
      };
      if (clock.now < this.#process.cutUntil) return this.#outOfReach(thread, () => fail("out of reach"));
      if (clock.chance(weather.refused)) return fail("refused");
      const lost = clock.chance(weather.lost) && this.#mayLose(method, args);
      clock.after(this.#delay(), on, () => {
        // What a process had sent when it was killed may not have left its host.
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

  /** Some calls fail at once, others when the store is back. */
  #outOfReach(thread: Thread, fail: () => void): void {
    const { clock } = this.#shared;
    clock.after(clock.chance(0.5) ? 10 : this.#process.cutUntil - clock.now, thread, fail);
  }

  #delay(): number {
    const { clock, weather } = this.#shared;
    const slow = clock.chance(weather.slow) ? clock.between(0, 1_000) : 0;
    return clock.random() * weather.latency + slow;
  }

  #tookEffect(method: string, args: unknown[], answer: unknown): void {
    const { witness } = this.#shared;
    witness.tookEffect(this.#process, method, args, answer);
    if (isWorthTelling(method, answer)) this.#tell();
  }

  #tell(): void {
    const { clock, weather, listeners } = this.#shared;
    for (const [listener, process] of listeners) {
      if (process === this.#process || !clock.chance(weather.told)) continue;
      clock.after(this.#delay(), process.loop, () => listeners.has(listener) && listener());
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
