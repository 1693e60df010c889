/** The agents of a queue and their tokens. A token is random and shown once: the database has its SHA-256. */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Duration } from "../../base/options/durations.ts";
import { duration, labels, readOptions, wrong } from "../../base/options/validators.ts";
import { performance, sleep } from "../../base/runtime/timers.ts";
import { agentRevokedChannel, tokenRefusedChannel } from "../../events.ts";
import { internalsOf, type Queue } from "../queue.ts";
import type { AgentRecord, AgentStore } from "./contract.ts";

/** Options of `addAgent`. */
export interface AddAgentOptions {
  /** The names of the functions that it may run, and whose arguments it sees. */
  funcs: string | readonly string[];
  /** The queues whose tasks it may run. @default "default" */
  queues?: string | readonly string[];
  /** How long its token is valid, from 1 s. @default it does not expire */
  expires?: Duration;
}

/** An agent, as `listAgents` returns it. */
export interface AgentInfo {
  name: string;
  funcs: string[];
  queues: string[];
  createdAt: Date;
  /** When it last asked a Manager for something, to the minute. */
  lastSeenAt: Date | null;
  expiresAt: Date | null;
  revokedAt: Date | null;
  /** Whether its token is valid now. */
  valid: boolean;
}

const isName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

function agentName(value: unknown, owner: string): string {
  if (typeof value === "string" && isName.test(value)) return value;
  throw wrong(
    `${owner}: name`,
    "1 to 64 of the characters A-Z a-z 0-9 . _ -, beginning with a letter or digit",
    value,
  );
}

const hashOf = (token: string): Buffer => createHash("sha256").update(token).digest();

/**
 * Adds an agent. Its token is in the answer and nowhere else. The name of a revoked agent may be used again.
 * @throws TypeError for a wrong option, or when there is an agent of this name that is not revoked
 */
export async function addAgent(
  queue: Queue,
  name: string,
  options: AddAgentOptions,
): Promise<{ name: string; token: string }> {
  agentName(name, "addAgent");
  const {
    funcs,
    queues = ["default"],
    expires = null,
  } = readOptions(options, "addAgent", {
    funcs: labels,
    queues: labels,
    expires: duration({ min: 1_000 }),
  });
  if (funcs === undefined)
    throw new TypeError("addAgent: name the functions that the agent may run: { funcs }");
  const token = `dbq_${randomBytes(32).toString("base64url")}`;
  const agent = { name, tokenHash: hashOf(token).toString("hex"), funcs, queues, expiresIn: expires };
  if (await internalsOf(queue).store.agents.add(agent)) return { name, token };
  throw new TypeError(`addAgent: there is an agent "${name}": revoke it first, or choose another name`);
}

/** Revokes an agent's token: Managers refuse it within a second. Returns false when there is no such agent. @throws TypeError */
export async function revokeAgent(queue: Queue, name: string): Promise<boolean> {
  return await internalsOf(queue).store.agents.revoke(agentName(name, "revokeAgent"));
}

/** All agents, by name; the revoked and expired ones too. */
export async function listAgents(queue: Queue): Promise<AgentInfo[]> {
  return (await internalsOf(queue).store.agents.list()).map((agent) => {
    const { name, funcs, queues, createdAt, lastSeenAt, expiresAt, revokedAt } = agent;
    return {
      name,
      funcs: [...funcs],
      queues: [...queues],
      createdAt: new Date(createdAt),
      lastSeenAt: dateOrNull(lastSeenAt),
      expiresAt: dateOrNull(expiresAt),
      revokedAt: dateOrNull(revokedAt),
      valid: isValid(agent, 0),
    };
  });
}

const dateOrNull = (time: number | null): Date | null => (time === null ? null : new Date(time));

/** `age`: milliseconds since the agent was read. */
function isValid({ revokedAt, expiresIn }: AgentRecord, age: number): boolean {
  return revokedAt === null && (expiresIn === null || expiresIn > age);
}

/** Milliseconds until the list of agents is read again: after them a revoked token is refused. */
const freshMs = 500;
/** Milliseconds between two looks for a token that is not in the list. */
const unknownMs = 100;
/** Milliseconds between two notes that an agent was seen. */
const seenEvery = 60_000;

/** Knows which agent a token belongs to. */
export class Tokens {
  readonly #store: AgentStore;
  readonly #onRefused: (tokenHash: string) => void;
  #agents: { agent: AgentRecord; hash: Buffer }[] = [];
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  readonly #seen = new Map<string, number>();

  /** `onRefused` is called with the hash of each token that is not valid, also of one that no agent has. */
  constructor(store: AgentStore, onRefused: (tokenHash: string) => void) {
    this.#store = store;
    this.#onRefused = onRefused;
  }

  /**
   * The agent of an `Authorization` header; undefined for anything but a valid token.
   * @param address of the client
   */
  async agentOf(
    authorization: string | undefined,
    address: string | undefined,
  ): Promise<AgentRecord | undefined> {
    const token = /^Bearer (\S{1,200})$/.exec(authorization ?? "")?.[1];
    const found = token === undefined ? undefined : await this.#agentWith(token);
    if (found && isValid(found, performance.now() - this.#readAt)) return found;
    if (token !== undefined) this.#onRefused(hashOf(token).toString("hex"));
    if (tokenRefusedChannel.hasSubscribers) {
      const unknown = token === undefined ? "missing" : "unknown";
      const reason = found ? (found.revokedAt === null ? "expired" : "revoked") : unknown;
      tokenRefusedChannel.publish({ agent: found?.name, reason, address });
    }
    return undefined;
  }

  /** The agent as it is now, while its token is the same and valid. At most two queries a second, however many ask. */
  async current({ name, tokenHash }: AgentRecord): Promise<AgentRecord | undefined> {
    await this.#refresh(freshMs);
    const now = this.#agents.find(({ agent }) => agent.name === name && agent.tokenHash === tokenHash)?.agent;
    return now && isValid(now, performance.now() - this.#readAt) ? now : undefined;
  }

  /** The agent of this token, valid or not. */
  async #agentWith(token: string): Promise<AgentRecord | undefined> {
    const hash = hashOf(token);
    await this.#refresh(freshMs);
    let found = this.#find(hash);
    if (!found) {
      // It may have been added just now. The pause bounds the queries that wrong tokens cause.
      await sleep(Math.max(0, this.#readAt + unknownMs - performance.now()), undefined, { ref: false });
      await this.#refresh(unknownMs - 10);
      found = this.#find(hash);
    }
    return found;
  }

  /** Compares with every agent, so that the time of the answer tells nothing about the token. */
  #find(hash: Buffer): AgentRecord | undefined {
    let found: AgentRecord | undefined;
    for (const { agent, hash: theirs } of this.#agents)
      if (theirs.length === hash.length && timingSafeEqual(theirs, hash)) found = agent;
    return found;
  }

  /** Writes that the agent was seen. Never throws, since nothing depends on it. */
  async note({ name }: AgentRecord): Promise<void> {
    const now = performance.now();
    if (now - (this.#seen.get(name) ?? Number.NEGATIVE_INFINITY) < seenEvery) return;
    this.#seen.set(name, now);
    await this.#store.seen(name).catch(() => this.#seen.delete(name));
  }

  async #refresh(age: number): Promise<void> {
    if (performance.now() - this.#readAt < age) return;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  async #read(): Promise<void> {
    const agents = await this.#store.list();
    this.#readAt = performance.now();
    this.#reportRevoked(agents);
    this.#agents = agents.map((agent) => ({ agent, hash: Buffer.from(agent.tokenHash, "hex") }));
  }

  #reportRevoked(agents: readonly AgentRecord[]): void {
    if (!agentRevokedChannel.hasSubscribers) return;
    const before = new Set(
      this.#agents.flatMap(({ agent }) => (agent.revokedAt === null ? [agent.name] : [])),
    );
    for (const { name, revokedAt } of agents)
      if (revokedAt !== null && before.has(name)) agentRevokedChannel.publish({ agent: name });
  }
}
