/** A session of an agent: from the start of its process to its end. Any Manager may serve it; its rows are the truth. */
import type { Socket } from "node:net";
import { after, performance, type Timer } from "../../base/runtime/timers.ts";
import type { TaskVersion } from "../../store.ts";
import type { AgentRecord, AgentTask } from "./contract.ts";
import type { Version } from "./wire.ts";

/** A task that the session has claimed, by any Manager. */
export type Held = Omit<AgentTask, "status"> & {
  /** When this Manager gave it to the agent, on the clock of `performance.now()`; undefined: another Manager did. */
  givenAt: number | undefined;
  /** The log lines of this attempt that came to this Manager. */
  lines: number;
};

export const keyOf = ({ id, generation }: Version): string => `${id}:${generation}`;

/**
 * Milliseconds in which an agent whose connections have all closed has to connect again. It does so at once; over a network,
 * with TLS, that takes three round trips.
 */
const reconnectMs = { sameHost: 300, network: 500 };

/** A unix socket has no address. */
const isOfThisHost = ({ remoteAddress }: Socket): boolean =>
  remoteAddress === undefined || /^(::ffff:)?127\.|^::1$/.test(remoteAddress);

export class Session {
  /** As its last request, or the last look of its claim, has found it: the session may do what its token may do now. */
  agent: AgentRecord;
  readonly id: string;
  /** The ids of its rows in `dbq_workers` end with this, after the name of the Manager that registered it. */
  readonly suffix: string;
  /** The `host` of its row: the agent, and the Manager that it spoke to last. */
  readonly place: string;
  /** How often its row was found or registered. */
  registrations = 0;
  /** When a heartbeat of its row was last written, on the clock of `performance.now()`. */
  beatAt = performance.now();
  /** The last registration, or search for its row: they run one after another. */
  ready: Promise<unknown> = Promise.resolve();
  /** Its last look for tasks, if that has found none: how many wake-ups had come before, and when it ended. */
  emptyLook: { wakes: number; at: number } | undefined;
  /** Of the tasks of its last claim. */
  bytesPerTask = 1;
  /** Ends the claim that waits, when a newer one comes. */
  poll: AbortController | undefined;
  /**
   * The tasks that it is known to hold, and when it last named each one, on the clock of `performance.now()`. `isFound`: only its
   * rows say so, it has not named the task yet. `startsAt`: its turn at a rate, on the same clock.
   */
  readonly held = new Map<
    string,
    { task: Held; namedAt: number; isFound: boolean; startsAt: number | undefined }
  >();
  lastSeen = performance.now();
  /** When the rows that it holds were last compared with those that it names. */
  comparedAt = performance.now();
  /** Its open connections, each with the listener for its end. */
  readonly #sockets = new Map<Socket, () => void>();
  readonly #onGone: (session: Session) => void;
  #reconnectMs = reconnectMs.network;
  #keepsAlive = false;
  #hasEnded = false;
  /** Beats that are not answered yet. */
  #beats = 0;
  #timer: Timer | undefined;
  #workerId: string | undefined;

  /** `manager`: the name of the Manager. `onGone` is called when all its connections have closed, and none came since. */
  constructor(agent: AgentRecord, id: string, manager: string, onGone: (session: Session) => void) {
    this.agent = agent;
    this.id = id;
    this.suffix = `/${agent.name}/${id}`;
    this.place = `agent ${agent.name} at ${manager}`;
    this.#onGone = onGone;
  }

  /** Its worker's row; undefined until one is found or registered. */
  get workerId(): string | undefined {
    return this.#workerId;
  }

  registered(workerId: string): void {
    this.#workerId = workerId;
    this.registrations += 1;
    this.beatAt = performance.now();
  }

  /** Whether a connection of the session is open. */
  get isConnected(): boolean {
    return this.#sockets.size > 0;
  }

  /** The Manager has forgotten the session: it claims nothing more for it. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Whether the agent has tasks: it was given them, or has named them. */
  get hasTasks(): boolean {
    for (const { isFound } of this.held.values()) if (!isFound) return true;
    return false;
  }

  /** Whether this task's row says that the session has claimed it. */
  owns(workerId: string | null): boolean {
    return workerId?.endsWith(this.suffix) ?? false;
  }

  /**
   * A row that was read later than it was found to run may have ended since: that one is not held.
   * @param how `givenAt` of a task that is given to the agent now; `startsAt`: its turn at a rate, when the claim has just answered it;
   *   `isFound`: only its row says that it is this session's
   */
  hold(
    task: AgentTask,
    {
      givenAt,
      startsAt,
      isFound = false,
    }: { givenAt?: number; startsAt?: number | undefined; isFound?: boolean } = {},
  ): void {
    if (task.status !== "running") return;
    const { id, generationId, func, groupKey, queueName, workerId, createdAt, waitUntil } = task;
    const { startedAt, retryCount, maxRetries, parentId } = task;
    const kept = {
      ...{ id, generationId, func, groupKey, queueName, workerId, createdAt, waitUntil },
      ...{ startedAt, retryCount, maxRetries, parentId, givenAt, lines: 0 },
    };
    const key = keyOf({ id, generation: generationId });
    const turn = startsAt ?? this.held.get(key)?.startsAt;
    this.held.set(key, { task: kept, namedAt: performance.now(), isFound, startsAt: turn });
  }

  /** Milliseconds until the turn of a task at a rate; undefined: it starts at once, or another Manager has claimed it. */
  startsIn({ id, generationId }: TaskVersion): number | undefined {
    const startsAt = this.held.get(keyOf({ id, generation: generationId }))?.startsAt;
    const wait = startsAt === undefined ? 0 : Math.ceil(startsAt - performance.now());
    return wait > 0 ? wait : undefined;
  }

  /**
   * A beat names these tasks. The agent sends the next one when this one is answered: until then none of its tasks is forgotten,
   * however slowly the database answers.
   * @returns what ends the beat
   */
  beginBeat(tasks: readonly Version[]): () => void {
    const name = () => {
      for (const one of tasks) {
        const held = this.held.get(keyOf(one));
        if (held) Object.assign(held, { namedAt: performance.now(), isFound: false });
      }
    };
    name();
    this.#beats += 1;
    return () => {
      this.#beats -= 1;
      name();
    };
  }

  /** The tasks that it holds, and has not named for so many milliseconds. */
  forgotten(age: number): Held[] {
    if (this.#beats > 0) return [];
    const now = performance.now();
    return [...this.held.values()].filter(({ namedAt }) => now - namedAt > age).map(({ task }) => task);
  }

  /**
   * Called for each request. If the client opens a connection for each request, its end does not mean that the agent is gone.
   * @param keepsAlive whether the client keeps the connection for its next request
   */
  seen(socket: Socket, keepsAlive: boolean): void {
    this.lastSeen = performance.now();
    this.#keepsAlive = keepsAlive;
    this.#timer?.clear();
    if (!keepsAlive || this.#sockets.has(socket)) return;
    // The last request of an agent that was killed is read after its connection has closed.
    if (socket.destroyed) {
      this.#closed(socket);
      return;
    }
    this.#reconnectMs = isOfThisHost(socket) ? reconnectMs.sameHost : reconnectMs.network;
    const onClose = () => this.#closed(socket);
    this.#sockets.set(socket, onClose);
    socket.once("close", onClose);
  }

  end(): void {
    this.#hasEnded = true;
    this.#timer?.clear();
    // Behind a proxy, a connection outlives its sessions.
    for (const [socket, onClose] of this.#sockets) socket.off("close", onClose);
    this.#sockets.clear();
    this.poll?.abort("the session has ended");
  }

  #closed(socket: Socket): void {
    this.#sockets.delete(socket);
    if (this.#sockets.size > 0 || !this.#keepsAlive) return;
    this.#timer?.clear();
    this.#timer = after(
      this.#reconnectMs,
      () => {
        if (this.#sockets.size === 0 && this.#keepsAlive) this.#onGone(this);
      },
      { keepAlive: false },
    );
  }
}
