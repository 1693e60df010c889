/** The stores under the simulated workers: the reference, which is fast, or SQLite itself. */
import type { SettleAndClaim } from "../../src/store.ts";
import type { Real } from "./real.ts";
import { Reference } from "./reference.ts";
import { referenceStore } from "./reference-store.ts";
import type { StoreUnderTest } from "./simulator.ts";
import type { Tables } from "./simulator-judge.ts";
import type { MayLose } from "./simulator-wire.ts";

/** A worker's first heartbeat counter, drawn from the schedule's seed. */
export const newBeat = () => Math.floor(Math.random() * 2 ** 31);

export function over(reference: Reference): StoreUnderTest {
  return { store: referenceStore(reference), rows: () => reference.rows() };
}

export const overReference = (): StoreUnderTest => over(new Reference(() => Date.now(), newBeat));

export function overSqlite(real: Real): StoreUnderTest {
  real.wipe();
  return { store: real.store, rows: () => real.rows() as unknown as Tables };
}

export const isClaim: MayLose = (method, [turn]) =>
  method === "settleAndClaim" && (turn as SettleAndClaim).claim !== undefined;
