/** An operation that a process does on a database, to be killed before and after each of its statements. */
import { writeFileSync } from "node:fs";
import { openQueue, type Queue } from "../../../src/index.ts";
import type { Entry } from "../../fixtures/event-log.ts";
import { ManualWorker } from "./manual-worker.ts";

/** The files that a process gets: a database and an event log. */
export interface Files {
  database: string;
  eventLog: string;
}

/** Adds a line to the event log. */
export type LogEvent = (what: string, more?: Partial<Entry>) => void;

/** What the actor needs. */
interface Role extends Files {
  /** Called when the preparation is done: points are counted from here on. */
  arm: () => void;
  log: LogEvent;
}

/** The process that does the operation. */
export class Actor implements Role {
  readonly database: string;
  readonly eventLog: string;
  readonly arm: () => void;
  readonly log: LogEvent;

  constructor({ database, eventLog, arm, log }: Role) {
    this.database = database;
    this.eventLog = eventLog;
    this.arm = arm;
    this.log = log;
  }

  async open(): Promise<Queue> {
    return await openQueue(this.database);
  }

  acknowledged(...ids: readonly number[]): void {
    for (const task of ids) this.log("acknowledged", { task });
  }

  /** Logs the acknowledgement of a task that another process may have enqueued and acknowledged. */
  acknowledgedUnique(task: number): void {
    this.log("acknowledged", { task, note: "unique" });
  }

  /** A registered worker of this process. */
  async worker(queue: Queue, name = "victim"): Promise<ManualWorker> {
    const worker = new ManualWorker(name, queue, this.log);
    await worker.register();
    return worker;
  }
}

export interface Operation {
  name: string;
  /** The number of its transactions that change something, each of them atomic. Undefined: it varies. */
  commits: number | undefined;
  /** The app opens its transaction, and need not take a lock before it writes. */
  ofTheApp?: true;
  /** Prepares the files before any process opens them. Default: a populated database. */
  prepare?(files: Files): Promise<void>;
  act(actor: Actor): Promise<void>;
  /** Judges what is there when the queue has healed, beyond what holds for all operations. @throws Error */
  healed?(files: Files): Promise<void>;
}

/** @throws Error when no operation has this name */
export function named<O extends Operation>(operations: readonly O[], name: string): O {
  const found = operations.find((each) => each.name === name);
  if (!found) throw new Error(`there is no operation "${name}"`);
  return found;
}

/** An operation on a queue that is already open. */
export function onQueue(
  name: string,
  commits: number,
  act: (queue: Queue, actor: Actor) => Promise<void>,
): Operation {
  return { name, commits, act: async (actor) => act(await actor.open(), actor) };
}

/** No database, and an empty event log. */
export async function nothing({ eventLog }: Files): Promise<void> {
  writeFileSync(eventLog, "");
}
