/**
 * The clock and the scheduler of a simulation. They stand in for the timers of Node, `Date.now()`, `performance.now()`
 * and `Math.random()` while it runs: time passes only from one event to the next, and chance comes from a seed.
 *
 * Each event belongs to a thread of a simulated process: the one in whose event it was asked for. So a process can be
 * killed (none of its events happens any more) or stopped (they happen later), and nobody has to tell it.
 */

/** What runs events, one after the other. */
export interface Thread {
  readonly name: string;
  alive: boolean;
  /** Its events wait for this moment. */
  heldUntil: number;
}

interface Entry {
  at: number;
  order: number;
  thread: Thread;
  run: (() => void) | undefined;
}

/** What timers give: as much of Node's `Timeout` as is used. */
interface Handle {
  entry: Entry;
  unref(): Handle;
  ref(): Handle;
}

type Callback = (...args: unknown[]) => void;

export const newThread = (name: string): Thread => ({ name, alive: true, heldUntil: 0 });

/** 2026-01-01, in milliseconds since 1970. */
const start = Date.UTC(2026, 0, 1);

/** When all microtasks are done. */
const afterMicrotasks = process.nextTick;
/** When Node has looked around too, which takes longer: only then does it tell of rejections that nobody handles. */
const turnOfTheEventLoop = setImmediate;
/** Events between such looks. */
const lookEvery = 50;

export class Clock {
  /** Milliseconds since the beginning. */
  now = 0;
  /** By how much the clock on the wall has been stepped. */
  stepped = 0;
  /** Whose event is happening. */
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

  // ---- chance --------------------------------------------------------------------------------

  chance(probability: number): boolean {
    return this.random() < probability;
  }

  /** From `from` up to `to`. */
  between(from: number, to: number): number {
    return from + this.random() * (to - from);
  }

  oneOf<T>(items: readonly T[]): T {
    return items[Math.floor(this.random() * items.length)] as T;
  }

  // ---- what happened -------------------------------------------------------------------------

  /** `text`: made only when somebody reads the trace. */
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

  /** Lets events happen until `done`, or until this many milliseconds have passed; whether it came to be `done`. */
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
      // In the order in which they were due.
      this.#push({ ...entry, at: thread.heldUntil });
      return;
    }
    this.current = thread;
    run();
    // Whatever follows from it without time passing is part of it: microtasks.
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

  // ---- in place of Node's --------------------------------------------------------------------

  /** Takes the place of the host's clock, timers and chance; returns what gives it back. */
  install(): () => void {
    const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = globalThis;
    const { now: dateNow } = Date;
    const { random } = Math;
    const { stackTraceLimit } = Error;
    // Thousands of errors are thrown on purpose, and a stack takes longer to write than all else that they lead to.
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
      // Its own, over the one that it inherits.
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
