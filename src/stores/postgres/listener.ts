/** LISTEN and NOTIFY. Notifications are hints: losing one is harmless, since workers and awaits also poll. */
import { randomBytes } from "node:crypto";
import type { Client } from "pg";
import { clearTimeout, repeat, setImmediate, setTimeout } from "../../base/runtime/timers.ts";
import type { Connection, ServerPool } from "../server/pool.ts";
import type { Change } from "../server/run.ts";
import { endOf, keepAlive } from "./connection.ts";

/**
 * The channel of the queue in this schema. `public` has the same as no schema: workers that do not name it have their tables
 * there, unless their search path says otherwise.
 */
export const channelOf = (schema = "public"): string =>
  schema === "public" ? "dbq" : `dbq:${schema}`.slice(0, 63);

/** Milliseconds between tries to listen again: at first, and at most. */
const firstRetry = 50;
const longestRetry = 500;

/** Milliseconds between checks of the session: a connection may be cut off without an error. */
const checkEvery = 10_000;

/** Milliseconds between notifications of a busy queue: each takes a lock for which all other commits with one wait. */
const pause = 2;

/** The end of a NOTIFY payload, for each kind of change. A worker of an older version looks for work at each of them. */
const marks = { quiet: "-", work: "", rewind: "!" } as const satisfies Record<Change, string>;

/** One notification of several changes has the last of their kinds in this order. */
const kinds = Object.keys(marks) as Change[];

const later = (a: Change, b: Change | undefined): Change =>
  kinds[Math.max(kinds.indexOf(a), b === undefined ? 0 : kinds.indexOf(b))] as Change;

export const notifyText = (channel: string, parameter: number) =>
  `select pg_notify('${channel}', $${parameter})`;

const listenText = (channel: string) => `listen ${channel === "dbq" ? channel : `"${channel}"`}`;

/** The session that listens on a channel, for all queues that share a pool. It begins with the first receiver. */
class ListeningSession {
  readonly #pool: ServerPool;
  readonly #channel: string;
  readonly #receivers = new Set<(payload: string) => void>();
  #client: Client | undefined;
  #stopChecks: (() => void) | undefined;
  #retry: NodeJS.Timeout | undefined;
  #retryAfter = firstRetry;
  #connecting = false;
  /** How many notifications have no answer yet. */
  #notifying = 0;

  constructor(pool: ServerPool, channel: string) {
    this.#pool = pool;
    this.#channel = channel;
  }

  /** `receive` gets each payload, and an empty one when notifications may have been missed. */
  add(receive: (payload: string) => void): void {
    this.#receivers.add(receive);
    if (this.#receivers.size === 1) void this.#listen();
    // The session listens already, perhaps since before the last commit that the queue has not seen.
    else setImmediate(() => this.#receivers.has(receive) && receive(""));
  }

  /** The session ends with its last receiver. */
  async remove(receive: (payload: string) => void): Promise<void> {
    if (this.#receivers.delete(receive) && this.#receivers.size === 0) await this.#end();
  }

  /** Notifies on the connection that listens, which keeps the process alive until then. False: there is none, or it failed. */
  async notify(payload: string): Promise<boolean> {
    const client = this.#client;
    if (!client || this.#connecting) return false;
    this.#notifying += 1;
    keepAlive(client, true);
    try {
      await client.query({ name: "dbq_notify", text: notifyText(this.#channel, 1), values: [payload] });
      return true;
    } catch {
      // It may have no answer to anything: the next notification goes another way.
      this.#listenLater(client);
      return false;
    } finally {
      this.#notifying -= 1;
      if (this.#notifying === 0) keepAlive(client, false);
    }
  }

  async #end(): Promise<void> {
    clearTimeout(this.#retry);
    this.#stopChecks?.();
    const client = this.#client;
    this.#client = undefined;
    if (client) await endOf(client);
  }

  async #listen(): Promise<void> {
    if (this.#connecting || this.#client) return;
    this.#connecting = true;
    try {
      const client = (await this.#pool.dedicated()).client as Client;
      this.#client = client;
      client.on("end", () => this.#listenLater(client));
      client.on("error", () => this.#listenLater(client));
      client.on("notification", ({ payload = "" }) => this.#receive(payload));
      await client.query(listenText(this.#channel));
      keepAlive(client, false);
      this.#retryAfter = firstRetry;
      this.#stopChecks = repeat(checkEvery, () => this.#check(client), { keepAlive: false });
      if (this.#receivers.size === 0) await this.#end();
      // Notifications from before this session listened are lost.
      this.#receive("");
    } catch {
      this.#listenLater(this.#client);
    } finally {
      this.#connecting = false;
    }
  }

  #receive(payload: string): void {
    for (const receive of this.#receivers) receive(payload);
  }

  /** A query without an answer ends the connection. */
  #check(client: Client): void {
    client.query("select 1").catch(() => this.#listenLater(client));
  }

  #listenLater(client: Client | undefined): void {
    if (client !== this.#client) return;
    this.#client = undefined;
    this.#stopChecks?.();
    void client?.end().catch(() => undefined);
    if (this.#receivers.size === 0) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => void this.#listen(), this.#retryAfter * (0.5 + Math.random())).unref();
    this.#retryAfter = Math.min(this.#retryAfter * 2, longestRetry);
  }
}

const sessions = new WeakMap<ServerPool, Map<string, ListeningSession>>();

function sessionOf(pool: ServerPool, channel: string): ListeningSession {
  const ofPool = sessions.get(pool) ?? new Map<string, ListeningSession>();
  sessions.set(pool, ofPool);
  const session = ofPool.get(channel) ?? new ListeningSession(pool, channel);
  ofPool.set(channel, session);
  return session;
}

export class PostgresListener {
  readonly #pool: ServerPool;
  readonly #channel: string;
  readonly #session: ListeningSession;
  readonly #listeners = new Set<(mayStart: boolean) => void>();
  /** The payload of this queue's own notifications, which it ignores. */
  readonly #own = randomBytes(6).toString("hex");
  readonly #receive = (payload: string) => this.#notified(payload);
  #started = false;
  #closed = false;
  #notifying = false;
  /** What the next notification is about; undefined: nothing. */
  #pending: Change | undefined;
  onRewind: () => void = () => undefined;

  constructor(pool: ServerPool, channel: string) {
    this.#pool = pool;
    this.#channel = channel;
    this.#session = sessionOf(pool, channel);
  }

  /** Returns a function that removes the listener. The session keeps listening: a busy worker removes its listener for moments. */
  add(listener: (mayStart: boolean) => void): () => void {
    this.#listeners.add(listener);
    if (!this.#started) this.#session.add(this.#receive);
    this.#started = true;
    return () => this.#listeners.delete(listener);
  }

  #notified(payload: string): void {
    if (payload.startsWith(this.#own)) return;
    // Before the listeners, which claim at once.
    if (payload.endsWith(marks.rewind)) this.onRewind();
    for (const listener of this.#listeners) listener(!payload.endsWith(marks.quiet));
  }

  payload(): string | undefined {
    if (this.#notifying || this.#closed) return undefined;
    this.#notifying = true;
    setTimeout(() => void this.#notifyAll(), pause);
    return this.#own;
  }

  /** One notification covers all commits until it is sent. */
  notify(change: Change): void {
    this.#pending = later(change, this.#pending);
    if (this.#notifying) return;
    this.#notifying = true;
    setImmediate(() => void this.#notifyAll());
  }

  async #notifyAll(): Promise<void> {
    let wait = pause;
    while (this.#pending && !this.#closed) {
      const change = this.#pending;
      this.#pending = undefined;
      const isSent = await this.#send(this.#own + marks[change]);
      wait = isSent ? pause : Math.min(Math.max(wait * 2, firstRetry), longestRetry);
      // The connection was lost, perhaps before others heard of a place that they alone can take.
      if (!isSent) this.#pending = later(change, this.#pending);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, wait);
        if (!isSent) timer.unref();
      });
    }
    this.#notifying = false;
    if (this.#pending && !this.#closed) this.notify(this.#pending);
  }

  /** On the connection that listens, if possible: the shared ones are for work. */
  async #send(payload: string): Promise<boolean> {
    if (await this.#session.notify(payload)) return true;
    const text = notifyText(this.#channel, 1);
    const send = (connection: Connection) => connection.query(text, [payload], "dbq_notify");
    return await this.#pool
      .use(send, () => true)
      .then(
        () => true,
        () => false,
      );
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#session.remove(this.#receive);
  }
}
