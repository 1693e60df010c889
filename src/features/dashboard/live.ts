/**
 * Live updates: pages that are open are rendered again when the time comes, once for all who look at the same page and may do
 * the same, and sent where they have changed.
 *
 * One loop does it all, page after page, so that a thousand open pages never ask the database more at a time than one does. The
 * longer a round takes, the longer the loop rests: in the process of a worker, rendering takes the worker's time.
 */

import { clearTimeout, performance, setTimeout } from "../../base/runtime/timers.ts";

/** Renders a page; its HTML. */
type Render = () => Promise<string>;

/** The most pages that are rendered again. For one more, the place of another has to be freed. */
const mostTopics = 50;

/** Milliseconds for which a reader keeps a place while no reader has more than a fair share of the places. */
const keptFor = 30_000;

/** A round is followed by a rest of so many times as long: live updates take 4 % of the time at most, up to the longest rest. */
const restsFor = 25;

/** The longest rest, in poll intervals. */
const longestRest = 4;

/** A comment now and then, so that proxies keep the connection open. */
const stillThere = 15_000;

/** Milliseconds after which a page has to ask for its updates again. */
const longestStream = 300_000;

/** Events that a client may leave unread in turn before it is given up. */
const mostMissed = 10;

const encoder = new TextEncoder();

type Client = ReadableStreamDefaultController<Uint8Array>;

interface Topic {
  render: Render;
  since: number;
  clients: Map<Client, Sent>;
  /** Whether its last rendering failed. Only the first failure in a row is reported. */
  isFailing: boolean;
}

interface Sent {
  /** The person who looks, as `authorize` has named them; null when `authorize` gives no name. */
  reader: string | null;
  since: number;
  /** The HTML that it was sent last. */
  html: string | undefined;
  /** Events in turn for which there was no room. */
  missed: number;
}

export class Live {
  readonly #interval: number;
  readonly #maxClients: number;
  readonly #onError: (error: unknown, where: string) => void;
  readonly #topics = new Map<string, Topic>();
  #timer: NodeJS.Timeout | undefined;
  #clients = 0;
  #lastComment = 0;
  #isClosed = false;

  constructor(interval: number, maxClients: number, onError: (error: unknown, where: string) => void) {
    this.#interval = interval;
    this.#maxClients = maxClients;
    this.#onError = onError;
  }

  /**
   * The events of a page, until the request is aborted.
   * @param key the same for all for whom `render` gives the same
   * @param reader the person who looks: one who has more places than others loses one to them
   * @returns undefined when too many pages are open: this one gets no updates
   */
  open(
    key: string,
    render: Render,
    signal: AbortSignal,
    reader: string | null = null,
  ): ReadableStream<Uint8Array> | undefined {
    if (this.#isClosed || !this.#makeRoom(key, reader)) return undefined;
    const now = performance.now();
    const topic: Topic = this.#topics.get(key) ?? {
      render,
      since: now,
      clients: new Map(),
      isFailing: false,
    };
    this.#topics.set(key, topic);
    let controller: Client;
    const leave = () => this.#leave(key, topic, controller);
    signal.addEventListener("abort", leave, { once: true });
    return new ReadableStream<Uint8Array>(
      {
        start: (given) => {
          controller = given;
          topic.clients.set(given, { reader, since: now, html: undefined, missed: 0 });
          this.#clients += 1;
          given.enqueue(encoder.encode("retry: 3000\n\n"));
          this.#schedule(this.#interval);
        },
        cancel: leave,
      },
      // Of a client that reads slowly, one update is kept.
      { highWaterMark: 2 },
    );
  }

  /** How many pages get updates. */
  get clients(): number {
    return this.#clients;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const { clients } of this.#topics.values())
      for (const client of clients.keys())
        try {
          client.close();
        } catch {
          // The client had gone.
        }
    this.#topics.clear();
    this.#clients = 0;
  }

  /** Ends a place where all are taken. @returns whether there is one for this page and reader */
  #makeRoom(key: string, reader: string | null): boolean {
    const isNew = !this.#topics.has(key);
    if (isNew && this.#topics.size >= mostTopics && !endOne(this.#topicPlaces(), reader)) return false;
    return this.#clients < this.#maxClients || endOne(this.#clientPlaces(), reader);
  }

  /** The pages at which one reader alone looks. */
  #topicPlaces(): Place[] {
    return [...this.#topics].flatMap(([key, topic]) => {
      const { clients, since } = topic;
      const [reader = null, ...others] = new Set([...clients.values()].map((sent) => sent.reader));
      const end = () => {
        for (const client of clients.keys()) this.#end(key, topic, client);
      };
      return others.length > 0 ? [] : { reader, since, clients: clients.size, end };
    });
  }

  #clientPlaces(): Place[] {
    return [...this.#topics].flatMap(([key, topic]) =>
      [...topic.clients].map(([client, { reader, since }]) => ({
        ...{ reader, since, clients: 1 },
        end: () => this.#end(key, topic, client),
      })),
    );
  }

  #end(key: string, topic: Topic, client: Client): void {
    this.#leave(key, topic, client);
    client.close();
  }

  #leave(key: string, topic: Topic, client: Client): void {
    if (!topic.clients.delete(client)) return;
    this.#clients -= 1;
    if (topic.clients.size === 0 && this.#topics.get(key) === topic) this.#topics.delete(key);
  }

  #schedule(delay: number): void {
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#round(), delay);
    this.#timer.unref();
  }

  async #round(): Promise<void> {
    const begun = performance.now();
    this.#endOld();
    for (const topic of [...this.#topics.values()]) await this.#update(topic);
    if (performance.now() - this.#lastComment > stillThere) {
      this.#lastComment = performance.now();
      for (const topic of this.#topics.values()) sendAll(topic, comment);
    }
    this.#endDeaf();
    this.#timer = undefined;
    const rest = Math.min(longestRest * this.#interval, restsFor * (performance.now() - begun));
    if (this.#clients > 0) this.#schedule(Math.max(this.#interval, rest));
  }

  /** Browsers ask again, and `authorize` with them: whoever may look no longer is not shown more. */
  #endOld(): void {
    const end = performance.now() - longestStream;
    for (const [key, topic] of this.#topics)
      for (const [client, { since }] of topic.clients) if (since < end) this.#end(key, topic, client);
  }

  /** Ends the streams of clients that do not read: their updates would stay in memory. They may connect again. */
  #endDeaf(): void {
    for (const [key, topic] of this.#topics)
      for (const [client, { missed }] of topic.clients)
        if (missed >= mostMissed) this.#end(key, topic, client);
  }

  async #update(topic: Topic): Promise<void> {
    if (topic.clients.size === 0) return;
    try {
      sendPage(topic, await topic.render());
      topic.isFailing = false;
    } catch (error) {
      if (!topic.isFailing) this.#onError(error, "updating an open page");
      topic.isFailing = true;
      // They get the page again when it can be read, even if it is the same.
      for (const sent of topic.clients.values()) sent.html = undefined;
      sendAll(topic, failing);
    }
  }
}

/** A page or a stream of a reader. The number of both is limited. */
interface Place {
  reader: string | null;
  since: number;
  clients: number;
  end: () => void;
}

/**
 * Frees one place for the asking reader, of the places of the reader who has the most. It frees the place with the fewest
 * clients; if several have the fewest, the oldest of these. When the asking reader has at least two places fewer, it does so at
 * once; otherwise only if that place is older than `keptFor`.
 * @returns whether a place was freed
 */
function endOne(places: readonly Place[], asking: string | null): boolean {
  const counts = new Map<string | null, number>();
  for (const { reader } of places) counts.set(reader, (counts.get(reader) ?? 0) + 1);
  const most = [...counts.values()].reduce((a, b) => Math.max(a, b), 0);
  const [place] = places
    .filter(({ reader }) => counts.get(reader) === most)
    .sort((a, b) => a.clients - b.clients || a.since - b.since);
  const isFair = most <= (counts.get(asking) ?? 0) + 1;
  if (!place || (isFair && performance.now() - place.since < keptFor)) return false;
  place.end();
  return true;
}

const comment = encoder.encode(": still there\n\n");
const failing = encoder.encode("event: failing\ndata: {}\n\n");

/** Sends a page to the clients that have another one. A client that has not read the last one gets it in a later round. */
function sendPage({ clients }: Topic, html: string): void {
  const behind = [...clients].filter(([, sent]) => sent.html !== html);
  if (behind.length === 0) return;
  const bytes = encoder.encode(`event: page\ndata: ${JSON.stringify({ html })}\n\n`);
  for (const [client, sent] of behind) if (send(client, sent, bytes)) sent.html = html;
}

function sendAll({ clients }: Topic, bytes: Uint8Array): void {
  for (const [client, sent] of clients) send(client, sent, bytes);
}

/** Whether the client takes it. */
function send(client: Client, sent: Sent, bytes: Uint8Array): boolean {
  const hasRoom = (client.desiredSize ?? 0) > 0;
  sent.missed = hasRoom ? 0 : sent.missed + 1;
  if (hasRoom) client.enqueue(bytes);
  return hasRoom;
}
