/**
 * Connections to a server, or to the first of several hosts that answers: a few shared ones, and single ones with an owner.
 *
 * Not `pg.Pool` or a general pool: this one prefers a host for all pools of a queue, ends connections that a statement spoilt,
 * lets idle ones not keep the process alive, and tests one that was idle for long, the same for both drivers.
 */
import { clearTimeout, performance, setTimeout } from "../../base/runtime/timers.ts";
import { DatabaseError, withAnotherTry } from "../../errors.ts";
import type { Row } from "../sql/dialect.ts";
import { type Host, nameOf } from "./url.ts";

export interface QueryResult {
  rows: Row[];
  /** How many rows a change found. */
  changed: number;
  /** The id of the first row that an INSERT made, where the server says so. */
  insertId: number;
}

/** Milliseconds. A host that was cut off does not say so: without limits, its connections would hang for 15 minutes. */
export const timeouts = { connect: 5_000, query: 30_000, answer: 5_000 } as const;

/** A connection, a transaction, or an app's database. */
export interface Queryable {
  /** `name`: the statement is prepared once under it. */
  query(text: string, params: readonly unknown[], name?: string): Promise<QueryResult>;
  /** Runs a transaction, where BEGIN and COMMIT cannot be sent as queries. */
  transaction?<T>(fn: (inside: Queryable) => Promise<T>): Promise<T>;
}

/** One connection, which runs one query after the other. */
export interface Connection extends Queryable {
  /** The driver's own object. */
  readonly client: unknown;
  /** Whether it broke or was ended. */
  readonly broken: boolean;
  /** Whether the server answers a query within a short time. */
  answers(): Promise<boolean>;
  /** The error with which a replica refuses writes; undefined when the server is no replica. */
  refusal(): Promise<Error | undefined>;
  /** Sets whether it keeps the process alive. */
  hold(on: boolean): void;
  end(): Promise<void>;
  /** Closes the socket at once: a query whose answer nobody awaits may still wait for a lock. */
  destroy(): void;
}

export interface Pool {
  /** The server's name in errors. */
  readonly name: string;
  /**
   * `isSpoilt`: whether the error that `fn` threw makes the connection useless. `until`: when it rejects, the caller waits for a
   * connection no longer.
   */
  use<T>(
    fn: (queryable: Queryable) => Promise<T>,
    isSpoilt: (error: unknown) => boolean,
    until?: Promise<never>,
  ): Promise<T>;
  /** Whether `use` would get a connection now, without a wait for another user. If not, `later` is called once when it may. */
  hasIdle(later?: () => void): boolean;
}

export type Connect = (host: Host) => Promise<Connection>;

export interface PoolLimits {
  /** Milliseconds to wait for a free connection. @default no limit */
  waitLimit?: number;
  /** Milliseconds that a connection may be idle before it has to prove that the server answers. @default no limit */
  trust?: number;
  /** Milliseconds after which an idle connection is ended. @default never */
  idleLimit?: number;
}

/** The hosts of a server, and which of them to try first: the one that answered last. All pools of a queue share it. */
export class Hosts {
  readonly #all: readonly Host[];
  /** Each process begins with another one, so that they share the load. */
  #preferred: number;

  constructor(all: readonly Host[]) {
    this.#all = all;
    this.#preferred = Math.floor(Math.random() * all.length);
  }

  get name(): string {
    return this.#all.map(nameOf).join(",");
  }

  /** All hosts, the preferred one first. */
  get inOrder(): Host[] {
    return this.#all.map((_, i) => this.#all[(this.#preferred + i) % this.#all.length] as Host);
  }

  prefer(host: Host): void {
    this.#preferred = this.#all.indexOf(host);
  }

  /** Prefers any other host when connections to the preferred one break, so that not all clients go to the same one. */
  avoid(host: Host): void {
    const count = this.#all.length;
    if (this.#all[this.#preferred] !== host || count < 2) return;
    this.#preferred = (this.#preferred + 1 + Math.floor(Math.random() * (count - 1))) % count;
  }
}

export class ServerPool implements Pool {
  readonly #connect: Connect;
  readonly #hosts: Hosts;
  readonly #size: number;
  readonly #waitLimit: number;
  readonly #trust: number;
  readonly #idleLimit: number | undefined;
  /** The one that was given back last is the last. */
  readonly #idle: Connection[] = [];
  readonly #waiting: (() => void)[] = [];
  /** What is called when a connection is idle for which nobody waits. */
  readonly #wishing = new Set<() => void>();
  readonly #hostOf = new WeakMap<Connection, Host>();
  readonly #idleSince = new WeakMap<Connection, number>();
  #open = 0;
  #closed = false;
  #ending: NodeJS.Timeout | undefined;

  constructor(connect: Connect, hosts: Hosts, size: number, limits: PoolLimits = {}) {
    this.#connect = connect;
    this.#hosts = hosts;
    this.#size = size;
    this.#waitLimit = limits.waitLimit ?? Number.POSITIVE_INFINITY;
    this.#trust = limits.trust ?? Number.POSITIVE_INFINITY;
    this.#idleLimit = limits.idleLimit;
  }

  get name(): string {
    return this.#hosts.name;
  }

  /**
   * A connection that does not count, and that the caller ends. Of several hosts, replicas are passed over: they may be behind,
   * and a worker that reads old rows takes its running tasks for lost.
   * @throws the refusal of a replica, since it may become the primary soon; else the error of the last host
   */
  async dedicated(): Promise<Connection> {
    let [failure, refusal]: unknown[] = [];
    const hosts = this.#hosts.inOrder;
    for (const host of hosts) {
      try {
        const connection = await this.#connect(host);
        const refused = hosts.length > 1 && (await refusalOf(connection));
        if (!refused) {
          this.#hosts.prefer(host);
          this.#hostOf.set(connection, host);
          return connection;
        }
        refusal = refused;
      } catch (error) {
        failure = error;
      }
    }
    throw refusal ?? failure;
  }

  async use<T>(
    fn: (connection: Connection) => Promise<T>,
    isSpoilt: (error: unknown) => boolean,
    until?: Promise<never>,
  ): Promise<T> {
    const connection = await this.#take(until);
    let usable = true;
    try {
      return await fn(connection);
    } catch (error) {
      usable = !isSpoilt(error);
      throw error;
    } finally {
      this.#giveBack(connection, usable);
    }
  }

  hasIdle(later?: () => void): boolean {
    const has = this.#waiting.length === 0 && (this.#idle.length > 0 || this.#open < this.#size);
    if (!has && later) this.#wishing.add(later);
    return has;
  }

  async #take(until?: Promise<never>): Promise<Connection> {
    for (;;) {
      const connection = await this.#free(until);
      connection.hold(true);
      if (this.#isTrusted(connection) || (await connection.answers())) return connection;
      this.#giveBack(connection, false);
      this.#dropIdle();
    }
  }

  #isTrusted(connection: Connection): boolean {
    return this.#idleFor(connection) <= this.#trust;
  }

  /** Milliseconds since it was given back. A new connection was never idle. */
  #idleFor(connection: Connection): number {
    return performance.now() - (this.#idleSince.get(connection) ?? Number.POSITIVE_INFINITY);
  }

  /** After one connection did not answer, those that were idle for longer hardly will, and each test takes its time. */
  #dropIdle(): void {
    const doubtful = this.#idle.filter((connection) => !this.#isTrusted(connection));
    for (const connection of doubtful) {
      this.#idle.splice(this.#idle.indexOf(connection), 1);
      this.#giveBack(connection, false);
    }
  }

  async #free(until?: Promise<never>): Promise<Connection> {
    for (;;) {
      const idle = this.#idle.pop();
      if (idle && !idle.broken) return idle;
      if (idle) this.#open -= 1;
      else if (this.#open < this.#size) break;
      else await this.#vacancy(until);
    }
    this.#open += 1;
    try {
      return await this.dedicated();
    } catch (error) {
      this.#open -= 1;
      this.#tellOfPlace();
      throw error;
    }
  }

  /** Resolves when a connection may be free. @throws DatabaseError after the wait limit; the error of `until` */
  #vacancy(until?: Promise<never>): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        const place = this.#waiting.indexOf(proceed);
        if (place >= 0) this.#waiting.splice(place, 1);
      };
      until?.catch((error: unknown) => {
        clearTimeout(late);
        leave();
        reject(error);
      });
      const giveUp = () => {
        leave();
        const wait = `for ${this.#waitLimit / 1_000} s none of ${this.#size} connections was free`;
        reject(
          withAnotherTry(
            new DatabaseError(`${this.name}: ${wait}: does a transaction wait for another one inside of it?`),
            "may succeed",
          ),
        );
      };
      const late = Number.isFinite(this.#waitLimit) ? setTimeout(giveUp, this.#waitLimit) : undefined;
      const proceed = () => {
        clearTimeout(late);
        resolve();
      };
      this.#waiting.push(proceed);
    });
  }

  #giveBack(connection: Connection, usable: boolean): void {
    if (usable && !connection.broken && !this.#closed) {
      connection.hold(false);
      this.#idleSince.set(connection, performance.now());
      this.#idle.push(connection);
      this.#endIdleLater();
    } else {
      this.#open -= 1;
      const host = this.#hostOf.get(connection);
      if (host && !this.#closed) this.#hosts.avoid(host);
      if (usable) void connection.end();
      else connection.destroy();
    }
    this.#tellOfPlace();
  }

  /** A connection may be used now: tells the user who has waited longest, or, if nobody waits, those who have asked about one. */
  #tellOfPlace(): void {
    const next = this.#waiting.shift();
    if (next) return void next();
    const wishing = [...this.#wishing];
    this.#wishing.clear();
    for (const tell of wishing) tell();
  }

  #endIdleLater(): void {
    if (this.#idleLimit === undefined) return;
    this.#ending ??= setTimeout(() => this.#endIdle(this.#idleLimit ?? 0), this.#idleLimit).unref();
  }

  #endIdle(limit: number): void {
    this.#ending = undefined;
    const late = this.#idle.filter((connection) => this.#idleFor(connection) >= limit);
    for (const connection of this.#idle.splice(0, late.length)) {
      this.#open -= 1;
      void connection.end();
    }
    if (this.#idle.length > 0) this.#endIdleLater();
  }

  /** Ends idle connections now, and the others when they are given back. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#ending);
    await Promise.all(this.#idle.splice(0).map((connection) => connection.end()));
  }
}

/** Ends a connection to a replica. */
async function refusalOf(connection: Connection): Promise<Error | undefined> {
  try {
    const refusal = await connection.refusal();
    if (refusal !== undefined) void connection.end();
    return refusal;
  } catch (error) {
    connection.destroy();
    throw error;
  }
}
