/** Measures what must be quick without faults: a start after an enqueue, a stop, a cancel, and a rescue. */
import type { SimulatedProcess } from "./simulator.ts";
import { type Crew, lease } from "./simulator-crew.ts";
import { type Act, backoff, type DrawnPlan, planned } from "./simulator-tasks.ts";

/** Milliseconds from the acknowledgement of some short tasks to the start of the last; a poll comes later. */
const startsWithin = 400;

/** Milliseconds from a cancel to the handler's signal. */
const hearsWithin = 1_100;

/** Milliseconds, longer than any stop may take. */
const outage = 60_000;

/** A dead worker's tasks are freed within its lease plus this. */
const rescueMargin = 1_000;

export class Probes {
  readonly #crew: Crew;
  /** The number of running probes. */
  #open = 0;
  readonly #left: ((home: SimulatedProcess) => void)[];

  constructor(crew: Crew) {
    this.#crew = crew;
    const { clock } = crew.simulation;
    const cancels = clock.chance(0.3) ? [(home: SimulatedProcess) => this.#cancel(home)] : [];
    const kills = clock.chance(0.4) ? [(home: SimulatedProcess) => this.#kill(home)] : [];
    const stops = clock.chance(0.3) ? [clock.oneOf([1_500, 100, 0])] : [];
    const outages = clock.chance(0.06) ? [(home: SimulatedProcess) => this.#stopInOutage(home)] : [];
    const later = clock.chance(0.3) ? [(home: SimulatedProcess) => this.#startsLater(home)] : [];
    const again = clock.chance(0.3) ? [(home: SimulatedProcess) => this.#startsAgain(home)] : [];
    this.#left = [
      (home) => this.#starts(home),
      ...later,
      ...again,
      ...stops.map((grace) => (home: SimulatedProcess) => this.#stop(home, grace)),
      ...cancels,
      ...kills,
      ...outages,
    ];
  }

  /** Starts the next probe, if there is one, when everything is at rest. @returns whether all are over */
  areOver(): boolean {
    if (this.#open > 0) return false;
    const [home] = this.#crew.serving();
    const next = this.#left.shift();
    if (!next) return true;
    if (home) next(home);
    return false;
  }

  /** Calls `run` after `delay`; the probe is running until then. */
  #after(delay: number, run: () => void): void {
    this.#open += 1;
    this.#crew.at(delay, () => {
      this.#open -= 1;
      run();
    });
  }

  #enqueue(home: SimulatedProcess, drawn: DrawnPlan, onId: (id: number) => void = () => undefined): void {
    this.#open += 1;
    this.#crew.enqueue(home, drawn, (id) => {
      this.#open -= 1;
      onId(id);
    });
  }

  #plan(act: Act, takes = 0): DrawnPlan {
    return planned(this.#crew.simulation.plans, { acts: [act], takes });
  }

  // ---- a start after an enqueue --------------------------------------------------------------

  #starts(home: SimulatedProcess): void {
    const { clock, conditions } = this.#crew.simulation;
    for (let n = 0; n < 4; n += 1) {
      // Also from another process, where change notifications arrive.
      const by = conditions.notified === 1 ? this.#crew.living() : home;
      this.#after(clock.between(0, 40), () =>
        this.#enqueue(by, this.#plan("return"), (id) => this.#demandStarts(id, 1, startsWithin)),
      );
    }
  }

  #startsLater(home: SimulatedProcess): void {
    const { call, ...plan } = this.#plan("return");
    const demand = (id: number) => this.#demandStarts(id, 1, 100 + startsWithin);
    this.#enqueue(home, { ...plan, call: call.with({ delay: 100 }) }, demand);
  }

  #startsAgain(home: SimulatedProcess): void {
    const { plans } = this.#crew.simulation;
    const plan = planned(plans, { acts: ["throw", "return"], takes: 0 });
    this.#enqueue(home, plan, (id) => this.#demandStarts(id, 2, backoff + startsWithin));
  }

  #demandStarts(id: number, count: number, limit: number): void {
    const { judge, starts } = this.#crew.simulation;
    this.#after(limit, () =>
      judge.must(
        starts.get(id) === count,
        () => `task ${id} was started ${starts.get(id) ?? 0} times, not ${count}, in ${limit} ms`,
      ),
    );
  }

  // ---- a stop --------------------------------------------------------------------------------

  /** A stopping worker lets its tasks finish within its grace, and then hands them back uncharged. */
  #stop(home: SimulatedProcess, grace: number): void {
    const { simulation } = this.#crew;
    const lasts = grace > startsWithin;
    const plan = lasts ? this.#plan("return", 2 * startsWithin) : this.#plan("take longer than the lease");
    this.#enqueue(home, plan, (id) =>
      this.#after(startsWithin, () => {
        const ids = this.#crew.workersOf(home);
        const held = simulation.judge.heldBy(ids).some((task) => task.id === id);
        this.#crew.at(0, () => this.#crew.stopWorkers(home, grace), home);
        this.#crew.at(0, () => this.#crew.startWorker(home), home);
        if (held) this.#after(grace + startsWithin, () => this.#demandLeft(id, ids, lasts));
      }),
    );
  }

  #demandLeft(id: number, ids: readonly string[], finished: boolean): void {
    const { judge, starts } = this.#crew.simulation;
    const runs = judge.heldBy(ids).some((task) => task.id === id);
    judge.must(!runs, () => `task ${id} is still held by a worker that has stopped`);
    const begun = starts.get(id);
    if (finished)
      judge.must(begun === 1, () => `task ${id} should have finished, and was started ${begun} times`);
  }

  /** A store that is out of reach must not delay a stop for long; the crew checks the time. */
  #stopInOutage(home: SimulatedProcess): void {
    if (this.#crew.serving().length < 2) return;
    this.#enqueue(home, this.#plan("take longer than the lease"), () =>
      this.#after(startsWithin, () => {
        this.#crew.cut(home, outage);
        this.#crew.at(0, () => this.#crew.stopWorkers(home, 100), home);
      }),
    );
  }

  // ---- a cancel ------------------------------------------------------------------------------

  #cancel(home: SimulatedProcess): void {
    const { judge, starts } = this.#crew.simulation;
    this.#enqueue(home, this.#plan("hang until the signal"), (id) => {
      this.#after(startsWithin, () => {
        judge.must(starts.has(id), () => `task ${id} has not started ${startsWithin} ms after its enqueue`);
        this.#cancelNow(id);
      });
    });
  }

  #cancelNow(id: number): void {
    const { judge } = this.#crew.simulation;
    const by = this.#crew.living();
    judge.cancelled.add(id);
    this.#crew.at(0, () => this.#crew.owed.add(by, `a cancel in ${by.name}`, by.queue.cancelTask(id)), by);
    this.#after(hearsWithin, () =>
      judge.must(
        judge.aborted.has(id),
        () => `task ${id} has not got its abort signal ${hearsWithin} ms after its cancel`,
      ),
    );
  }

  // ---- a death -------------------------------------------------------------------------------

  #kill(home: SimulatedProcess): void {
    if (this.#crew.serving().length < 2) return;
    for (let n = 0; n < 3; n += 1) this.#enqueue(home, this.#plan("take longer than the lease"));
    this.#after(startsWithin, () => this.#killNow(home));
  }

  /** Its tasks are freed in time, and run again where there is a free slot. */
  #killNow(home: SimulatedProcess): void {
    const crew = this.#crew;
    const { judge, starts } = crew.simulation;
    const ids = crew.workersOf(home);
    const held = judge.heldBy(ids);
    const before = new Map(starts);
    crew.kill(home);
    const heirs = crew.serving();
    const hasSlots = heirs.length === 1 && crew.slotsOf(heirs) >= judge.unfinished;
    this.#after(lease + rescueMargin, () => {
      const left = judge.heldBy(ids);
      judge.must(left.length === 0, () => `a dead worker still holds ${left.map(({ id }) => id).join(", ")}`);
      const rows = judge.registered().filter((id) => ids.includes(id));
      judge.must(rows.length === 0, () => `a dead worker still has its row: ${rows.join(", ")}`);
      if (!hasSlots) return;
      for (const { id } of held)
        judge.must(
          starts.get(id) !== before.get(id),
          () => `task ${id} was run by a dead worker, and has not started again`,
        );
    });
  }
}
