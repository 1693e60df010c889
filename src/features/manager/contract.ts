/** What a database does for agents and their Managers. */
import { Part } from "../../base/tasks/part.ts";
import type { StoredAttempt, TaskVersion } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";

/**
 * A session of an agent asks for tasks. The claim that finds some notes the request in the session's row, which is a heartbeat,
 * too. While the row has this request already, a claim finds nothing.
 */
export interface SessionRequest {
  id: string;
  /** Where the agent was heard: the `host` of the row. */
  host: string;
  /** Claims also when the row has this request: the tasks that it claimed do not run any more. */
  anew: boolean;
}

export const sessionAsked = new Part<SessionRequest>("session");

/** `repeated`: the session's row had the request already, and nothing was claimed. */
export const sessionAnswered = new Part<"repeated">("session");

/** An agent: a machine without access to the database, for which Managers claim and settle. */
export interface AgentRecord {
  name: string;
  /** SHA-256 of its token, in hexadecimal digits. */
  tokenHash: string;
  /** The functions and the queues whose tasks it may run. */
  funcs: readonly string[];
  queues: readonly string[];
  /** Milliseconds since 1970, by the database's clock. */
  createdAt: number;
  /** When it last asked for something, to the minute; `null`: never. */
  lastSeenAt: number | null;
  expiresAt: number | null;
  revokedAt: number | null;
  /** Milliseconds until it expires, by the database's clock; negative after that; `null`: it does not expire. */
  expiresIn: number | null;
}

/** Agents, and the sessions of agents. A session is a worker's row, whose heartbeats a Manager writes. */
export interface AgentStore {
  /**
   * Adds an agent that expires in so many milliseconds; `null`: never. True too when it was added before, with the same token.
   * False: another one of this name exists, and is not revoked.
   */
  add(
    agent: Pick<AgentRecord, "name" | "tokenHash" | "funcs" | "queues"> & { expiresIn: number | null },
  ): Promise<boolean>;

  /** All agents, by name. */
  list(): Promise<AgentRecord[]>;

  /** Revokes an agent's token. False: there is no such agent. */
  revoke(name: string): Promise<boolean>;

  /** Notes that the agent has asked for something. */
  seen(name: string): Promise<void>;

  /** Sends one heartbeat of each of these workers, and writes where its agent was heard. Those without a row are left out. */
  beat(workers: readonly { workerId: string; host: string }[]): Promise<void>;

  /** The running tasks that the session's last request has claimed. */
  claimed(workerId: string): Promise<TaskRecord[]>;

  /** The running tasks whose rows name one of these workers, in no order. */
  held(workerIds: readonly string[]): Promise<(TaskVersion & { workerId: string })[]>;

  /** The tasks of these ids, without their payloads: an agent may name any ids. */
  tasks(ids: readonly number[]): Promise<AgentTask[]>;

  /** The recorded attempts of these generations of tasks, without their errors. */
  attempts(versions: readonly TaskVersion[]): Promise<AgentAttempt[]>;

  /** The errors of those of these tasks that were cancelled. */
  cancelErrors(ids: readonly number[]): Promise<Pick<TaskRecord, "id" | "error">[]>;
}

/** What a Manager keeps in mind of a task that an agent runs. */
export type AgentTask = Pick<
  TaskRecord,
  | "id"
  | "generationId"
  | "status"
  | "func"
  | "groupKey"
  | "queueName"
  | "workerId"
  | "createdAt"
  | "waitUntil"
  | "startedAt"
  | "retryCount"
  | "maxRetries"
  | "parentId"
>;

export type AgentAttempt = Pick<StoredAttempt, "taskId" | "generationId" | "workerId" | "outcome">;
