/** One thing that a process does with a database, to be killed before and after each of its statements. */
import { writeFileSync } from "node:fs";
import { openQueue, type Queue } from "../../../src/index.ts";
import type { Entry } from "../../fixtures/ledger.ts";
import { ByHand } from "./by-hand.ts";

/** The files that a process finds: a database and its ledger. */
export interface Files {
  database: string;
  ledger: string;
}

/** Adds a line to the ledger. */
export type Say = (what: string, more?: Partial<Entry>) => void;

/** What whoever does it is given. */
interface Role extends Files {
  /** Called when what has to be there is there: points are counted from here on. */
  arm: () => void;
  say: Say;
}

/** Whoever does it. */
export class Actor implements Role {
  readonly database: string;
  readonly ledger: string;
  readonly arm: () => void;
  readonly say: Say;

  constructor({ database, ledger, arm, say }: Role) {
    this.database = database;
    this.ledger = ledger;
    this.arm = arm;
    this.say = say;
  }

  async open(): Promise<Queue> {
    return await openQueue(this.database);
  }

  acknowledged(...ids: readonly number[]): void {
    for (const task of ids) this.say("acknowledged", { task });
  }

  /** Of a task that somebody else may have enqueued, and been told of. */
  acknowledgedUnique(task: number): void {
    this.say("acknowledged", { task, note: "unique" });
  }

  /** A worker of this process, registered. */
  async worker(queue: Queue, name = "victim"): Promise<ByHand> {
    const worker = new ByHand(name, queue, this.say);
    await worker.register();
    return worker;
  }
}

export interface Operation {
  name: string;
  /** How many of its transactions change something: each is whole or not at all. Undefined: it varies. */
  commits: number | undefined;
  /** Its transaction is the app's, which may take no lock before it writes. */
  ofTheApp?: true;
  /** Makes what it begins with, in files that nobody has open then. Default: a database with something of everything. */
  prepare?(files: Files): Promise<void>;
  act(actor: Actor): Promise<void>;
}

/** @throws when none has this name */
export function named<O extends Operation>(operations: readonly O[], name: string): O {
  const found = operations.find((each) => each.name === name);
  if (!found) throw new Error(`there is no operation "${name}"`);
  return found;
}

/** An operation on a queue that is open already. */
export function onQueue(
  name: string,
  commits: number,
  act: (queue: Queue, actor: Actor) => Promise<void>,
): Operation {
  return { name, commits, act: async (actor) => act(await actor.open(), actor) };
}

/** No database at all, and nothing told. */
export async function nothing({ ledger }: Files): Promise<void> {
  writeFileSync(ledger, "");
}
