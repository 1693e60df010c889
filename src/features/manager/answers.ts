/** Bounds the answers with tasks of one agent, so that they can neither fill the memory nor hold the event loop for long. */
import { after, performance } from "../../base/runtime/timers.ts";

/** Looks for tasks of one agent at once, and answers with tasks that its connections have not taken yet. Its other claims wait. */
const mostOpen = 4;

/** Characters of an answer for which its agent pauses one millisecond: reading and sending them take about half of that. */
const charactersPerMs = 65_536;

/** A claim takes a place for a look, and keeps it until its answer was sent if the look has found tasks. */
export interface AnswerPlace {
  /** Resolves when the claim may look for tasks. False: the signal was aborted before. */
  enter(signal: AbortSignal): Promise<boolean>;
  /** May be called at any time. `length`: characters of the answer. */
  leave(length?: number): void;
}

/** The places of one agent. */
interface Places {
  taken: number;
  /** Claims that wait for one, the oldest first. */
  waiting: Set<() => void>;
  /** When the pause for its last answers ends, on the clock of `performance.now()`. */
  pausesUntil: number;
}

export class Answers {
  /** By the names of the agents. */
  readonly #places = new Map<string, Places>();

  placeOf(agent: string): AnswerPlace {
    let enteredAt: number | undefined;
    return {
      enter: async (signal) => {
        if (!(await this.#enter(agent, signal))) return false;
        enteredAt = performance.now();
        return true;
      },
      leave: (length = 0) => {
        if (enteredAt === undefined) return;
        const took = performance.now() - enteredAt;
        enteredAt = undefined;
        this.#pause(agent, Math.min(took, length / charactersPerMs));
      },
    };
  }

  async #enter(agent: string, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    const places = this.#places.get(agent) ?? { taken: 0, waiting: new Set(), pausesUntil: 0 };
    this.#places.set(agent, places);
    if (places.taken < mostOpen) {
      places.taken += 1;
      return true;
    }
    return await new Promise<boolean>((resolve) => {
      const end = (isIn: boolean) => {
        places.waiting.delete(enter);
        signal.removeEventListener("abort", abort);
        resolve(isIn);
      };
      const enter = () => end(true);
      const abort = () => end(false);
      places.waiting.add(enter);
      signal.addEventListener("abort", abort, { once: true });
    });
  }

  /** Frees a place, after a pause that follows those for the answers before: the event loop is free for other agents. */
  #pause(agent: string, ms: number): void {
    const places = this.#places.get(agent);
    if (!places) return;
    if (ms < 1) {
      this.#free(agent, places);
      return;
    }
    const now = performance.now();
    places.pausesUntil = Math.max(places.pausesUntil, now) + ms;
    after(places.pausesUntil - now, () => this.#free(agent, places), { keepAlive: false });
  }

  #free(agent: string, places: Places): void {
    const [next] = places.waiting;
    if (next) {
      next();
      return;
    }
    places.taken -= 1;
    if (places.taken === 0) this.#places.delete(agent);
  }
}
