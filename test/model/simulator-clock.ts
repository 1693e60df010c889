/**
 * The clock and scheduler of a simulation. While it runs, they replace Node's timers, `Date.now()`, `performance.now()`
 * and `Math.random()`: time passes only from one event to the next, and random choices come from a seed.
 *
 * Each event belongs to a thread of a simulated process, the one in whose event it was created. So a process can be
 * killed (its events no longer happen) or stopped (they happen later) without any support from its code.
 */
import "../support/fakeable-timers.ts";

/** Runs events one after the other. */
export interface Thread {
  readonly name: string;
  alive: boolean;
  /** Its events wait until this time. */
  heldUntil: number;
}

interface Entry {
  at: number;
  order: number;
  thread: Thread;
  run: (() => void) | undefined;
}

/** The result of a timer function: the used part of Node's `Timeout`. */
interface Handle {
  entry: Entry;
  unref(): Handle;
  ref(): Handle;
}

type Callback = (...args: unknown[]) => void;

export const newThread = (name: string): Thread => ({ name, alive: true, heldUntil: 0 });

/** 2026-01-01, in milliseconds since 1970. */
const start = Date.UTC(2026, 0, 1);

/** After all microtasks. */
const afterMicrotasks = process.nextTick;
/** After a turn of Node's event loop, which takes longer: only then does Node report unhandled rejections. */
const turnOfTheEventLoop = setImmediate;
/** Events between two such turns. */
const lookEvery = 50;

export class Clock {
  /** Milliseconds since the beginning. */
  now = 0;
  /** How far the time of day has been stepped. */
  stepped = 0;
  /** The thread of the current event. */
  current: Thread;
  readonly random: () => number;
  readonly #outside = newThread("outside");
  readonly #trace: [number, string, string | (() => string)][] = [];
  readonly #heap: Entry[] = [];
  #order = 0;

  constructor(random: () => number) {
    this.random = random;
    this.current = this.#outside;
  }

  wall(): number {
    return Math.floor(start + this.now + this.stepped);
  }

  // ---- random choices ------------------------------------------------------------------------

  chance(probability: number): boolean {
    return this.random() < probability;
  }

  /** A number from `from` up to `to`. */
  between(from: number, to: number): number {
    return from + this.random() * (to - from);
  }

  oneOf<T>(items: readonly T[]): T {
    return items[Math.floor(this.random() * items.length)] as T;
  }

  // ---- what happened -------------------------------------------------------------------------

  /** `text`: a function runs only when the trace is read. */
  note(text: string | (() => string), who: string = this.current.name): void {
    this.#trace.push([this.now, who, text]);
  }

  trace(): string[] {
    return this.#trace.map(
      ([at, who, text]) =>
        `${at.toFixed(1).padStart(9)} ${who.padEnd(9)} ${typeof text === "string" ? text : text()}`,
    );
  }

  // ---- events --------------------------------------------------------------------------------

  after(delay: number, thread: Thread, run: () => void): Entry {
    const entry = { at: this.now + Math.max(0, delay), order: this.#order++, thread, run };
    this.#push(entry);
    return entry;
  }

  /** Runs events until `done`, or until this many milliseconds have passed. @returns whether it is `done` */
  async runUntil(done: () => boolean, limit: number): Promise<boolean> {
    const end = this.now + limit;
    while (!done()) {
      const entry = this.#pop();
      if (!entry || entry.at > end) {
        if (entry) this.#push(entry);
        this.now = end;
        return done();
      }
      await this.#happen(entry);
    }
    return true;
  }

  async #happen(entry: Entry): Promise<void> {
    const { thread, run } = entry;
    if (!run || !thread.alive) return;
    this.now = Math.max(this.now, entry.at);
    if (thread.heldUntil > this.now) {
      // In the order in which the events were due.
      this.#push({ ...entry, at: thread.heldUntil });
      return;
    }
    this.current = thread;
    run();
    // Microtasks that follow without time passing belong to this event.
    const passOn = entry.order % lookEvery === 0 ? turnOfTheEventLoop : afterMicrotasks;
    await new Promise<void>((resolve) => passOn(resolve));
    this.current = this.#outside;
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let i = heap.length;
    for (; i > 0; ) {
      const parent = (i - 1) >> 1;
      if (!before(entry, heap[parent] as Entry)) break;
      heap[i] = heap[parent] as Entry;
      i = parent;
    }
    heap[i] = entry;
  }

  #pop(): Entry | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Entry, heap[child] as Entry)) child += 1;
      if (!before(heap[child] as Entry, last)) break;
      heap[i] = heap[child] as Entry;
      i = child;
    }
    heap[i] = last;
    return first;
  }

  // ---- replacements of Node's functions ------------------------------------------------------

  /** Replaces the host's clock, timers and random numbers; returns a function that restores them. */
  install(): () => void {
    const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = globalThis;
    const { now: dateNow } = Date;
    const { random } = Math;
    const { stackTraceLimit } = Error;
    // Thousands of errors are thrown on purpose, and creating their stacks would take most of the time.
    Error.stackTraceLimit = 0;
    const clear = (handle: Handle | undefined) => {
      if (handle) handle.entry.run = undefined;
    };
    const timer = (fn: Callback, delay = 0, ...args: unknown[]) =>
      this.#timer(Math.max(1, delay), () => fn(...args));
    Object.assign(globalThis, {
      setTimeout: timer,
      setInterval: (fn: Callback, every: number) => this.#interval(Math.max(1, every), fn),
      setImmediate: (fn: Callback, ...args: unknown[]) => this.#timer(0, () => fn(...args)),
      clearTimeout: clear,
      clearInterval: clear,
      clearImmediate: clear,
    });
    Date.now = () => this.wall();
    Math.random = this.random;
    performance.now = () => this.now;
    return () => {
      Object.assign(globalThis, { setTimeout, setInterval, setImmediate });
      Object.assign(globalThis, { clearTimeout, clearInterval, clearImmediate });
      Date.now = dateNow;
      Math.random = random;
      Error.stackTraceLimit = stackTraceLimit;
      // Its own property, which hides the inherited one.
      Reflect.deleteProperty(performance, "now");
    };
  }

  #timer(delay: number, run: () => void): Handle {
    const handle: Handle = {
      entry: this.after(delay, this.current, run),
      unref: () => handle,
      ref: () => handle,
    };
    return handle;
  }

  #interval(every: number, fn: () => void): Handle {
    const { current } = this;
    const again = () => {
      handle.entry = this.after(every, current, again);
      fn();
    };
    const handle = this.#timer(every, again);
    return handle;
  }
}

function before(a: Entry, b: Entry): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
