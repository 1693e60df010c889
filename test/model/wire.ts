/**
 * Intercepts the statements of a store in the driver's class of connections, and makes one fail with an error of the
 * server itself. While no fault is set, it only tracks where transactions begin and end.
 */
import type { Fault } from "./real-store.ts";

type Query = (...args: unknown[]) => Promise<unknown>;

/** A connection, as the driver's class has it. */
export interface Client {
  query: Query;
}

/** How to make a server fail, on the connection of the statement that should fail. */
export interface Failing {
  /** Rejects, and would reject again. */
  throws(query: Query): Promise<unknown>;
  /** Rejects with the server's error for a deadlock. */
  passes(query: Query): Promise<unknown>;
  /** In place of a commit: rejects, and the transaction is rolled back. */
  commits(query: Query): Promise<unknown>;
}

export class Wire {
  next: Fault | undefined;
  readonly #failing: Failing;
  /** The connections with an open transaction, and whether it is known to be rolled back. */
  readonly #open = new Set<object>();
  readonly #spoilt = new Set<object>();
  /** Called before each statement of a store's connection. */
  readonly #before: (client: object, query: Query) => Promise<unknown>;
  #undo: () => void = () => undefined;

  constructor(failing: Failing, before: (client: object, query: Query) => Promise<unknown>) {
    this.#failing = failing;
    this.#before = before;
  }

  get inTransaction(): boolean {
    return this.#open.size > 0;
  }

  /** Intercepts all connections of a class, except those that `isOurs` recognises as the test's own. */
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

  /** Makes a call during which a statement fails; `fired`: whether it came to that. */
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

/** A rollback cannot fail in another way, and no caller waits for a notification. */
const mayFail = (text: string) => text !== "rollback" && !/\b(notify|pg_notify)\b/.test(text);

/** The statement's text, in any form that the drivers accept. */
function textOf(query: unknown): string {
  const { text, sql } = query as { text?: unknown; sql?: unknown };
  return String(typeof query === "string" ? query : (text ?? sql))
    .trim()
    .replace(/^begin.*/, "begin");
}
