/** Functions of which a worker takes no task for a while: it cannot read one of their tasks, which another worker may. */
import { after } from "../base/runtime/timers.ts";

/** Milliseconds. */
export const setAsideFor = 60_000;

export class SetAside {
  readonly #funcs = new Set<string>();
  readonly #onEnd: () => void;

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  /** False: it is set aside already. */
  add(func: string): boolean {
    if (this.#funcs.has(func)) return false;
    this.#funcs.add(func);
    const end = () => {
      this.#funcs.delete(func);
      this.#onEnd();
    };
    after(setAsideFor, end, { keepAlive: false });
    return true;
  }

  /** Those that are not set aside. */
  among(funcs: readonly string[]): readonly string[] {
    return this.#funcs.size === 0 ? funcs : funcs.filter((func) => !this.#funcs.has(func));
  }
}
