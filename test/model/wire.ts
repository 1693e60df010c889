/**
 * Stands between a store and its server, in the driver's own class of connections: a statement is made to fail there, by an
 * error of the server's own. Without a fault to come it only sees where transactions begin and end.
 */
import type { Fault } from "./real-store.ts";

type Query = (...args: unknown[]) => Promise<unknown>;

/** A connection of the driver's, as its class has it. */
export interface Client {
  query: Query;
}

/** How a server is made to fail. Each is asked of the connection on which a statement is to fail. */
export interface Failing {
  /** Rejects, and it would the next time. */
  throws(query: Query): Promise<unknown>;
  /** Rejects, with what the server says of a deadlock. */
  passes(query: Query): Promise<unknown>;
  /** In place of a commit: rejects, and the transaction is undone. */
  commits(query: Query): Promise<unknown>;
}

export class Wire {
  next: Fault | undefined;
  readonly #failing: Failing;
  /** The connections that are in a transaction; of some of them it is known that it will not be committed. */
  readonly #open = new Set<object>();
  readonly #spoilt = new Set<object>();
  /** Asked of each connection of the store's before each of its statements. */
  readonly #before: (client: object, query: Query) => Promise<unknown>;
  #undo: () => void = () => undefined;

  constructor(failing: Failing, before: (client: object, query: Query) => Promise<unknown>) {
    this.#failing = failing;
    this.#before = before;
  }

  get inTransaction(): boolean {
    return this.#open.size > 0;
  }

  /** Stands before all connections of a class, but for those that `isOurs` says are none of a store's. */
  standBefore(prototype: Client, isOurs: (client: object) => boolean): void {
    const { query } = prototype;
    const wire = this;
    prototype.query = function (this: Client, ...args) {
      const ask: Query = (...asked) => query.apply(this, asked);
      return isOurs(this) ? ask(...args) : wire.#ask(this, ask, args);
    };
    this.#undo = () => {
      prototype.query = query;
    };
  }

  remove(): void {
    this.#undo();
  }

  /** Calls with a statement that fails; `fired`: whether it came to that. */
  async failing<T>(fault: Fault, call: () => Promise<T>): Promise<{ answer: T; fired: boolean }> {
    this.next = fault;
    try {
      const answer = await call();
      return { answer, fired: this.next === undefined };
    } finally {
      this.next = undefined;
    }
  }

  async #ask(client: object, query: Query, args: unknown[]): Promise<unknown> {
    await this.#before(client, query);
    const text = textOf(args[0]);
    const fault = mayFail(text) ? this.#due() : undefined;
    if (fault === "commit" && this.#open.has(client)) this.#spoilt.add(client);
    else if (fault !== undefined) return await this.#failing[fault === "passes" ? "passes" : "throws"](query);
    if (text === "commit" || text === "rollback") this.#open.delete(client);
    if (this.#spoilt.has(client) && !this.#open.has(client)) {
      this.#spoilt.delete(client);
      if (text === "commit") return await this.#failing.commits(query);
    }
    const answer = await query(...args);
    if (text === "begin") this.#open.add(client);
    return answer;
  }

  #due(): Fault["how"] | undefined {
    const { next } = this;
    if (!next) return undefined;
    this.next = next.statement > 0 ? { ...next, statement: next.statement - 1 } : undefined;
    return next.statement > 0 ? undefined : next.how;
  }
}

/** A rollback has no other end than to be undone, and nobody waits for a hint. */
const mayFail = (text: string) => text !== "rollback" && !/\b(notify|pg_notify)\b/.test(text);

/** As the drivers are given it. */
function textOf(query: unknown): string {
  const { text, sql } = query as { text?: unknown; sql?: unknown };
  return String(typeof query === "string" ? query : (text ?? sql))
    .trim()
    .replace(/^begin.*/, "begin");
}
