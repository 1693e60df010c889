/** Frees the tasks of agents whose connections to this Manager have all closed, or whose token it has refused. */

import type { Crash, WorkerRecord } from "../../store.ts";
import { type Job, longestSleep, PeriodicJob } from "../../worker/periodic-job.ts";
import type { FullInternals } from "../queue.ts";
import type { Session } from "./session.ts";

export interface GoneSessionsHost {
  report(error: unknown, where: string): void;
  onRescued(workerId: string, tasks: number): void;
  onCrashes(crashes: readonly Crash[]): void;
}

/** Milliseconds until the next try, doubled after each one. */
const retryMs = { first: 20, most: 500 };

/**
 * Tries until the rows of these sessions are gone. One try is not enough: a request that an agent had sent before it died may
 * still hold the lock of the row, or write a heartbeat after the row was read.
 */
export class GoneSessions implements Job {
  readonly name = "freeing the tasks of agents that have gone";
  readonly #internals: FullInternals;
  readonly #host: GoneSessionsHost;
  /** Each with what happened to its agent, where that is known. */
  readonly #sessions = new Map<Session, string | undefined>();
  readonly #job: PeriodicJob;
  #pause = retryMs.first;

  constructor(internals: FullInternals, host: GoneSessionsHost) {
    this.#internals = internals;
    this.#host = host;
    this.#job = new PeriodicJob(this, (error, where) => host.report(error, where));
    this.#job.start();
  }

  /** `how`: what happened to its agent, for the error of its tasks. */
  add(session: Session, how: string | undefined): void {
    this.#sessions.set(session, how);
    this.#pause = retryMs.first;
    this.#job.now();
  }

  /** The agent has come back: its tasks stay with it. */
  remove(agent: string, id: string): void {
    for (const session of this.#sessions.keys())
      if (session.agent.name === agent && session.id === id) this.#sessions.delete(session);
  }

  async stop(): Promise<void> {
    this.#sessions.clear();
    await this.#job.stop();
  }

  async run(): Promise<number> {
    if (this.#sessions.size === 0) return longestSleep;
    const workers = await this.#internals.store.workers();
    for (const session of [...this.#sessions.keys()]) {
      // Its row names another Manager once the agent has reached that one.
      const own = workers.filter(({ id, host }) => session.owns(id) && host === session.place);
      if (own.length === 0) this.#sessions.delete(session);
      else for (const worker of own) await this.#free(session, worker);
    }
    if (this.#sessions.size === 0) return longestSleep;
    this.#pause = Math.min(2 * this.#pause, retryMs.most);
    return this.#pause;
  }

  async #free(session: Session, { id, beat }: WorkerRecord): Promise<void> {
    if (!this.#sessions.has(session)) return;
    const { store, wakeups } = this.#internals;
    const { onCrashes } = this.#host;
    const freed = await store.rescue(id, beat, this.#sessions.get(session), onCrashes);
    if (freed === "busy" || freed === 0) return;
    wakeups.taskEnded();
    wakeups.workAdded();
    this.#host.onRescued(id, freed);
  }
}
