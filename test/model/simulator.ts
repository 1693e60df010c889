/**
 * One schedule: several processes with workers over one store, the faults that befall them, and a judge. All of it
 * follows from a seed, so that what went wrong once goes wrong again.
 */
import { promisify } from "node:util";
import { readQueueOptions } from "../../src/base/options/options.ts";
import { processGlobal } from "../../src/base/runtime/process-globals.ts";
import { Queue } from "../../src/index.ts";
import type { Store } from "../../src/store.ts";
import { randomFrom } from "../support/random.ts";
import { Clock, newThread, type Thread } from "./simulator-clock.ts";
import { Judge, type Tables } from "./simulator-judge.ts";
import { Plot } from "./simulator-plot.ts";
import type { Plan } from "./simulator-tasks.ts";
import { calm, type MayLose, type Process, type Weather, Wire } from "./simulator-wire.ts";

/** A store for one schedule, and a way to its rows past it. */
export interface Beneath {
  store: Store;
  rows(): Tables;
}

export interface ScheduleOptions {
  /** Called when the clock and the chance of the schedule are in place. */
  open(): Beneath;
  /** Which answers may get lost. @default all */
  mayLose?: MayLose;
  /** What happens. @default what chance brings */
  write?: (plot: Plot, simulation: Simulation) => void;
}

export interface Outcome {
  seed: number;
  verdicts: string[];
  trace: string[];
  /** Milliseconds that passed in it. */
  took: number;
}

/** A process of the schedule with its queue, which no other one shares. */
export interface Home extends Process {
  queue: Queue;
  /** Until when it is stopped, or blocked. */
  readonly threads: readonly Thread[];
}

const turnOfTheEventLoop = promisify(setImmediate);

/** No schedule needs this long when nothing fails any more, in milliseconds of its own time. */
const longest = 120_000;

export class Simulation {
  readonly clock: Clock;
  readonly judge: Judge;
  readonly plans: Plan[] = [];
  readonly starts = new Map<number, number>();
  readonly weather: Weather;
  /** Whether calls ever fail, or are slow. */
  mayFail: boolean;
  readonly #wires: ConstructorParameters<typeof Wire>[0];
  readonly #mayLose: MayLose;

  constructor(clock: Clock, { store, rows }: Beneath, mayLose: MayLose) {
    this.clock = clock;
    this.judge = new Judge(clock, rows);
    this.weather = drawnWeather(clock);
    this.mayFail = isRough(this.weather);
    this.#mayLose = mayLose;
    const { judge: witness, weather } = this;
    this.#wires = { clock, beneath: store, weather, witness, listeners: new Map(), homes: new Map() };
  }

  newProcess(name: string): Home {
    const process = { name, loop: newThread(name), heart: newThread(`${name} heart`), cutUntil: 0 };
    const store = new Wire(this.#wires, process, this.#mayLose).store();
    const queue = new Queue(store, readQueueOptions(undefined));
    return Object.assign(process, { queue, threads: [process.loop, process.heart] });
  }

  /** Before anything happens. */
  setWeather(weather: Partial<Weather>): void {
    Object.assign(this.weather, weather);
    this.mayFail = isRough(this.weather);
  }

  /** From now on nothing fails. */
  calmDown(): void {
    Object.assign(this.weather, calm, { latency: 5 });
  }
}

const isRough = ({ refused, lost, slow }: Weather) => refused + lost + slow > 0;

function drawnWeather(clock: Clock): Weather {
  // In fair weather more can be asked: nobody who beats is taken for dead.
  const fair = clock.chance(0.4);
  const rate = () => (fair ? 0 : clock.oneOf([0, 0, 0.02, 0.1, 0.3]));
  return {
    refused: rate(),
    lost: rate(),
    latency: clock.oneOf([0, 2, 20, 100]),
    slow: fair ? 0 : clock.oneOf([0, 0, 0.05]),
    told: clock.oneOf([0, 0.5, 1, 1]),
    deathsAreSeen: clock.chance(0.5),
  };
}

/** Runs the schedule that follows from `seed`. */
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
 * The workers of a thread know each other to be alive (`src/worker/maintenance.ts`). Here one thread plays several processes: each
 * of them knows only its own.
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
