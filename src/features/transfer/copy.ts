/** Copies rows from one store to another until both have the same, with a bounded number of bytes in memory. */
import { setImmediate } from "../../base/runtime/timers.ts";
import { portionsOf } from "../../base/values/portions.ts";
import { DatabaseError } from "../../errors.ts";
import type { MovedRow, MovedTable, RowVersion, TransferStore } from "./contract.ts";

/** Row versions that are compared at a time. */
const pageRows = 5_000;
/** Rows, and bytes of their texts, that are copied at a time; a larger row is copied alone. */
const chunk = { rows: 1_000, bytes: 4 * 1_048_576 };
/** Where a table begins. Each database takes this number; only ids made up by hand are below it. */
const belowAllIds = -9_000_000_000_000_000_000;
/** With more rejected rows than this, the fault is not in the rows. */
const mostRejected = 100;

/** A row that the new database cannot store unchanged. */
export interface RejectedRow {
  table: MovedTable;
  id: number;
  problem: string;
}

/** The result of a round over a table. */
export interface RoundResult {
  /** Rows that were written to the new database. */
  written: number;
  /** Rows that were deleted from it, since the old one does not have them. */
  removed: number;
}

export interface RoundOptions {
  /** Compares the contents of rows whose versions are equal, too. */
  compareContents: boolean;
  /**
   * Copies unfinished tasks with unique keys, too. While apps write to the old database, a key may move from one task to
   * another between two reads, and the new database would refuse it as a duplicate.
   */
  withUniqueKeys: boolean;
}

export interface CopyHost {
  source: TransferStore;
  target: TransferStore;
  /** The id of this run of the move: the target refuses the writes of any other run. */
  run: string;
  /** Reports that so many more rows are equal in both databases. */
  onRows(rows: number): void;
  throwIfAborted(): void;
}

/** The row versions of both databases with ids up to `until`. */
interface Page {
  source: RowVersion[];
  /** By id. */
  target: ReadonlyMap<number, string>;
  until: number;
}

export class Copier {
  readonly #host: CopyHost;
  readonly rejected: RejectedRow[] = [];

  constructor(host: CopyHost) {
    this.#host = host;
  }

  /** Makes the new database's table equal to the old one's. */
  async round(table: MovedTable, options: RoundOptions): Promise<RoundResult> {
    const result = { written: 0, removed: 0 };
    for (let after = belowAllIds; after < Number.MAX_SAFE_INTEGER; ) {
      const page = await this.#page(table, after);
      result.removed += await this.#removeDeleted(table, page);
      const changed = changedRows(page, options);
      this.#host.onRows(page.source.length - changed.length);
      for (const some of chunks(changed)) result.written += await this.#copy(table, some, page.target);
      after = page.until;
    }
    return result;
  }

  /** Ends where the shorter page of the two databases ends, so that it is complete in both. */
  async #page(table: MovedTable, after: number): Promise<Page> {
    const { source, target } = this.#host;
    const pages = await Promise.all([
      source.rowVersions(table, after, pageRows),
      target.rowVersions(table, after, pageRows),
    ]);
    const until = Math.min(...pages.map(endOf));
    const [wanted, present] = pages.map((page) => page.filter(({ id }) => id <= until)) as [
      RowVersion[],
      RowVersion[],
    ];
    return { source: wanted, target: new Map(present.map(({ id, version }) => [id, version])), until };
  }

  /** Deletes the rows that the old database does not have. @returns their number */
  async #removeDeleted(table: MovedTable, { source, target }: Page): Promise<number> {
    const ids = new Set(source.map(({ id }) => id));
    const deleted = [...target.keys()].filter((id) => !ids.has(id));
    if (deleted.length > 0) await this.#write(table, [], deleted);
    return deleted.length;
  }

  /** @param present rows of the new database, by id @returns how many rows were written */
  async #copy(
    table: MovedTable,
    versions: readonly RowVersion[],
    present: ReadonlyMap<number, string>,
  ): Promise<number> {
    const { source, target, throwIfAborted, onRows } = this.#host;
    // Two synchronous drivers never yield to the event loop: signals, and all else in the process, would wait.
    await new Promise((resolve) => setImmediate(resolve));
    throwIfAborted();
    const rows = await source.read(
      table,
      versions.map(({ id }) => id),
    );
    const replaced = rows.map(([id]) => id).filter((id) => present.has(id));
    const before = byId(replaced.length === 0 ? [] : await target.read(table, replaced));
    const different = rows.filter((row) => !isStored(row, before.get(row[0])));
    await this.#store(table, different, new Set(replaced));
    onRows(versions.length);
    return different.length;
  }

  /** Writes rows and reads them back. If the new database refuses some, halves the batch until they are found. */
  async #store(table: MovedTable, rows: readonly MovedRow[], present: ReadonlySet<number>): Promise<void> {
    if (rows.length === 0) return;
    const ids = rows.map(([id]) => id);
    const replaced = ids.filter((id) => present.has(id));
    const refusal = await refusalOf(() => this.#write(table, rows.filter(isCopyable), replaced));
    // After an error that no row has caused, such as a lost connection, this read throws it again.
    const now = byId(await this.#host.target.read(table, ids));
    const left = rows.filter((row) => !isStored(row, now.get(row[0])));
    if (refusal === undefined || left.length === 1) this.#reject(table, left, refusal);
    else for (const half of halves(left)) await this.#store(table, half, new Set(now.keys()));
  }

  #reject(table: MovedTable, rows: readonly MovedRow[], refusal: DatabaseError | undefined): void {
    const reasonFor = (row: MovedRow) =>
      isCopyable(row)
        ? "the new database stores another value"
        : "it has a number or a text that cannot be copied";
    for (const row of rows)
      this.rejected.push({ table, id: row[0], problem: refusal?.message ?? reasonFor(row) });
    if (this.rejected.length > mostRejected) throw new RejectedRowsError(this.rejected);
  }

  async #write(table: MovedTable, rows: readonly MovedRow[], removed: readonly number[]): Promise<void> {
    const { target, run } = this.#host;
    if (!(await target.write(run, table, rows, removed))) throw new MoveTakenOverError();
  }
}

/** Another process has taken this move over. */
export class MoveTakenOverError extends DatabaseError {
  constructor() {
    super("another process has continued this move, or has completed it");
  }
}

export class RejectedRowsError extends DatabaseError {
  constructor(rejected: readonly RejectedRow[]) {
    const shown = rejected.slice(0, 5).map(({ table, id, problem }) => `${table} ${id}: ${problem}`);
    const more = rejected.length > shown.length ? [`and ${rejected.length - shown.length} more`] : [];
    super(
      `the new database cannot store these rows unchanged: ${[...shown, ...more].join("; ")}: change or delete them, and move again`,
    );
  }
}

/** The error by which the database refuses a write. */
async function refusalOf(write: () => Promise<void>): Promise<DatabaseError | undefined> {
  try {
    await write();
    return undefined;
  } catch (error) {
    if (!(error instanceof DatabaseError) || error instanceof MoveTakenOverError) throw error;
    return error;
  }
}

function endOf(page: readonly RowVersion[]): number {
  return page.length < pageRows ? Number.MAX_SAFE_INTEGER : (page.at(-1) as RowVersion).id;
}

function changedRows(
  { source, target }: Page,
  { compareContents, withUniqueKeys }: RoundOptions,
): RowVersion[] {
  return source
    .filter(({ id, version }) => compareContents || target.get(id) !== version)
    .filter(({ keyed }) => withUniqueKeys || !keyed);
}

const chunks = (versions: readonly RowVersion[]) =>
  portionsOf(versions, ({ bytes }) => bytes, { count: chunk.rows, size: chunk.bytes });

function halves<T>(items: readonly T[]): T[][] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)].filter(({ length }) => length > 0);
}

const byId = (rows: readonly MovedRow[]) => new Map(rows.map((row) => [row[0], row]));

const isCopyable = (row: MovedRow): boolean => row.every((value) => value !== undefined);

/** Servers cannot store NUL in a text: dbq replaces it by U+FFFD, at an enqueue too. */
function isStored(row: MovedRow, stored: MovedRow | undefined): boolean {
  if (stored === undefined || !isCopyable(row)) return false;
  return row.every((value, i) => {
    const now = stored[i];
    return value === now || (typeof value === "string" && value.replaceAll("\0", "\ufffd") === now);
  });
}
