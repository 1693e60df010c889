/** The HTTP side of a Manager: limits, tokens, bodies, answers. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import { decode } from "../../base/values/codec.ts";
import { DatabaseError, OutcomeUnknownError } from "../../errors.ts";
import type { AgentRecord } from "../../store.ts";
import type { Desk } from "./desk.ts";
import type { Session } from "./session.ts";
import type { Tokens } from "./tokens.ts";
import { claimAnswer, readBeat, readClaim, readLimits, readProgress, readSettle } from "./wire.ts";

export interface HttpOptions {
  tls: { cert: string | Buffer; key: string | Buffer } | undefined;
  /** Bytes. */
  maxBody: number;
  maxConnections: number;
  maxSlots: number;
}

/** Milliseconds for the headers of a request, for all of it, and that a connection without a request stays open. */
const headersTimeout = 10_000;
const requestTimeout = 30_000;
const keepAliveTimeout = 120_000;
/** Bytes of a request's headers. */
const maxHeaderSize = 16_384;

/** An answer that is not 200. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export class Http {
  readonly server: Server;
  readonly #options: HttpOptions;
  readonly #tokens: Tokens;
  readonly #desk: Desk;
  readonly #report: (error: unknown, where: string) => void;
  readonly #connections = new Set<Socket>();
  /** Connections above the limit: their first request is refused. */
  readonly #surplus = new WeakSet<Socket>();
  #isClosing = false;

  constructor(
    options: HttpOptions,
    tokens: Tokens,
    desk: Desk,
    report: (error: unknown, where: string) => void,
  ) {
    this.#options = options;
    this.#tokens = tokens;
    this.#desk = desk;
    this.#report = report;
    const limits = {
      headersTimeout,
      requestTimeout,
      keepAliveTimeout,
      maxHeaderSize,
      connectionsCheckingInterval: 1_000,
    };
    const answer = (request: IncomingMessage, response: ServerResponse) =>
      void this.#answer(request, response);
    const { tls } = options;
    this.server = tls
      ? createSecureServer(
          { ...limits, ...tls, minVersion: "TLSv1.2", handshakeTimeout: headersTimeout },
          answer,
        )
      : createServer(limits, answer);
    // Above it, connections are closed without an answer.
    this.server.maxConnections = options.maxConnections * 2 + 10;
    this.server.on("connection", (socket: Socket) => this.#onConnection(socket));
  }

  /** Ends the connections once their requests are answered. */
  async close(): Promise<void> {
    this.#isClosing = true;
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeIdleConnections();
    await closed;
  }

  /** Ends all connections now. */
  destroy(): void {
    for (const socket of this.#connections) socket.destroy();
  }

  #onConnection(socket: Socket): void {
    if (this.#connections.size >= this.#options.maxConnections) this.#surplus.add(socket);
    this.#connections.add(socket);
    socket.setNoDelay(true);
    // A proxy sends the requests of any number of agents over one connection.
    socket.setMaxListeners(0);
    socket.once("close", () => this.#connections.delete(socket));
    // A client that sends nothing at all is not timed out by the server.
    socket.setTimeout(keepAliveTimeout, () => undefined);
  }

  // ---- one request ---------------------------------------------------------------------------

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const body = await this.#handle(request, response);
      this.#send(response, 200, body);
    } catch (error) {
      this.#refuse(request, response, error);
    }
  }

  #refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const refusal = error instanceof Refusal ? error : this.#unexpected(error);
    // The rest of the body is not read.
    if (!request.complete) response.setHeader("connection", "close");
    if (refusal.status === 401) response.setHeader("www-authenticate", "Bearer");
    if (refusal.status === 503 || refusal.status === 429) response.setHeader("retry-after", "1");
    this.#send(response, refusal.status, JSON.stringify({ error: refusal.message }));
  }

  /** The message of a database's error may hold what an agent must not see. */
  #unexpected(error: unknown): Refusal {
    this.#report(error, "answering an agent");
    if (error instanceof DatabaseError || error instanceof OutcomeUnknownError)
      return new Refusal(503, "the database did not answer: ask again");
    return new Refusal(500, "internal error");
  }

  #send(response: ServerResponse, status: number, body: string): void {
    if (response.destroyed || response.headersSent) return;
    if (this.#isClosing) response.setHeader("connection", "close");
    response.writeHead(status, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
      "cache-control": "no-store",
    });
    response.end(body);
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<string> {
    const [path = ""] = (request.url ?? "").split("?");
    if (path === "/healthz") {
      if (request.method !== "GET" && request.method !== "HEAD") throw new Refusal(405, "method not allowed");
      return '{"status":"ok"}';
    }
    if (this.#surplus.has(request.socket)) {
      response.setHeader("connection", "close");
      throw new Refusal(429, "too many connections");
    }
    const agent = await this.#tokens.agentOf(request.headers.authorization, request.socket.remoteAddress);
    if (!agent) throw new Refusal(401, "unauthorized");
    const act = this.#actions[path];
    if (!act) throw new Refusal(404, "not found");
    if (request.method !== "POST") throw new Refusal(405, "method not allowed");
    const body = await this.#body(request);
    void this.#tokens.note(agent);
    return await act({ agent, body, request, response });
  }

  async #body(request: IncomingMessage): Promise<unknown> {
    const { maxBody } = this.#options;
    const tooLarge = new Refusal(413, `the body is larger than ${maxBody} bytes`);
    if (Number(request.headers["content-length"] ?? 0) > maxBody) throw tooLarge;
    const chunks: Buffer[] = [];
    let size = 0;
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > maxBody) throw tooLarge;
        chunks.push(chunk);
      }
    } catch (error) {
      // The client has gone, as a killed agent: no error of the Manager, and nobody reads the answer.
      throw error === tooLarge ? error : new Refusal(400, "the body has no end");
    }
    try {
      return decode(Buffer.concat(chunks).toString("utf8"), "body");
    } catch (error) {
      // It says in which column; here it is the body.
      throw new Refusal(
        400,
        (error as Error).message.replace(/^column body: /, "the body is not the JSON of a request: "),
      );
    }
  }

  async #session({ agent, request }: Asked, id: string): Promise<Session> {
    const session = await this.#desk.session(agent, id);
    session.isAllowed = () => this.#tokens.isStillValid(agent);
    const keepsAlive = request.httpVersion === "1.1" && request.headers.connection?.toLowerCase() !== "close";
    session.seen(request.socket, keepsAlive);
    return session;
  }

  readonly #actions: Readonly<Record<string, (asked: Asked) => Promise<string>>> = {
    "/v1/claim": async (asked) => {
      const body = valid(readClaim, asked.body);
      if (!body.funcs.every((name) => asked.agent.funcs.includes(name))) throw new Refusal(403, "forbidden");
      if (body.slots > this.#options.maxSlots)
        throw new Refusal(429, `more than ${this.#options.maxSlots} slots`);
      const ahead = Math.min(body.ahead, this.#options.maxSlots - body.slots);
      const session = await this.#session(asked, body.session);
      const poll = new AbortController();
      // With a reason: without one each abort makes an error.
      const end = () => poll.abort("answered");
      if (asked.response.destroyed || asked.request.socket.destroyed) end();
      else asked.response.once("close", end);
      const { tasks, answer } = await this.#desk.claim(session, { ...body, ahead }, poll);
      return claimAnswer(tasks, answer);
    },
    "/v1/limits": async (asked) => {
      const body = valid(readLimits, asked.body);
      if (!body.limits.every(({ func }) => asked.agent.funcs.includes(func)))
        throw new Refusal(403, "forbidden");
      await this.#session(asked, body.session);
      await this.#desk.limits(body);
      return "{}";
    },
    "/v1/settle": async (asked) => {
      const body = valid(readSettle, asked.body);
      return JSON.stringify(await this.#desk.settle(await this.#session(asked, body.session), body));
    },
    "/v1/beat": async (asked) => {
      const body = valid(readBeat, asked.body);
      return JSON.stringify(await this.#desk.beat(await this.#session(asked, body.session), body));
    },
    "/v1/progress": async (asked) => {
      const body = valid(readProgress, asked.body);
      return JSON.stringify(await this.#desk.progress(await this.#session(asked, body.session), body));
    },
  };
}

interface Asked {
  agent: AgentRecord;
  body: unknown;
  request: IncomingMessage;
  response: ServerResponse;
}

/** @throws Refusal */
function valid<T>(read: (body: unknown) => T, body: unknown): T {
  try {
    return read(body);
  } catch (error) {
    throw new Refusal(400, (error as Error).message);
  }
}
