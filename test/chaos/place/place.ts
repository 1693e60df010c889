/** Where the database of a scene is: how it is made and removed, looked at, and audited. One record for each kind. */
import type { AuditDialect } from "../audit.ts";
import { mysql } from "./mysql.ts";
import { postgres } from "./postgres.ts";
import { sqlite } from "./sqlite.ts";

export type Kind = "sqlite" | "postgres" | "mysql";

/** A row with the names that JavaScript would give to its columns. */
type Row = object;

/** A connection apart from all queues. */
export interface Raw extends AsyncDisposable {
  /** The rows of a query. */
  all<T extends Row>(text: string): Promise<T[]>;
  /** How many rows a statement has changed. */
  run(text: string): Promise<number>;
}

/** What the database says of itself. */
export interface Health {
  /** "ok", or what is wrong. */
  integrity: string;
  /** Bytes of the write-ahead log beside the file; 0 on a server. */
  wal: number;
}

export interface Place {
  kind: Kind;
  /** What people call it. */
  name: string;
  /** Makes an empty database on the server of this one, or in a folder beside it. @returns it as `openQueue` takes it */
  make(near: string): Promise<string>;
  /** Removes what `make` has made, and ends whoever is still connected to it. */
  remove(database: string): Promise<void>;
  /** What its server calls it; its path. */
  nameOf(database: string): string;
  /** `patience`: milliseconds for a lock. */
  open(database: string, patience: number): Promise<Raw>;
  /** A Drizzle database of an app's own. */
  app(database: string): Promise<object>;
  health(raw: Raw, database: string): Promise<Health>;
  /** Queries that tell of all that a database is made of, and of no name that it alone has. */
  schema: readonly string[];
  audit: AuditDialect;
  /** Begins a transaction in which others cannot write to the row of the worker of this process. */
  lockWorker(pid: number): string[];
  /** Ends all connections to this database but those that `open` has made. @returns how many */
  terminate?(database: string): Promise<number>;
  /** How many connections to this database there are, but those that `open` has made. */
  sessions?(database: string): Promise<number>;
}

const places: readonly (readonly [scheme: RegExp, place: Place])[] = [
  [/^postgres(ql)?:/, postgres],
  [/^(mysql|mariadb):/, mysql],
];

/** By its URL; whatever else it is, is a path. */
export function placeOf(database: string): Place {
  return places.find(([scheme]) => scheme.test(database))?.[1] ?? sqlite;
}

/** A connection to the database of a scene, of whatever kind; it waits for a lock for so many milliseconds. */
export const openRaw = (database: string, patience = 60_000): Promise<Raw> =>
  placeOf(database).open(database, patience);
