/** A backend of a chaos test's database: creates, removes, inspects and audits it. One object for each kind. */
import type { AuditDialect } from "../audit.ts";
import { mysql } from "./mysql.ts";
import { postgres } from "./postgres.ts";
import { sqlite } from "./sqlite.ts";

export type Kind = "sqlite" | "postgres" | "mysql";

/** A row whose columns are named in camelCase. */
type Row = object;

/** A connection of the test's own, beside all queues. */
export interface Raw extends AsyncDisposable {
  /** The rows of a query. */
  all<T extends Row>(text: string): Promise<T[]>;
  /** Runs a statement and returns the number of changed rows. */
  run(text: string): Promise<number>;
}

/** What the database reports about itself. */
export interface Health {
  /** "ok", or a description of the damage. */
  integrity: string;
  /** The size of the write-ahead log in bytes; 0 on a server. */
  wal: number;
}

export interface Backend {
  kind: Kind;
  /** Its usual name. */
  name: string;
  /** Creates an empty database on the same server, or in a folder beside it. @returns the target for `openQueue` */
  make(near: string): Promise<string>;
  /** Removes what `make` has created, and ends all connections to it. */
  remove(database: string): Promise<void>;
  /** The database's name on its server; its path. */
  nameOf(database: string): string;
  /** `patience`: milliseconds to wait for a lock. */
  open(database: string, patience: number): Promise<Raw>;
  /** An app's own Drizzle database. */
  app(database: string): Promise<object>;
  health(raw: Raw, database: string): Promise<Health>;
  /** Queries that describe a database's schema, without its name. */
  schema: readonly string[];
  audit: AuditDialect;
  /** The statements that begin a transaction and lock the row of this process's worker against writes. */
  lockWorker(pid: number): string[];
  /** Ends all connections to this database but those that `open` has made. @returns how many */
  terminate?(database: string): Promise<number>;
  /** The number of connections to this database, without those that `open` has made. */
  sessions?(database: string): Promise<number>;
}

const places: readonly (readonly [scheme: RegExp, place: Backend])[] = [
  [/^postgres(ql)?:/, postgres],
  [/^(mysql|mariadb):/, mysql],
];

/** The backend for a URL; anything else is a path. */
export function backendOf(database: string): Backend {
  return places.find(([scheme]) => scheme.test(database))?.[1] ?? sqlite;
}

/** Opens a connection to a database of any kind; it waits this many milliseconds for a lock. */
export const openRaw = (database: string, patience = 60_000): Promise<Raw> =>
  backendOf(database).open(database, patience);
