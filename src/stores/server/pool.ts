/** Connections to a server, or to the first of several that answers: a few that are shared, and some that are held. */

import { DatabaseError } from "../../errors.ts";
import type { Row } from "../sql/rows.ts";
import { type Host, nameOf } from "./url.ts";

export interface QueryResult {
  rows: Row[];
  /** Rows that a change found. */
  changed: number;
  /** The id of the first row that an insert made, where the server says so. */
  insertId: number;
}

/** Milliseconds. A host that was cut off sends no word: without a limit, its connections would wait for it for a quarter of an hour. */
export const timeouts = { connect: 5_000, query: 30_000, answer: 5_000 } as const;

/** What can be asked. */
export interface Queryable {
  /** `name`: prepares the text under it, once. */
  query(text: string, params: readonly unknown[], name?: string): Promise<QueryResult>;
  /** Its own way to run a transaction, where BEGIN and COMMIT are no questions that it takes. */
  transaction?<T>(fn: (inside: Queryable) => Promise<T>): Promise<T>;
}

/** One connection, which does one thing after the other. */
export interface Connection extends Queryable {
  /** The driver's own. */
  readonly client: unknown;
  /** Whether it broke, or was ended. */
  readonly broken: boolean;
  /** Asks the server for a sign of life, not for long: a host that was cut off does not say so. */
  answers(): Promise<boolean>;
  /** Whether it keeps the process alive. */
  hold(on: boolean): void;
  end(): Promise<void>;
  /** At once, whatever is under way: a question that is no longer waited for may itself wait for a lock. */
  destroy(): void;
}

/** Where connections are had for a moment. */
export interface Pool {
  /** For messages. */
  readonly name: string;
  /** `spoilt`: whether what `fn` threw means that the connection is of no more use. */
  use<T>(fn: (asked: Queryable) => Promise<T>, spoilt: (error: unknown) => boolean): Promise<T>;
}

export type Connect = (host: Host) => Promise<Connection>;

export interface PoolLimits {
  /** Milliseconds that somebody waits for a connection to be free. @default as long as it takes */
  waitLimit?: number;
  /**
   * Milliseconds that a connection which nobody uses is trusted: after that it has to answer before it is used, where those
   * who use it ask without a limit of time. @default for ever
   */
  trust?: number;
}

/** The hosts of a server, and which of them answered last: the others are tried after it. All pools of a queue follow it. */
export class Hosts {
  readonly #all: readonly Host[];
  /** With several, each process begins with another one, so that they share the work. */
  #preferred: number;

  constructor(all: readonly Host[]) {
    this.#all = all;
    this.#preferred = Math.floor(Math.random() * all.length);
  }

  get name(): string {
    return this.#all.map(nameOf).join(",");
  }

  /** In the order in which to try them. */
  get inOrder(): Host[] {
    return this.#all.map((_, i) => this.#all[(this.#preferred + i) % this.#all.length] as Host);
  }

  prefer(host: Host): void {
    this.#preferred = this.#all.indexOf(host);
  }

  /** Its connections break: another one is preferred, if none is already; any, so that not all clients go to the same. */
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
  readonly #idle: Connection[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #hostOf = new WeakMap<Connection, Host>();
  readonly #givenBackAt = new WeakMap<Connection, number>();
  #open = 0;
  #closed = false;

  constructor(connect: Connect, hosts: Hosts, size: number, { waitLimit, trust }: PoolLimits = {}) {
    this.#connect = connect;
    this.#hosts = hosts;
    this.#size = size;
    this.#waitLimit = waitLimit ?? Number.POSITIVE_INFINITY;
    this.#trust = trust ?? Number.POSITIVE_INFINITY;
  }

  get name(): string {
    return this.#hosts.name;
  }

  /** A connection of its own, which is not counted; who holds it ends it. @throws what the last host's refusal was */
  async held(): Promise<Connection> {
    let failure: unknown;
    for (const host of this.#hosts.inOrder) {
      try {
        const connection = await this.#connect(host);
        this.#hosts.prefer(host);
        this.#hostOf.set(connection, host);
        return connection;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /** Uses one of the shared connections. */
  async use<T>(fn: (connection: Connection) => Promise<T>, spoilt: (error: unknown) => boolean): Promise<T> {
    const connection = await this.#take();
    let usable = true;
    try {
      return await fn(connection);
    } catch (error) {
      usable = !spoilt(error);
      throw error;
    } finally {
      this.#giveBack(connection, usable);
    }
  }

  async #take(): Promise<Connection> {
    for (;;) {
      const connection = await this.#free();
      connection.hold(true);
      if (this.#isTrusted(connection) || (await connection.answers())) return connection;
      this.#giveBack(connection, false);
      this.#dropIdle();
    }
  }

  #isTrusted(connection: Connection): boolean {
    const givenBackAt = this.#givenBackAt.get(connection) ?? Number.POSITIVE_INFINITY;
    return performance.now() - givenBackAt <= this.#trust;
  }

  /** Where one did not answer, those that nobody has used for longer hardly will, and each would be waited for. */
  #dropIdle(): void {
    const doubtful = this.#idle.filter((connection) => !this.#isTrusted(connection));
    for (const connection of doubtful) {
      this.#idle.splice(this.#idle.indexOf(connection), 1);
      this.#giveBack(connection, false);
    }
  }

  async #free(): Promise<Connection> {
    for (;;) {
      const idle = this.#idle.pop();
      if (idle && !idle.broken) return idle;
      if (idle) this.#open -= 1;
      else if (this.#open < this.#size) break;
      else await this.#vacancy();
    }
    this.#open += 1;
    try {
      return await this.held();
    } catch (error) {
      this.#open -= 1;
      this.#waiting.shift()?.();
      throw error;
    }
  }

  /** Resolves when a connection may be free. @throws DatabaseError when there is none for too long */
  #vacancy(): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        this.#waiting.splice(this.#waiting.indexOf(proceed), 1);
        const wait = `for ${this.#waitLimit / 1_000} s none of ${this.#size} connections was free`;
        reject(
          new DatabaseError(`${this.name}: ${wait}: does a transaction wait for another one inside of it?`),
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
      this.#givenBackAt.set(connection, performance.now());
      this.#idle.push(connection);
    } else {
      this.#open -= 1;
      const host = this.#hostOf.get(connection);
      if (host && !this.#closed) this.#hosts.avoid(host);
      if (usable) void connection.end();
      else connection.destroy();
    }
    this.#waiting.shift()?.();
  }

  /** Ends what nobody uses, and the rest when it is given back. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#idle.splice(0).map((connection) => connection.end()));
  }
}
