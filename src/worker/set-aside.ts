/** Functions of which a worker takes no task for a while: it cannot read one of their tasks, which another worker may. */
import { after } from "../base/runtime/timers.ts";
import type { TaskRecord } from "../task.ts";

type ReportError = (error: unknown, where: string) => void;

/** Milliseconds. */
export const setAsideFor = 60_000;

export class SetAside {
  readonly #funcs = new Set<string>();
  readonly #report: ReportError;
  readonly #onEnd: () => void;

  constructor(report: ReportError, onEnd: () => void) {
    this.#report = report;
    this.#onEnd = onEnd;
  }

  /** Sets the function of a task aside that cannot be read, and reports that, unless it is set aside already. */
  add({ id, func }: Pick<TaskRecord, "id" | "func">, error: Error): void {
    if (this.#funcs.has(func)) return;
    this.#report(error, `task "${func}" (${id}), whose function this process leaves alone for a minute`);
    this.#funcs.add(func);
    const end = () => {
      this.#funcs.delete(func);
      this.#onEnd();
    };
    after(setAsideFor, end, { keepAlive: false });
  }

  /** Those that are not set aside. */
  among(funcs: readonly string[]): readonly string[] {
    return this.#funcs.size === 0 ? funcs : funcs.filter((func) => !this.#funcs.has(func));
  }
}
