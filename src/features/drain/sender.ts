/** Sends messages to a target. While the target cannot be used, it pauses, longer after each failed try. */
import { after, type Timer } from "../../base/runtime/timers.ts";
import { traced, traces } from "../../events.ts";
import type { ReadDrainOptions } from "./options.ts";
import type { DrainAnswer, DrainMessage } from "./target.ts";

export interface SenderHost {
  onPause(error: unknown, delay: number): void;
  onResume(): void;
  /** The pause is over: try again. */
  onRetry(): void;
  report(error: unknown, where: string): void;
}

/** Milliseconds of the pause after a failed send: `base` doubled for each failure in a row, less up to half at random. */
const backoff = { base: 100, most: 30_000 };

/** Milliseconds without an answer after which a target counts as unreachable. */
const answerWithin = 30_000;

export class Sender {
  readonly #options: Pick<ReadDrainOptions, "queueName" | "to">;
  readonly #host: SenderHost;
  readonly #underWay = new Set<AbortController>();
  /** Failed sends since the last one that was answered. */
  #failures = 0;
  #pause: Timer | undefined;
  #interrupted: Error | undefined;

  constructor(options: Pick<ReadDrainOptions, "queueName" | "to">, host: SenderHost) {
    this.#options = options;
    this.#host = host;
  }

  /** Whether it waits before the next try. */
  get isPaused(): boolean {
    return this.#pause !== undefined;
  }

  /** Whether the last send failed: the next one probably will, too. */
  get isSuspect(): boolean {
    return this.#failures > 0;
  }

  /** Ends the sends that wait for an answer, and begins none. */
  interrupt(reason: Error): void {
    this.#interrupted = reason;
    for (const abort of this.#underWay) abort.abort(reason);
    this.close();
  }

  close(): void {
    this.#pause?.clear();
    this.#pause = undefined;
  }

  /** The answers in the order of the messages; undefined when the target could not be used, so that nothing is known. Never throws. */
  async send(messages: readonly DrainMessage[]): Promise<readonly DrainAnswer[] | undefined> {
    if (this.#pause !== undefined || this.#interrupted !== undefined) return undefined;
    const { queueName, to } = this.#options;
    try {
      const about = () => ({ queueName, target: to.name ?? "target", messages: messages.length });
      const answers = await traced(traces.drain, about, async () => {
        return checked(await this.#answer(messages), messages.length);
      });
      if (this.#failures > 0) this.#host.onResume();
      this.#failures = 0;
      return answers;
    } catch (error) {
      this.#failed(error);
      return undefined;
    }
  }

  async #answer(messages: readonly DrainMessage[]): Promise<unknown> {
    const abort = new AbortController();
    this.#underWay.add(abort);
    const late = () => abort.abort(new Error(`the target did not answer within ${answerWithin} ms`));
    const timer = after(answerWithin, late);
    const aborted = new Promise<never>((_, reject) => {
      abort.signal.addEventListener("abort", () => reject(abort.signal.reason), { once: true });
    });
    try {
      return await Promise.race([this.#options.to.send(messages, abort.signal), aborted]);
    } finally {
      timer.clear();
      this.#underWay.delete(abort);
    }
  }

  #failed(error: unknown): void {
    // Two sends may fail together: the first failure begins the pause.
    if (this.#interrupted !== undefined || this.#pause !== undefined) return;
    const { base, most } = backoff;
    const delay = Math.round(Math.min(base * 2 ** this.#failures, most) * (0.5 + Math.random() / 2));
    if (this.#failures === 0) this.#host.report(error, `sending to ${this.#options.to.name ?? "the target"}`);
    this.#failures += 1;
    this.#pause = after(delay, () => {
      this.#pause = undefined;
      this.#host.onRetry();
    });
    this.#host.onPause(error, delay);
  }
}

/** @throws TypeError for answers that do not say what became of each message */
function checked(answers: unknown, count: number): readonly DrainAnswer[] {
  const isAnswer = (answer: unknown) =>
    answer === "sent" || answer === "duplicate" || answer instanceof Error;
  if (Array.isArray(answers) && answers.length === count && answers.every(isAnswer)) return answers;
  throw new TypeError(
    `the target must answer each of ${count} messages with "sent", "duplicate" or an Error, in their order`,
  );
}
