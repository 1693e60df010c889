/** Copies rows from one store to another until both have the same, a bounded number of bytes at a time. */
import { DatabaseError } from "../../errors.ts";
import type { MovedRow, MovedTable, RowVersion, TransferStore } from "../../store.ts";

/** Rows that are looked at together. */
const pageRows = 5_000;
/** Rows, and bytes of their texts, that are carried together; a row that is larger goes by itself. */
const chunk = { rows: 1_000, bytes: 4 * 1_048_576 };
/** Where a table begins: any database takes this number, and below it there are no ids but those that were made up. */
const beforeAll = -9_000_000_000_000_000_000;
/** Beyond so many rows that cannot be kept, something else is wrong. */
const mostUnkept = 100;

/** A row that the new database does not keep as it is. */
export interface UnkeptRow {
  table: MovedTable;
  id: number;
  problem: string;
}

/** What a round over a table came to. */
export interface Tally {
  /** Rows of the old database. */
  rows: number;
  /** Rows that were written to the new one. */
  written: number;
  /** Rows that it had and the old one has not. */
  removed: number;
}

export interface CopyHost {
  source: TransferStore;
  target: TransferStore;
  run: string;
  /** So many more rows are as they are to be. */
  onRows(rows: number): void;
  /** Throws when it is not to go on. */
  check(): void;
}

/** Of both databases, the rows with ids up to `until`. */
interface Page {
  wanted: RowVersion[];
  there: Map<number, string>;
  until: number;
}

export class Copier {
  readonly #host: CopyHost;
  readonly unkept: UnkeptRow[] = [];

  constructor(host: CopyHost) {
    this.#host = host;
  }

  /**
   * Makes the new database's table what the old one's is.
   * @param whole also compares the contents of rows that seem to be the same
   * @param keyed also carries unfinished tasks with unique keys: two of them cannot have the same, as they seem to while
   *   the old database is written to
   */
  async round(table: MovedTable, { whole, keyed }: { whole: boolean; keyed: boolean }): Promise<Tally> {
    const tally: Tally = { rows: 0, written: 0, removed: 0 };
    for (let after = beforeAll; after < Number.MAX_SAFE_INTEGER; ) {
      const { wanted, there, until } = await this.#page(table, after);
      const ids = new Set(wanted.map(({ id }) => id));
      const removed = [...there.keys()].filter((id) => !ids.has(id));
      if (removed.length > 0) await this.#put(table, [], removed);
      const changed = wanted.filter((stamp) => whole || there.get(stamp.id) !== stamp.version);
      const carried = changed.filter((stamp) => keyed || !stamp.keyed);
      this.#host.onRows(wanted.length - carried.length);
      for (const some of chunks(carried)) tally.written += await this.#carry(table, some, there);
      tally.rows += wanted.length;
      tally.removed += removed.length;
      after = until;
    }
    return tally;
  }

  /** As far as a page of either database reaches, so that neither has more rows in it than that. */
  async #page(table: MovedTable, after: number): Promise<Page> {
    const { source, target } = this.#host;
    const pages = await Promise.all([
      source.rowVersions(table, after, pageRows),
      target.rowVersions(table, after, pageRows),
    ]);
    const until = Math.min(
      ...pages.map((page) =>
        page.length < pageRows ? Number.MAX_SAFE_INTEGER : (page.at(-1) as RowVersion).id,
      ),
    );
    const [wanted, there] = pages.map((page) => page.filter(({ id }) => id <= until)) as [
      RowVersion[],
      RowVersion[],
    ];
    return { wanted, there: new Map(there.map(({ id, version }) => [id, version])), until };
  }

  /** @returns how many rows were written */
  async #carry(
    table: MovedTable,
    stamps: readonly RowVersion[],
    there: ReadonlyMap<number, string>,
  ): Promise<number> {
    const { source, target, check, onRows } = this.#host;
    // Two databases that answer at once leave the event loop no turn: nor a signal, nor whoever else is in the process.
    await new Promise((resolve) => setImmediate(resolve));
    check();
    const rows = await source.read(
      table,
      stamps.map(({ id }) => id),
    );
    const known = rows.map(([id]) => id).filter((id) => there.has(id));
    const before = byId(known.length === 0 ? [] : await target.read(table, known));
    const different = rows.filter((row) => !isKept(row, before.get(row[0])));
    await this.#write(table, different, new Set(known));
    onRows(stamps.length);
    return different.length;
  }

  /** Where the new database refuses some rows, it is found out which, and the others are written. */
  async #write(table: MovedTable, rows: readonly MovedRow[], known: ReadonlySet<number>): Promise<void> {
    if (rows.length === 0) return;
    const ids = rows.map(([id]) => id);
    const replaced = ids.filter((id) => known.has(id));
    const refusal = await refusalOf(() => this.#put(table, rows.filter(isCarried), replaced));
    // This throws after an error that is no row's fault.
    const now = byId(await this.#host.target.read(table, ids));
    const left = rows.filter((row) => !isKept(row, now.get(row[0])));
    if (refusal === undefined || left.length === 1) this.#note(table, left, refusal);
    else for (const half of halves(left)) await this.#write(table, half, new Set(now.keys()));
  }

  #note(table: MovedTable, rows: readonly MovedRow[], refusal: DatabaseError | undefined): void {
    const otherwise = (row: MovedRow) =>
      isCarried(row)
        ? "the new database keeps something else"
        : "it has a number or a text that cannot be carried over";
    for (const row of rows)
      this.unkept.push({ table, id: row[0], problem: refusal?.message ?? otherwise(row) });
    if (this.unkept.length > mostUnkept) throw new UnkeptRowsError(this.unkept);
  }

  async #put(table: MovedTable, rows: readonly MovedRow[], removed: readonly number[]): Promise<void> {
    const { target, run } = this.#host;
    if (!(await target.write(run, table, rows, removed))) throw new MoveTakenOverError();
  }
}

/** Another process went on with this move, or ended it. */
export class MoveTakenOverError extends DatabaseError {
  constructor() {
    super("another process goes on with this move, or has ended it");
  }
}

export class UnkeptRowsError extends DatabaseError {
  constructor(unkept: readonly UnkeptRow[]) {
    const told = unkept.slice(0, 5).map(({ table, id, problem }) => `${table} ${id}: ${problem}`);
    const more = unkept.length > told.length ? [`and ${unkept.length - told.length} more`] : [];
    super(
      `rows that the new database does not keep as they are: ${[...told, ...more].join("; ")}: change or delete them, and move again`,
    );
  }
}

/** What the database said against it. */
async function refusalOf(act: () => Promise<void>): Promise<DatabaseError | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (!(error instanceof DatabaseError) || error instanceof MoveTakenOverError) throw error;
    return error;
  }
}

function* chunks(stamps: readonly RowVersion[]): Generator<RowVersion[]> {
  let some: RowVersion[] = [];
  let bytes = 0;
  for (const stamp of stamps) {
    if (some.length === chunk.rows || (some.length > 0 && bytes + stamp.bytes > chunk.bytes)) {
      yield some;
      [some, bytes] = [[], 0];
    }
    some.push(stamp);
    bytes += stamp.bytes;
  }
  if (some.length > 0) yield some;
}

function halves<T>(items: readonly T[]): T[][] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)].filter(({ length }) => length > 0);
}

const byId = (rows: readonly MovedRow[]) => new Map(rows.map((row) => [row[0], row]));

const isCarried = (row: MovedRow): boolean => row.every((value) => value !== undefined);

/** Servers keep no NUL in a text. */
function isKept(row: MovedRow, kept: MovedRow | undefined): boolean {
  if (kept === undefined || !isCarried(row)) return false;
  return row.every((value, i) => {
    const now = kept[i];
    return value === now || (typeof value === "string" && value.replaceAll("\0", "\ufffd") === now);
  });
}
