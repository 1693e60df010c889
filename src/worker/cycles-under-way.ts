/** Counts, for the cycles of a worker that the database has not answered yet, what they settle and which places their claims take. */
import { performance } from "../base/runtime/timers.ts";
import type { ClaimRequest } from "../store.ts";
import type { PendingSettlement } from "./pending-settlement.ts";

export type SlotClaim = ClaimRequest & { crashSensitive: number };

export interface Cycle {
  readonly batch: readonly PendingSettlement[];
  readonly claim: SlotClaim | undefined;
  /** In the order in which the cycles of this worker began. */
  readonly place: number;
  /** On the clock of `performance.now()`. */
  readonly began: number;
}

/** A cycle begins beside another one only for so many outcomes, and for as many as that one settles. */
const overlapFrom = 50;

export class CyclesUnderWay {
  /** How many outcomes they settle. */
  settling = 0;
  /** How many tasks their claims may return, and how many crash-sensitive ones. */
  readonly claiming = { tasks: 0, crashSensitive: 0 };
  #lastBegun = 0;
  #lastAnswered = 0;

  get isClaiming(): boolean {
    return this.claiming.tasks > 0;
  }

  /** Whether another cycle is worth while for so many outcomes. */
  leaveEnough(outcomes: number): boolean {
    return outcomes >= Math.max(overlapFrom, this.settling);
  }

  /** Whether there is none but the one that settles these outcomes and is about to claim. */
  isAlone(batch: readonly PendingSettlement[]): boolean {
    return this.settling === batch.length && !this.isClaiming;
  }

  /** Until its answer, the claim takes the places of all tasks that it may return. */
  begin(batch: readonly PendingSettlement[], claim: SlotClaim | undefined): Cycle {
    this.#note(claim, 1);
    this.#lastBegun += 1;
    return { batch, claim, place: this.#lastBegun, began: performance.now() };
  }

  /** The claim was answered, or has failed. */
  end({ claim }: Cycle): void {
    this.#note(claim, -1);
  }

  #note(claim: SlotClaim | undefined, sign: 1 | -1): void {
    if (!claim) return;
    this.claiming.tasks += sign * claim.limit;
    this.claiming.crashSensitive += sign * claim.crashSensitive;
  }

  /** A cycle was answered. Returns whether its claim is the newest of those answered: an older one says nothing more. */
  noteAnswer({ claim, place }: Cycle): boolean {
    if (!claim || place < this.#lastAnswered) return false;
    this.#lastAnswered = place;
    return true;
  }
}
