/** When something counts as wrong: what was set in the database, and the defaults. */
import {
  duration,
  integer,
  type Reader,
  type Readers,
  readOptions,
  wrong,
} from "../../base/options/validators.ts";
import type { CauseStore } from "./contract.ts";
import type { CauseThresholdChanges, ReadCauseThresholds } from "./methods.ts";

const minute = 60_000;

/** The page of the docs about causes has the same table. */
export const defaults: Readonly<ReadCauseThresholds> = {
  pausedAfter: minute,
  limitedAfter: 10 * minute,
  unservedAfter: minute,
  hungFactor: 10,
  hungAfter: minute,
  failingShare: 0.5,
  failingAttempts: 20,
  failingWithin: 10 * minute,
  crashingWorkers: 3,
  crashingWithin: 10 * minute,
  frozenShare: 0.5,
  pilingTasks: 3,
  behindFor: 10 * minute,
  starvedAfter: 10 * minute,
  starvedStarts: 100,
  endedAfter: minute / 2,
};

const share: Reader<number> = (value, name) => {
  if (typeof value === "number" && value > 0 && value <= 1) return value;
  throw wrong(name, "a number above 0 and up to 1", value);
};

const factor: Reader<number> = (value, name) => {
  if (typeof value === "number" && value >= 1 && Number.isFinite(value)) return value;
  throw wrong(name, "a number from 1", value);
};

const readers: Readers<ReadCauseThresholds> = {
  pausedAfter: duration(),
  limitedAfter: duration(),
  unservedAfter: duration(),
  hungFactor: factor,
  hungAfter: duration(),
  failingShare: share,
  failingAttempts: integer(1),
  failingWithin: duration({ min: minute, max: 60 * minute }),
  crashingWorkers: integer(1),
  crashingWithin: duration({ min: 1 }),
  frozenShare: share,
  pilingTasks: integer(1),
  behindFor: duration({ min: 3 * minute, max: 60 * minute }),
  starvedAfter: duration(),
  starvedStarts: integer(1, 1_000),
  endedAfter: duration(),
};

const orNull =
  <T>(read: Reader<T>): Reader<T | null> =>
  (value, name) =>
    value === null ? null : read(value, name);

const changeReaders = Object.fromEntries(
  Object.entries(readers).map(([name, read]) => [name, orNull(read as Reader<number>)]),
) as Readers<Record<keyof ReadCauseThresholds, number | null>>;

/** Asks the database for the thresholds that hold. @throws DatabaseError */
export async function thresholdsOf(store: CauseStore): Promise<ReadCauseThresholds> {
  return thresholdsIn((await store.stored()).thresholds);
}

/**
 * Reads the thresholds that `CauseStore.stored` has found. Where another program has written a value that cannot be read, the default
 * holds.
 */
export function thresholdsIn(stored: string | undefined): ReadCauseThresholds {
  const set = Object.entries(parsed(stored)).filter(([name, value]) => isRead(name, value));
  return { ...defaults, ...Object.fromEntries(set) };
}

/** @returns the thresholds that hold from now on @throws TypeError, DatabaseError */
export async function setThresholds(
  store: CauseStore,
  changes: CauseThresholdChanges,
): Promise<ReadCauseThresholds> {
  if (typeof changes !== "object" || changes === null)
    throw wrong("setCauseThresholds", 'an object such as { pausedAfter: "5m" }', changes);
  const read = readOptions(changes, "setCauseThresholds", changeReaders);
  await store.changeThresholds((before) => {
    const all = Object.entries({ ...parsed(before), ...read });
    // A null is none that is read: its default holds again. A later version of dbq may know what this one does not.
    const kept = all.filter(([name, value]) => !Object.hasOwn(readers, name) || isRead(name, value));
    return JSON.stringify(Object.fromEntries(kept));
  });
  return await thresholdsOf(store);
}

function parsed(text: string | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text ?? "{}");
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
  } catch {
    return {};
  }
}

function isRead(name: string, value: unknown): boolean {
  if (!Object.hasOwn(readers, name)) return false;
  try {
    readers[name as keyof ReadCauseThresholds](value, name);
    return true;
  } catch {
    return false;
  }
}
