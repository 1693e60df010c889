/** The HTTP side of a Manager: limits, tokens, bodies, answers. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import { DatabaseError, OutcomeUnknownError } from "../../errors.ts";
import { Answers } from "./answers.ts";
import { Bodies } from "./bodies.ts";
import { mayRun } from "./claims.ts";
import type { AgentRecord } from "./contract.ts";
import { type Desk, TooManySessionsError } from "./desk.ts";
import { Refusal } from "./refusal.ts";
import { Seats } from "./seats.ts";
import type { Session } from "./session.ts";
import type { Tokens } from "./tokens.ts";
import { claimAnswer, readBeat, readClaim, readLimits, readProgress, readSettle } from "./wire.ts";

export interface HttpOptions {
  tls: { cert: string | Buffer; key: string | Buffer } | undefined;
  /** Bytes. */
  maxBody: number;
  maxConnections: number;
  maxSlots: number;
  maxSessions: number;
}

/** Milliseconds for the headers of a request, for all of it, and that a connection without a request stays open. */
const headersTimeout = 10_000;
const requestTimeout = 30_000;
const keepAliveTimeout = 120_000;
/** Bytes of a request's headers. */
const maxHeaderSize = 16_384;

/** Requests of one agent at once, for each session that it may have. dbq's own agents have 16 connections. */
const requestsPerSession = 16;

export class Http {
  readonly server: Server;
  readonly #options: HttpOptions;
  readonly #tokens: Tokens;
  readonly #desk: Desk;
  readonly #report: (error: unknown, where: string) => void;
  readonly #connections = new Set<Socket>();
  readonly #seats: Seats;
  readonly #bodies: Bodies;
  readonly #answers = new Answers();
  /** The requests of each agent that are not answered yet. */
  readonly #open = new Map<string, number>();
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
    this.#seats = new Seats(options.maxConnections);
    this.#bodies = new Bodies(options.maxBody);
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
    this.server.maxConnections = this.#seats.mostConnections;
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
    this.#connections.add(socket);
    this.#seats.opened(socket);
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
    // The rest of the body is not read. Nor is another request of a connection that has brought no token, or has no seat.
    if (!request.complete || !this.#seats.has(request.socket)) response.setHeader("connection", "close");
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
    const agent = await this.#agentOf(request);
    if (!agent) throw new Refusal(401, "unauthorized");
    if (!this.#seats.take(request.socket, agent.name)) throw new Refusal(429, "too many connections");
    const act = this.#actions[path];
    if (!act) throw new Refusal(404, "not found");
    if (request.method !== "POST") throw new Refusal(405, "method not allowed");
    const end = this.#begin(agent.name);
    try {
      return await this.#act(act, agent, request, response);
    } finally {
      end();
    }
  }

  async #agentOf({ headers, socket }: IncomingMessage): Promise<AgentRecord | undefined> {
    return await this.#tokens.agentOf(headers.authorization, socket.remoteAddress);
  }

  async #act(act: Action, found: AgentRecord, request: IncomingMessage, response: ServerResponse) {
    const body = await this.#bodies.read(request, found.name);
    // The token may have been revoked while the body came: then the agent's tasks are freed, as for any refused token.
    const agent = (await this.#tokens.current(found)) ?? (await this.#agentOf(request));
    if (!agent) throw new Refusal(401, "unauthorized");
    void this.#tokens.note(agent);
    return await act({ agent, body, request, response });
  }

  /** @returns what ends the request */
  #begin(agent: string): () => void {
    const open = this.#open.get(agent) ?? 0;
    const most = this.#options.maxSessions * requestsPerSession;
    if (open >= most) throw new Refusal(429, `more than ${most} requests at once`);
    this.#open.set(agent, open + 1);
    return () => {
      const others = (this.#open.get(agent) ?? 1) - 1;
      if (others === 0) this.#open.delete(agent);
      else this.#open.set(agent, others);
    };
  }

  #session({ agent, request }: Asked, id: string): Session {
    const session = this.#sessionOf(agent, id);
    const keepsAlive = request.httpVersion === "1.1" && request.headers.connection?.toLowerCase() !== "close";
    session.seen(request.socket, keepsAlive);
    return session;
  }

  #sessionOf(agent: AgentRecord, id: string): Session {
    try {
      return this.#desk.session(agent, id);
    } catch (error) {
      throw error instanceof TooManySessionsError ? new Refusal(429, error.message) : error;
    }
  }

  readonly #actions: Readonly<Record<string, Action>> = {
    "/v1/claim": async (asked) => {
      const body = valid(readClaim, asked.body);
      if (!mayRun(asked.agent, body.funcs)) throw new Refusal(403, "forbidden");
      if (body.slots > this.#options.maxSlots)
        throw new Refusal(429, `more than ${this.#options.maxSlots} slots`);
      const ahead = Math.min(body.ahead, this.#options.maxSlots - body.slots);
      const session = this.#session(asked, body.session);
      const poll = new AbortController();
      const place = this.#answers.placeOf(asked.agent.name);
      let length = 0;
      whenOver(asked, () => {
        // With a reason: without one each abort makes an error.
        poll.abort("answered");
        place.leave(length);
      });
      const rights = () => this.#tokens.current(asked.agent);
      const { tasks, answer } = await this.#desk.claim(session, { ...body, ahead }, poll, { rights, place });
      const text = claimAnswer(tasks, answer, (task) => session.startsIn(task));
      length = text.length;
      return text;
    },
    "/v1/limits": async (asked) => {
      const body = valid(readLimits, asked.body);
      const named = body.limits.map(({ func }) => func);
      if (!mayRun(asked.agent, named)) throw new Refusal(403, "forbidden");
      this.#session(asked, body.session);
      await this.#desk.limits(body);
      return "{}";
    },
    "/v1/settle": async (asked) => {
      const body = valid(readSettle, asked.body);
      return JSON.stringify(await this.#desk.settle(this.#session(asked, body.session), body));
    },
    "/v1/beat": async (asked) => {
      const body = valid(readBeat, asked.body);
      return JSON.stringify(await this.#desk.beat(this.#session(asked, body.session), body));
    },
    "/v1/progress": async (asked) => {
      const body = valid(readProgress, asked.body);
      return JSON.stringify(await this.#desk.progress(this.#session(asked, body.session), body));
    },
  };
}

interface Asked {
  agent: AgentRecord;
  body: unknown;
  request: IncomingMessage;
  response: ServerResponse;
}

type Action = (asked: Asked) => Promise<string>;

/** Calls this once, when the answer was sent or the connection has closed. One that waits for earlier answers of its connection has no `close`. */
function whenOver({ request: { socket }, response }: Asked, call: () => void): void {
  const over = () => {
    response.off("close", over);
    socket.off("close", over);
    call();
  };
  if (response.destroyed || socket.destroyed) {
    call();
    return;
  }
  response.on("close", over);
  socket.on("close", over);
}

/** @throws Refusal */
function valid<T>(read: (body: unknown) => T, body: unknown): T {
  try {
    return read(body);
  } catch (error) {
    throw new Refusal(400, (error as Error).message);
  }
}
