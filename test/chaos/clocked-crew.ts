/** Worker processes that are killed one after the other, each with a clock and a time zone of its own. */
import { join } from "node:path";
import type { Child, Harness } from "../fixtures/harness.ts";
import { noClock, SteppedClock } from "./stepped-clock.ts";

/** The time zones of the processes: they must not matter. */
const zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"];

export class ClockedCrew {
  /** Whether there is a tool to set clocks. */
  readonly hasClocks = noClock() === undefined;
  readonly #harness: Harness;
  readonly #workers: number;
  readonly #apart: number;
  readonly #members: Child[] = [];
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
    for (let n = 0; n < workers; n += 1) await crew.#start(n);
    return crew;
  }

  async #start(n: number): Promise<void> {
    const how = this.#clockOf(n)?.how;
    const env = { ...how?.env, TZ: zones[n % zones.length] };
    this.#members[n] = await this.#harness.worker({ concurrency: 1, lease: 2_000 }, { ...how, env });
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

  /** Kills one of them, and starts another in its place. */
  async replaceOne(random: () => number): Promise<void> {
    const n = Math.floor(random() * this.#workers);
    await this.#members[n]?.kill();
    await this.#start(n);
  }

  /** Milliseconds since 1970, by the clock that is most behind. */
  get now(): number {
    return Date.now() + (this.hasClocks ? this.#offsetOf(0) : 0);
  }

  async end(): Promise<void> {
    await Promise.all(this.#members.map((child) => child.kill()));
  }
}
