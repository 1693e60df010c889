/**
 * Which connections a Manager keeps. One that has brought a valid token has a seat. All others are strangers: however many there are,
 * they take no seat, and the oldest of them gives way to a new one.
 */
import type { Socket } from "node:net";
import { groupBy } from "../../base/values/group-by.ts";

/** With fewer seats than this, there may be as many strangers: agents that connect at the same moment are strangers first. */
const fewestStrangers = 100;

export class Seats {
  readonly #most: number;
  /** The oldest first. */
  readonly #strangers = new Map<unknown, Socket>();
  /** Each with the name of the agent that has brought it its seat; the oldest first. */
  readonly #seated = new Map<Socket, string>();

  /** `most`: seats. */
  constructor(most: number) {
    this.#most = most;
  }

  /** The number of connections that there may be at all: those without a seat are closed before. */
  get mostConnections(): number {
    return this.#most + this.#mostStrangers + 10;
  }

  get #mostStrangers(): number {
    return Math.max(this.#most, fewestStrangers);
  }

  /** A connection was opened. Nothing is known of it yet. */
  opened(socket: Socket): void {
    const peer = peerOf(socket);
    this.#strangers.set(peer, socket);
    socket.once("close", () => {
      if (this.#strangers.get(peer) === socket) this.#strangers.delete(peer);
    });
    if (this.#strangers.size <= this.#mostStrangers) return;
    for (const [oldest, stranger] of this.#strangers) {
      this.#strangers.delete(oldest);
      stranger.destroy();
      return;
    }
  }

  has(socket: Socket): boolean {
    return this.#seated.has(socket);
  }

  /** Gives this connection a seat, since it has brought a token of this agent. False: there is none. */
  take(socket: Socket, agent: string): boolean {
    if (this.#seated.has(socket) || socket.destroyed) return true;
    if (this.#seated.size >= this.#most && !this.#takeFromLargest(agent)) return false;
    this.#strangers.delete(peerOf(socket));
    this.#seated.set(socket, agent);
    socket.once("close", () => this.#seated.delete(socket));
    return true;
  }

  /** One agent cannot keep the others out: the one with the most seats loses one to an agent that has fewer. */
  #takeFromLargest(agent: string): boolean {
    const byAgent = groupBy(this.#seated.keys(), (socket) => this.#seated.get(socket));
    const [largest = []] = [...byAgent.values()].sort((a, b) => b.length - a.length);
    const [oldest] = largest;
    if (oldest === undefined || largest.length <= (byAgent.get(agent)?.length ?? 0) + 1) return false;
    this.#seated.delete(oldest);
    oldest.destroy();
    return true;
  }
}

/** With TLS, requests come over another socket object than the one that was opened: both have the same peer. */
const peerOf = (socket: Socket): unknown =>
  socket.remotePort === undefined ? socket : `${socket.remoteAddress} ${socket.remotePort}`;
