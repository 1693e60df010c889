/** Sends an agent's requests to a Manager, and to the next one when that does not answer. */
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { clearTimeout, setTimeout, sleep } from "../../../base/runtime/timers.ts";

/** Where a Manager is. */
export interface Place {
  url: string;
  secure: boolean;
  options: { host: string; port: number } | { socketPath: string };
}

/** A Manager has refused a request: asking again, or another Manager, does not help. */
export class RefusedError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = "RefusedError";
    this.status = status;
  }
}

/** Milliseconds without an answer after which another Manager is asked. A claim may wait so much longer. */
const answerMs = 10_000;
/** Milliseconds between two tries when no Manager has answered. */
const pauseMs = { first: 50, most: 1_000 };

export class Client {
  readonly #places: readonly Place[];
  readonly #token: string;
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;
  /** The Manager that answered last. */
  #at = 0;
  /** Those that have answered: their URL and its certificate are right. */
  readonly #known = new Set<Place>();
  /** Called when a connection to the Manager that answered last has ended. */
  onDisconnect: () => void = () => undefined;
  /** Called when none of the Managers has answered a request, with the reason of each. It is asked again. */
  onTrouble: (error: Error) => void = () => undefined;

  constructor(places: readonly Place[], token: string, ca: string | Buffer | undefined) {
    this.#places = places;
    this.#token = token;
    this.#http = new HttpAgent({ keepAlive: true, maxSockets: 16 });
    this.#https = new HttpsAgent({ keepAlive: true, maxSockets: 16, ...(ca === undefined ? {} : { ca }) });
  }

  /** The Manager that it asks first. */
  get url(): string {
    return (this.#places[this.#at] as Place).url;
  }

  /** Asks the next Manager from now on. */
  next(): void {
    this.#at = (this.#at + 1) % this.#places.length;
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  /**
   * Asks until a Manager answers, each in turn. One that refuses the token may serve another database than the rest: the others
   * are asked first.
   * @param wait milliseconds that the Manager may wait before it answers
   * @throws RefusedError when a Manager refuses the request; the reason of `signal` when that is aborted
   */
  async ask<T>(path: string, body: object, signal: AbortSignal, wait = 0): Promise<T> {
    const text = JSON.stringify(body);
    let refused: RefusedError | undefined;
    const troubles: string[] = [];
    for (let failures = 0; ; failures += 1) {
      const at = this.#at;
      const place = this.#places[at] as Place;
      signal.throwIfAborted();
      try {
        const { status, answer } = await this.#send(place, path, text, signal, answerMs + wait);
        this.#known.add(place);
        if (status === 200) return JSON.parse(answer) as T;
        if (status < 500 && status !== 429 && status !== 408)
          throw new RefusedError(status, messageOf(answer, status, place.url, body));
        if (status === 429) throw new Error(reasonIn(answer, status));
      } catch (error) {
        if (signal.aborted) throw error;
        if (error instanceof RefusedError && error.status !== 401) throw error;
        if (error instanceof RefusedError) refused = error;
        else if (failures < this.#places.length) {
          troubles.push(`${place.url}: ${this.#trouble(error as Error, place)}`);
          if (failures + 1 === this.#places.length)
            this.onTrouble(new Error(troubles.join("; "), { cause: error }));
        }
      }
      if (at === this.#at) this.next();
      if (refused && (failures + 1) % this.#places.length === 0) throw refused;
      const rounds = Math.floor(failures / this.#places.length);
      await sleep(Math.min(pauseMs.first * 2 ** rounds, pauseMs.most), undefined, { signal });
    }
  }

  #trouble(error: Error, place: Place): string {
    return this.#known.has(place) ? error.message : firstTrouble(error, place);
  }

  async #send(
    { secure, options }: Place,
    path: string,
    body: string,
    signal: AbortSignal,
    limit: number,
  ): Promise<{ status: number; answer: string }> {
    return await new Promise((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${this.#token}`,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
      };
      const asked = { ...options, path, method: "POST", headers, signal };
      const request: ClientRequest = secure
        ? httpsRequest({ ...asked, agent: this.#https })
        : httpRequest({ ...asked, agent: this.#http });
      const timer = setTimeout(() => request.destroy(new Error(`no answer in ${limit} ms`)), limit);
      const fail = (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      };
      request.on("error", fail);
      request.on("socket", (socket) => {
        if (!socket.listeners("close").includes(this.#onClose)) socket.on("close", this.#onClose);
      });
      request.on("response", (response: IncomingMessage) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", fail);
        response.on("end", () => {
          clearTimeout(timer);
          resolve({ status: response.statusCode ?? 0, answer: Buffer.concat(chunks).toString("utf8") });
        });
      });
      request.end(body);
    });
  }

  readonly #onClose = (): void => this.onDisconnect();
}

/** Explains a refusal to a person: for 401 and 403 the Manager itself says nothing more than the status. */
function messageOf(answer: string, status: number, url: string, body: object): string {
  if (status === 401)
    return `${url} refused the token: it is wrong, expired or revoked (dbq agents lists the agents)`;
  if (status === 403)
    return (
      `${url} refused a function: the agent asked for ${functionsIn(body).join(", ")}, and may run only those of its --funcs ` +
      "(dbq agents lists them); pass the others in no module, or not in tasks"
    );
  return `${url}: ${reasonIn(answer, status)}`;
}

/** What the Manager says of a refusal. */
function reasonIn(answer: string, status: number): string {
  try {
    return String((JSON.parse(answer) as { error: unknown }).error);
  } catch {
    return `HTTP ${status}`;
  }
}

/** The functions that a claim, or a request with limits, names. */
function functionsIn({ funcs = [], limits = {} }: { funcs?: readonly string[]; limits?: object }): string[] {
  return [...funcs, ...Object.keys(limits)];
}

const untrusted = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/** Says why a Manager that has never answered does not, and what often mends it. */
function firstTrouble(error: NodeJS.ErrnoException, { secure }: Place): string {
  const { code = "", message } = error;
  if (untrusted.has(code)) return `${message}: name the certificate that signed the Manager's with --ca (ca)`;
  if (secure && (code === "EPROTO" || code.startsWith("ERR_SSL_")))
    return "the TLS handshake failed: does the Manager listen with TLS, version 1.2 or newer?";
  if (!secure && code === "ECONNRESET")
    return `${message}: is it a Manager, and does it listen without TLS? If not, use https:`;
  return message;
}
