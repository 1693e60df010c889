/** LISTEN and NOTIFY: hints between processes. Losing one is harmless: whoever waits for one also polls. */
import { randomBytes } from "node:crypto";
import type { Client } from "pg";
import { repeat } from "../../base/runtime/timers.ts";
import type { Connection, ServerPool } from "../server/pool.ts";
import { endOf, keeping } from "./connection.ts";

const channel = "dbq";

/** Milliseconds. Between tries to listen again: at first, and at most. */
const firstRetry = 50;
const longestRetry = 5_000;
/** Between proofs that the session is still there: what cuts a connection off need not say so. */
const proofEvery = 10_000;
/** Between notes, while there is always something to tell: a NOTIFY takes a lock that all others wait for. */
const pause = 2;

/** Ends a payload: claim cursors may have passed tasks that became pending. */
const rewindMark = "!";

export const notifyText = (parameter: number) => `select pg_notify('${channel}', $${parameter})`;

export class PostgresListener {
  readonly #pool: ServerPool;
  readonly #listeners = new Set<() => void>();
  /** What this queue tells, it need not hear. */
  readonly #own = randomBytes(6).toString("hex");
  #client: Client | undefined;
  #stopProof: (() => void) | undefined;
  #retry: NodeJS.Timeout | undefined;
  #retryAfter = firstRetry;
  #started = false;
  #closed = false;
  #telling = false;
  #toTell = false;
  #rewinds = false;
  onRewind: () => void = () => undefined;

  constructor(pool: ServerPool) {
    this.#pool = pool;
  }

  /** Returns what removes the listener. The session goes on listening: a worker that is busy does not, for moments. */
  add(listener: () => void): () => void {
    this.#listeners.add(listener);
    if (!this.#started) void this.#listen();
    this.#started = true;
    return () => this.#listeners.delete(listener);
  }

  async #listen(): Promise<void> {
    try {
      const client = (await this.#pool.held()).client as Client;
      this.#client = client;
      client.on("end", () => this.#listenLater(client));
      client.on("error", () => this.#listenLater(client));
      client.on("notification", ({ payload = "" }) => this.#notified(payload));
      await client.query(`listen ${channel}`);
      keeping(client, false);
      this.#retryAfter = firstRetry;
      this.#stopProof = repeat(proofEvery, () => this.#prove(client), { keepAlive: false });
      if (this.#closed) await this.close();
      // What was told before this session listened.
      this.#call();
    } catch {
      this.#listenLater(this.#client);
    }
  }

  #notified(payload: string): void {
    if (payload.startsWith(this.#own)) return;
    // First: a listener claims at once.
    if (payload.endsWith(rewindMark)) this.onRewind();
    this.#call();
  }

  #call(): void {
    for (const listener of this.#listeners) listener();
  }

  /** A query that is not answered ends the connection. */
  #prove(client: Client): void {
    client.query("select 1").catch(() => this.#listenLater(client));
  }

  #listenLater(client: Client | undefined): void {
    if (client !== this.#client) return;
    this.#client = undefined;
    this.#stopProof?.();
    void client?.end().catch(() => undefined);
    if (this.#closed) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => void this.#listen(), this.#retryAfter * (0.5 + Math.random())).unref();
    this.#retryAfter = Math.min(this.#retryAfter * 2, longestRetry);
  }

  payload(): string | undefined {
    if (this.#telling || this.#closed) return undefined;
    this.#telling = true;
    setTimeout(() => void this.#tellAll(), pause);
    return this.#own;
  }

  /** Tells the others, once for all that is committed until it has been told. */
  notify(rewind: boolean): void {
    this.#toTell = true;
    this.#rewinds ||= rewind;
    if (this.#telling) return;
    this.#telling = true;
    setImmediate(() => void this.#tellAll());
  }

  async #tellAll(): Promise<void> {
    while (this.#toTell && !this.#closed) {
      const payload = this.#rewinds ? this.#own + rewindMark : this.#own;
      [this.#toTell, this.#rewinds] = [false, false];
      const note = (connection: Connection) => connection.query(notifyText(1), [payload], "dbq_notify");
      await this.#pool.use(note, () => true).catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    this.#telling = false;
    if (this.#toTell && !this.#closed) this.notify(false);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#stopProof?.();
    const client = this.#client;
    this.#client = undefined;
    if (client) await endOf(client);
  }
}
