/**
 * One schedule: several processes with workers on one store, faults, and a judge. Everything follows from a seed, so
 * that a failure can be repeated.
 */
import { promisify } from "node:util";
import { readQueueOptions } from "../../src/base/options/options.ts";
import { processGlobal } from "../../src/base/runtime/process-globals.ts";
import type { FullStore } from "../../src/features/store.ts";
import { CoreQueue } from "../../src/queue/queue.ts";
import { randomFrom } from "../support/random.ts";
import { Clock, newThread, type Thread } from "./simulator-clock.ts";
import { Judge, type Tables } from "./simulator-judge.ts";
import { Plot } from "./simulator-plot.ts";
import type { Plan } from "./simulator-tasks.ts";
import { type Conditions, calm, type MayLose, type Process, Wire } from "./simulator-wire.ts";

/** A store for one schedule, with direct access to its rows. */
export interface StoreUnderTest {
  store: FullStore;
  rows(): Tables;
}

export interface ScheduleOptions {
  /** Called when the schedule's clock and random numbers are in place. */
  open(): StoreUnderTest;
  /** Which answers may get lost. @default all */
  mayLose?: MayLose;
  /** The steps of the schedule. @default random ones */
  write?: (plot: Plot, simulation: Simulation) => void;
}

export interface Outcome {
  seed: number;
  verdicts: string[];
  trace: string[];
  /** Milliseconds of simulated time. */
  took: number;
}

/** A process of the schedule with its own queue. */
export interface SimulatedProcess extends Process {
  queue: CoreQueue;
  /** Its threads, which stop and block together. */
  readonly threads: readonly Thread[];
}

const turnOfTheEventLoop = promisify(setImmediate);

/** Milliseconds of simulated time in which every schedule ends after its faults. */
const longest = 120_000;

export class Simulation {
  readonly clock: Clock;
  readonly judge: Judge;
  readonly plans: Plan[] = [];
  readonly starts = new Map<number, number>();
  readonly conditions: Conditions;
  /** Whether calls ever fail or are slow. */
  mayFail: boolean;
  readonly #wires: ConstructorParameters<typeof Wire>[0];
  readonly #mayLose: MayLose;

  constructor(clock: Clock, { store, rows }: StoreUnderTest, mayLose: MayLose) {
    this.clock = clock;
    this.judge = new Judge(clock, rows);
    this.conditions = drawnWeather(clock);
    this.mayFail = isRough(this.conditions);
    this.#mayLose = mayLose;
    const { judge: witness, conditions } = this;
    this.#wires = { clock, beneath: store, conditions, witness, listeners: new Map(), homes: new Map() };
  }

  newProcess(name: string): SimulatedProcess {
    const process = { name, loop: newThread(name), heart: newThread(`${name} heart`), cutUntil: 0 };
    const store = new Wire(this.#wires, process, this.#mayLose).store();
    const queue = new CoreQueue(store, readQueueOptions(undefined));
    return Object.assign(process, { queue, threads: [process.loop, process.heart] });
  }

  /** Called before the first event. */
  setConditions(conditions: Partial<Conditions>): void {
    Object.assign(this.conditions, conditions);
    this.mayFail = isRough(this.conditions);
  }

  /** Ends all faults. */
  calmDown(): void {
    Object.assign(this.conditions, calm, { latency: 5 });
  }
}

const isRough = ({ refused, lost, slow }: Conditions) => refused + lost + slow > 0;

function drawnWeather(clock: Clock): Conditions {
  // Without faults, more can be required: no worker that sends heartbeats is rescued.
  const fair = clock.chance(0.4);
  const rate = () => (fair ? 0 : clock.oneOf([0, 0, 0.02, 0.1, 0.3]));
  return {
    refused: rate(),
    lost: rate(),
    latency: clock.oneOf([0, 2, 20, 100]),
    slow: fair ? 0 : clock.oneOf([0, 0, 0.05]),
    notified: clock.oneOf([0, 0.5, 1, 1]),
    deathsAreVisible: clock.chance(0.5),
  };
}

/** Runs the schedule of `seed`. */
export async function runSchedule(
  seed: number,
  { open, mayLose = () => true, write = (plot) => plot.write() }: ScheduleOptions,
): Promise<Outcome> {
  const clock = new Clock(randomFrom(seed));
  const restore = [clock.install(), separateLives(clock)];
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown) => void rejections.push(reason);
  process.on("unhandledRejection", onRejection);
  try {
    const simulation = new Simulation(clock, open(), mayLose);
    const { judge } = simulation;
    const plot = new Plot(simulation);
    write(plot, simulation);
    const over = await clock.runUntil(() => plot.isOver(), longest);
    judge.must(over, () => `it does not come to an end: ${plot.unfinished()}`);
    judge.conclude();
    await turnOfTheEventLoop();
    judge.must(rejections.length === 0, () => `unhandled rejections: ${rejections.map(String).join(", ")}`);
    return { seed, verdicts: judge.verdicts, trace: clock.trace(), took: clock.now };
  } finally {
    process.off("unhandledRejection", onRejection);
    for (const undo of restore) undo();
  }
}

/**
 * Workers of one thread know each other to be alive (`src/worker/maintenance.ts`). Here one thread simulates several
 * processes, each of which must know only its own workers.
 */
function separateLives(clock: Clock): () => void {
  const living = processGlobal("living", () => new Set<string>());
  const homes = new Map<string, string>();
  const home = () => clock.current.name;
  Object.assign(living, {
    add: (id: string) => homes.set(id, home()) && living,
    has: (id: string) => homes.get(id) === home(),
    delete: (id: string) => homes.delete(id),
  });
  return () => {
    for (const name of ["add", "has", "delete"]) Reflect.deleteProperty(living, name);
  };
}
