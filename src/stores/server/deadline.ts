/** The end of a caller's patience, for calls of the app. */
import { clearTimeout, setTimeout } from "../../base/runtime/timers.ts";
import { RequestTimeoutError } from "../../errors.ts";

export class Deadline {
  /** Rejects with a RequestTimeoutError when the time is over. */
  readonly passed: Promise<never>;
  #error: RequestTimeoutError | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param limit milliseconds from now */
  constructor(server: string, limit: number) {
    this.passed = new Promise((_, reject) => {
      this.#timer = setTimeout(() => {
        this.#error = new RequestTimeoutError(server, limit);
        reject(this.#error);
      }, limit);
    });
    this.passed.catch(() => undefined);
  }

  /** @throws RequestTimeoutError when the time is over */
  check(): void {
    if (this.#error) throw this.#error;
  }

  /** Settles as `call` does, unless the time is over first. */
  race<T>(call: Promise<T>): Promise<T> {
    return Promise.race([call, this.passed]);
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}
