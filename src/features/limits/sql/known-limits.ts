/**
 * What a store knows of the limits. A claim compares the version with the one that its worker's row names, and reads the
 * limits again when the row names another: a claim without limits so pays for one column of a row that it locks anyway.
 */

import { isScopeKind, type LimitScope } from "../../../base/options/limits.ts";
import { performance } from "../../../base/runtime/timers.ts";
import { positionsIn } from "../../../stores/sql/columns.ts";
import type { Row } from "../../../stores/sql/dialect.ts";
import { type Program, rows } from "../../../stores/sql/program.ts";
import { isCount, textOf } from "../../../stores/sql/rows.ts";
import type { LimitRecord } from "../contract.ts";
import { limitColumns } from "./statements.ts";
import type { LimitTexts } from "./texts.ts";

/** With the state of its rate, in microseconds since 1970. */
export interface LimitRow extends LimitRecord {
  tat: number | null;
}

const at = positionsIn(limitColumns);

const numberOf = (value: unknown) => (value === null ? null : Number(value));

/** Another program's time that cannot be read is 1970, and one that `Date` has not the nearest that it has: a pause stays one. */
function timeOf(value: unknown): number | null {
  const time = numberOf(value);
  return time === null ? null : Math.min(Math.max(time || 0, -8.64e15), 8.64e15);
}

/** The rows that dbq can read. Another program's row of an unknown scope, or with a text as a number, is passed over. */
export function toLimitRows(found: readonly Row[]): LimitRow[] {
  const counts = [at.concurrency, at.rate_limit, at.rate_per, at.rate_burst];
  return found
    .filter(
      (row) => isScopeKind(String(row[at.scope])) && counts.every((i) => row[i] === null || isCount(row[i])),
    )
    .map(toLimitRow);
}

function toLimitRow(row: Row): LimitRow {
  const [limit, per, burst] = [at.rate_limit, at.rate_per, at.rate_burst].map((i) => numberOf(row[i]));
  return {
    kind: String(row[at.scope]) as LimitScope["kind"],
    name: textOf(row[at.name]),
    group: textOf(row[at.group_key]),
    concurrency: numberOf(row[at.concurrency]),
    rate: limit && per ? { limit, per, burst: burst ?? 1 } : null,
    tat: numberOf(row[at.tat]) || null,
    throttledUntil: timeOf(row[at.throttled_until]),
    pausedAt: timeOf(row[at.paused_at]),
  };
}

export const keyOf = ({ kind, name, group }: LimitScope): string => JSON.stringify([kind, name, group]);

/** The scope from which `keyOf` made this key; null: `keyOf` did not make it. */
export function scopeIn(key: unknown): LimitScope | null {
  if (key === null || key === undefined) return null;
  try {
    const [kind, name, group] = JSON.parse(textOf(key));
    return { kind, name: String(name), group: String(group) };
  } catch {
    return null;
  }
}

/** The shared names in the column `uses`. */
export function namesIn(uses: unknown): string[] {
  if (uses === null) return [];
  try {
    return [JSON.parse(textOf(uses))].flat().map(String);
  } catch {
    return [];
  }
}

export const scopeParams = ({ kind, name, group }: LimitScope) => ({ scope: kind, name, group });

export const isLimit = ({ concurrency, rate }: Pick<LimitRow, "concurrency" | "rate">): boolean =>
  concurrency !== null || rate !== null;

/** The limits of one version. Never changes, so that a claim goes by the same from its beginning to its end. */
export class LimitSnapshot {
  readonly version: number;
  readonly #rows = new Map<string, LimitRow>();
  /** The rows of groups, by function and group. */
  readonly #groups = new Map<string, Map<string, LimitRow>>();

  constructor(version: number, found: readonly LimitRow[]) {
    this.version = version;
    for (const row of found) {
      this.#rows.set(keyOf(row), row);
      if (row.kind !== "group") continue;
      const groups = this.#groups.get(row.name) ?? new Map<string, LimitRow>();
      this.#groups.set(row.name, groups.set(row.group, row));
    }
  }

  get isEmpty(): boolean {
    return this.#rows.size === 0;
  }

  of(kind: LimitScope["kind"], name: string): LimitRow | undefined {
    return this.#rows.get(keyOf({ kind, name, group: "" }));
  }

  groupsOf(func: string): ReadonlyMap<string, LimitRow> | undefined {
    return this.#groups.get(func);
  }
}

/** Milliseconds. */
const readAgainAfter = 60_000;

export class KnownLimits {
  readonly #limits: LimitTexts["limits"];
  #readAt = 0;
  /** Version 0: no limit was ever written, since each that is written adds one to the version. */
  current = new LimitSnapshot(0, []);

  constructor({ limits }: LimitTexts) {
    this.#limits = limits;
  }

  /**
   * The limits of this version, which are read if they are not the known ones, and once a minute while there are any: another program may
   * have deleted one without a new version, and a claim starts nothing that counts for a limit whose row it cannot lock.
   */
  *at(version: number): Program<LimitSnapshot> {
    const now = performance.now();
    if (version !== this.current.version || now - this.#readAt >= readAgainAfter) {
      this.current = new LimitSnapshot(version, toLimitRows(yield* rows(this.#limits.limits)));
      this.#readAt = now;
    }
    return this.current;
  }
}
