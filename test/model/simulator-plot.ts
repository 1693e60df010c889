/** The course of a schedule: first random faults, then none, and finally probes when everything is at rest. */
import type { CoreQueue } from "../../src/queue/queue.ts";
import type { SimulatedProcess, Simulation } from "./simulator.ts";
import { Crew } from "./simulator-crew.ts";
import { Probes } from "./simulator-probes.ts";

/** Milliseconds that a call takes in one direction, at most, with a margin. */
const longestCall = 1_200;

/** Milliseconds that a worker waits after failures before it tries again, at most, with a margin. */
const longestBackoff = 5_500;

export class Plot {
  readonly crew: Crew;
  readonly #simulation: Simulation;
  #calm = false;
  /** When no call of a killed process is in flight any more, and no worker waits for its next try. */
  #quietAt = 0;
  #steppedMost = 0;
  #probes: Probes | undefined;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.crew = new Crew(simulation);
  }

  /** Schedules random steps and faults for some seconds. */
  write(): void {
    const { clock } = this.#simulation;
    const chaos = clock.between(500, 4_000);
    for (let n = Math.floor(clock.between(1, 4)); n > 0; n -= 1) this.crew.newHome(clock.between(0, 50));
    for (let n = Math.floor(clock.between(2, 20)); n > 0; n -= 1)
      this.crew.at(clock.between(0, chaos), () => this.#act());
    this.crew.at(chaos, () => this.calmDown());
  }

  #act(): void {
    const { crew } = this;
    const home = crew.living();
    const acts: (() => void)[] = [
      () => crew.enqueue(home),
      () => crew.enqueue(home),
      () => crew.enqueue(home),
      () => crew.enqueueMany(home),
      () => this.#operate(home),
      () => crew.kill(home),
      () => crew.hold(home, home.threads, "is stopped"),
      () => crew.hold(home, [home.loop], "blocks its event loop"),
      () => this.#cut(home),
      () => crew.sleep(),
      () => this.#restart(home),
      () => crew.newHome(0),
      () => this.#stepClock(),
    ];
    this.#simulation.clock.oneOf(acts)();
  }

  #cut(home: SimulatedProcess): void {
    const { clock, mayFail } = this.#simulation;
    if (mayFail) this.crew.cut(home, clock.between(100, 6_000));
  }

  #restart(home: SimulatedProcess): void {
    const { clock } = this.#simulation;
    const grace = clock.oneOf([0, 100, 1_500]);
    this.crew.at(0, () => this.crew.stopWorkers(home, grace), home);
    if (clock.chance(0.5)) this.crew.at(clock.between(0, 500), () => this.crew.startWorker(home), home);
  }

  #stepClock(): void {
    const { clock } = this.#simulation;
    const step = clock.oneOf([-3_600_000, 3_600_000, -500, 500]);
    clock.stepped += step;
    this.#steppedMost = Math.max(this.#steppedMost, clock.stepped);
    clock.note(`the clock is stepped by ${step} ms`, "host");
  }

  #operate(home: SimulatedProcess): void {
    const { clock, judge } = this.#simulation;
    const { ids, owed } = this.crew;
    const id = ids.length > 0 ? clock.oneOf(ids) : 12_345;
    const cancel = (queue: CoreQueue) => {
      judge.cancelled.add(id);
      return queue.cancelTask(id);
    };
    const purge = (queue: CoreQueue) => {
      judge.purged = true;
      return queue.purgeTasks({ queueName: "aside", includeRunning: clock.chance(0.5) });
    };
    const act = clock.oneOf([cancel, cancel, (queue: CoreQueue) => queue.retryTask(id), purge]);
    this.crew.at(0, () => owed.add(home, `an operation in ${home.name}`, act(home.queue)), home);
  }

  // ---- the end -------------------------------------------------------------------------------

  /** Ends all faults. */
  calmDown(): void {
    const { clock } = this.#simulation;
    this.#calm = true;
    const { mayFail } = this.#simulation;
    this.#quietAt = Math.max(clock.now, this.crew.troubledUntil) + (mayFail ? longestBackoff : longestCall);
    this.#simulation.calmDown();
    // After a step back, a scheduled task would have to wait for an hour.
    if (clock.stepped !== this.#steppedMost) clock.stepped = this.#steppedMost;
    clock.note("NOTHING FAILS ANY MORE", "world");
    this.#keepServing();
  }

  /** Keeps a worker alive for the remaining tasks; processes that were stopped before may stop their workers now. */
  #keepServing(): void {
    if (this.crew.ended) return;
    if (this.crew.serving().length === 0) this.crew.newHome(0);
    this.crew.at(1_000, () => this.#keepServing());
  }

  /** Called after every event: when everything is at rest, runs the probes and then stops the workers. */
  isOver(): boolean {
    const { crew } = this;
    if (crew.ended) return this.#simulation.judge.registered().length === 0;
    if (!this.#isAtRest()) return false;
    this.#probes ??= new Probes(crew);
    if (this.#probes.areOver()) crew.end();
    return false;
  }

  /** Rows of dead workers must be gone too, since only a live worker removes them. */
  #isAtRest(): boolean {
    const { clock, judge } = this.#simulation;
    if (!this.#calm || clock.now < this.#quietAt) return false;
    if (judge.unfinished > 0 || this.crew.owed.open().length > 0) return false;
    return this.crew.serving().length > 0 && judge.registered().every((id) => this.crew.isAtWork(id));
  }

  /** Why the schedule is not over. */
  unfinished(): string {
    const { judge } = this.#simulation;
    const rows = `${judge.unfinished} tasks are not finished, ${judge.registered().length} workers have a row`;
    return [rows, ...this.crew.owed.open()].join("; ");
  }
}
