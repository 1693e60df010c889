/** Worker processes that are killed one after the other, each with a clock and a time zone of its own. */
import { join } from "node:path";
import type { Child, Harness } from "../fixtures/harness.ts";
import { noClock, SteppedClock } from "./stepped-clock.ts";

/** The time zones of the processes: they must not matter. */
const zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"];

/** Kills wait while fewer workers than this are ready: on a machine that starts them slowly, none would be left. */
const leastReady = 2;

export class ClockedCrew {
  /** Whether there is a tool to set clocks. */
  readonly hasClocks = noClock() === undefined;
  readonly #harness: Harness;
  readonly #workers: number;
  readonly #apart: number;
  readonly #ready = new Map<number, Child>();
  readonly #starting = new Map<number, Promise<void>>();
  readonly #clocks: SteppedClock[] = [];
  #offset = 0;

  private constructor(harness: Harness, workers: number, apart: number) {
    this.#harness = harness;
    this.#workers = workers;
    this.#apart = apart;
  }

  /**
   * @param apart milliseconds between the clocks that are furthest apart
   * @param offset of all clocks, in milliseconds
   */
  static async start(harness: Harness, workers: number, apart = 0, offset = 0): Promise<ClockedCrew> {
    const crew = new ClockedCrew(harness, workers, apart);
    crew.#offset = offset;
    for (let n = 0; n < workers; n += 1) crew.#start(n);
    await Promise.all(crew.#starting.values());
    return crew;
  }

  #start(n: number): void {
    const how = this.#clockOf(n)?.how;
    const env = { ...how?.env, TZ: zones[n % zones.length] };
    const started = this.#harness.worker({ concurrency: 1, lease: 2_000 }, { ...how, env });
    this.#starting.set(
      n,
      started.then((child) => {
        this.#ready.set(n, child);
        this.#starting.delete(n);
      }),
    );
  }

  #clockOf(n: number): SteppedClock | undefined {
    if (!this.hasClocks) return undefined;
    const clock = this.#clocks[n] ?? new SteppedClock(join(this.#harness.folder, "clocks"), `worker-${n}`);
    this.#clocks[n] = clock;
    clock.step(this.#offsetOf(n));
    return clock;
  }

  #offsetOf(n: number): number {
    return this.#offset + Math.round(this.#apart * (n / Math.max(1, this.#workers - 1) - 0.5));
  }

  /** Sets all clocks to so many milliseconds ahead of the host's, or behind it. */
  step(offset: number): void {
    this.#offset = offset;
    for (const [n, clock] of this.#clocks.entries()) clock.step(this.#offsetOf(n));
  }

  /** Kills one of them, and starts another in its place, which may be killed when it is ready. */
  async replaceOne(random: () => number): Promise<void> {
    while (this.#ready.size < Math.min(leastReady, this.#workers))
      await Promise.race(this.#starting.values());
    const [n, victim] = [...this.#ready][Math.floor(random() * this.#ready.size)] as [number, Child];
    this.#ready.delete(n);
    await victim.kill();
    this.#start(n);
  }

  /** Milliseconds since 1970, by the clock that is most behind. */
  get now(): number {
    return Date.now() + (this.hasClocks ? this.#offsetOf(0) : 0);
  }

  async end(): Promise<void> {
    await Promise.all(this.#starting.values());
    await Promise.all([...this.#ready.values()].map((child) => child.kill()));
  }
}
