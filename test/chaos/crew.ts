/** Worker processes of which a scenario kills one after the other. */
import type { Child } from "../fixtures/harness.ts";
import { stopAll } from "./drain.ts";

export interface CrewOptions {
  workers: number;
  /** Kills wait while fewer workers than this are ready: on a machine that starts them slowly, none would be left. */
  leastReady: number;
}

/** A killed worker is replaced at once, and its successor may be killed when it is ready. */
export class Crew {
  /** When each killed process was sent its signal, by process id. */
  readonly killed = new Map<number, number>();
  readonly #begin: () => Promise<Child>;
  readonly #leastReady: number;
  readonly #ready: Child[] = [];
  readonly #starting = new Set<Promise<void>>();

  private constructor(begin: () => Promise<Child>, leastReady: number) {
    this.#begin = begin;
    this.#leastReady = leastReady;
  }

  /** @param begin starts a worker process, and resolves when it is ready */
  static async start(begin: () => Promise<Child>, { workers, leastReady }: CrewOptions): Promise<Crew> {
    const crew = new Crew(begin, leastReady);
    for (let n = 0; n < workers; n += 1) crew.#startOne();
    await Promise.all(crew.#starting);
    return crew;
  }

  #startOne(): void {
    const started: Promise<void> = this.#begin().then((child) => {
      this.#ready.push(child);
      this.#starting.delete(started);
    });
    this.#starting.add(started);
  }

  async killOne(random: () => number): Promise<void> {
    while (this.#ready.length < this.#leastReady) await Promise.race(this.#starting);
    const [victim] = this.#ready.splice(Math.floor(this.#ready.length * random()), 1) as [Child];
    this.killed.set(victim.pid, Date.now());
    victim.signal("SIGKILL");
    this.#startOne();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#starting);
    await stopAll(this.#ready);
  }
}
