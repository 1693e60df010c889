/**
 * Moves a queue to another database, task by task, with its ids.
 *
 *     old database   copying ─────▶ closing ─────▶ moved            it refuses who writes from `closing` on
 *     new database   preparing ─▶ filling ──────────────▶ filled    it does so until `filled`
 *
 * While `copying`, the old database may be written to: a round over all of it brings what is new and what has changed.
 * Then it is sealed, a last round brings the rest, and when all is there it is `moved`. So at no moment are there two
 * databases that take tasks, and whoever begins again, wherever it was broken off, compares what is there and goes on.
 */
import { randomUUID } from "node:crypto";
import { callable, readOptions, signal, wrong } from "../../base/options/validators.ts";
import { DatabaseError } from "../../errors.ts";
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import type { Store } from "../../store.ts";
import { movedTables, type TransferPhase, type TransferState } from "../../store.ts";
import { Copier, MoveTakenOverError, UnkeptRowsError } from "./copy.ts";
import { freeOfWorkers, refuseWork } from "./workers.ts";

/** Rows that are few enough for the old database to take nothing while they are carried. */
const few = 1_000;
/** Rounds before it is sealed, however much is written to it meanwhile. */
const mostRounds = 5;

export interface MoveOptions {
  /** What messages call the two, those among them that the old database gives from then on. @default "the old database", "the new database" */
  names?: { from?: string; to?: string };
  /** Gives up: the old database takes tasks again, and the next move goes on. Without effect once all is carried over. */
  signal?: AbortSignal;
  onProgress?: (progress: MoveProgress) => void;
}

export interface MoveProgress {
  /** `closing`: the old database takes no more tasks, the last changes follow. */
  state: "copying" | "closing";
  /** Each goes over all rows, and copies those that are missing or other. */
  round: number;
  /** Tasks and attempts. */
  done: number;
  total: number;
}

export interface Moved {
  /** What the new database now has. */
  tasks: number;
  attempts: number;
  /** Rows that were written to it, and rows of an earlier try that were removed from it, by this call. */
  written: number;
  removed: number;
  /** Whether it went on with a move that was broken off, or that had ended. */
  resumed: boolean;
}

/**
 * Carries all tasks and attempts of one queue over to the database of another, which must have none, and makes the old
 * database refuse whoever still writes to it. Called again after it was broken off, it goes on.
 * @throws DatabaseError when workers run on one of them, when the new one has tasks of its own, or does not keep a row as
 *   it is; `signal.reason`. Until all is moved, the old database then takes tasks as before, if the message says no other.
 */
export async function moveQueue(from: Queue, to: Queue, options?: MoveOptions): Promise<Moved> {
  const read = readOptions<MoveOptions>(options, "moveQueue", {
    names: (given, name) => readOptions(given, name, { from: text, to: text }),
    signal,
    onProgress: callable,
  });
  const { from: oldName = "the old database", to: newName = "the new database" } = read.names ?? {};
  const source = { name: oldName, store: internalsOf(from).store };
  const target = { name: newName, store: internalsOf(to).store };
  return await new Move(source, target, read).run();
}

function text(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  throw wrong(name, "a string", value);
}

interface Side {
  name: string;
  store: Store;
}

class Move {
  readonly #source: Side;
  readonly #target: Side;
  readonly #options: MoveOptions;
  #moveId: string = randomUUID();
  #run: string = randomUUID();
  #resumed = false;
  #round = 0;
  readonly #changed = { written: 0, removed: 0 };

  constructor(source: Side, target: Side, options: MoveOptions) {
    this.#source = source;
    this.#target = target;
    this.#options = options;
  }

  async run(): Promise<Moved> {
    const old = await this.#source.store.transfer.state();
    if (!(await this.#hasMoved(old))) {
      await this.#begin(old);
      await this.#copy();
      await this.#close();
    }
    return await this.#open();
  }

  // ---- begin ---------------------------------------------------------------------------------

  /** Whether all is carried over already. @throws DatabaseError when the old database cannot be moved */
  async #hasMoved(old: TransferState | undefined): Promise<boolean> {
    const { name } = this.#source;
    if (old?.phase === "preparing" || old?.phase === "filling")
      throw new DatabaseError(`${name}: a move from ${old.other} to here has not ended: end that one first`);
    if (old?.phase !== "moved") return false;
    const now = await this.#target.store.transfer.state();
    if (now?.run !== old.run || now.phase === "moved")
      throw new DatabaseError(`${name}: its tasks have been moved to ${old.other} before`);
    this.#run = now.run;
    this.#resumed = true;
    return true;
  }

  /** From here on nobody else goes on with this move, and nobody but it writes to the new database. */
  async #begin(old: TransferState | undefined): Promise<void> {
    const { transfer } = this.#source.store;
    const wasBegun = old?.phase === "copying" || old?.phase === "closing";
    if (old && wasBegun) this.#moveId = old.moveId;
    else await freeOfWorkers(this.#source, this.#check);
    const mine = this.#mark("copying");
    if (!(await transfer.setState(mine, old))) throw new MoveTakenOverError();
    if (wasBegun) {
      if (!(await transfer.unfreeze(this.#run))) throw new MoveTakenOverError();
      await freeOfWorkers(this.#source, this.#check);
    }
    const now = await this.#target.store.transfer.state();
    this.#resumed = now?.moveId === this.#moveId && now.phase === "filling";
    if (now && this.#resumed) await this.#goOn(now);
    else await this.#prepare(now).catch((error) => this.#giveUp(error, old, mine));
  }

  async #goOn(now: TransferState): Promise<void> {
    if (!(await this.#target.store.transfer.setState({ ...now, run: this.#run }, now)))
      throw new MoveTakenOverError();
  }

  async #giveUp(error: unknown, old: TransferState | undefined, mine: TransferState): Promise<never> {
    await this.#source.store.transfer.setState(old?.phase === "closing" ? mine : old, mine);
    throw error;
  }

  /** Seals the new database, which has to be empty. */
  async #prepare(now: TransferState | undefined): Promise<void> {
    const { transfer } = this.#target.store;
    if (now?.run === this.#run)
      throw new DatabaseError(`${this.#source.name} and ${this.#target.name} are the same database`);
    await this.#refuseTasks(now);
    await freeOfWorkers(this.#target, this.#check);
    if (!(await transfer.setState(this.#mark("preparing"), now))) throw new MoveTakenOverError();
    try {
      if (!(await transfer.freeze(this.#run))) throw new MoveTakenOverError();
      // What came before it was sealed.
      await this.#refuseTasks(now);
      await refuseWork(this.#target);
    } catch (error) {
      await this.#restore(now);
      throw error;
    }
    if (!(await transfer.advance(this.#run, "preparing", "filling"))) throw new MoveTakenOverError();
  }

  /** The new database is as it was. */
  async #restore(before: TransferState | undefined): Promise<void> {
    const { transfer } = this.#target.store;
    if (!(await transfer.advance(this.#run, "preparing", "preparing"))) return;
    const mine = this.#mark("preparing");
    if (before && before.phase !== "filled" && before.phase !== "copying") {
      // It was sealed, and is again, with what it said then.
      if (await transfer.setState(before, mine)) await transfer.freeze(before.run);
    } else if (await transfer.unfreeze(this.#run)) await transfer.setState(before, mine);
  }

  async #refuseTasks(before: TransferState | undefined): Promise<void> {
    const { name, store } = this.#target;
    const tasks = await store.transfer.size("dbq_tasks");
    if (tasks === 0) return;
    const theirs =
      before?.phase === "filling" ? `of a move from ${before.other} that has not ended` : "of its own";
    throw new DatabaseError(
      `${name}: it has ${tasks} tasks ${theirs}: tasks keep their ids, so move them to a database that has none`,
    );
  }

  #mark(state: TransferPhase): TransferState {
    const { name } = this.#source;
    const isSource = state === "copying";
    const refusal = isSource
      ? `this queue moves to ${this.#target.name}: nothing is written here any more`
      : `the tasks of ${name} are being moved to here: run "dbq move" to its end`;
    return {
      moveId: this.#moveId,
      run: this.#run,
      phase: state,
      other: isSource ? this.#target.name : name,
      refusal,
    };
  }

  readonly #check = (): void => this.#options.signal?.throwIfAborted();

  // ---- copy ----------------------------------------------------------------------------------

  async #copy(): Promise<void> {
    for (let written = few + 1; written > few && this.#round < mostRounds; )
      written = await this.#copyOnce("copying");
  }

  /** @returns how many rows were written @throws UnkeptRowsError */
  async #copyOnce(state: "copying" | "closing"): Promise<number> {
    const [source, target] = [this.#source.store.transfer, this.#target.store.transfer];
    this.#round += 1;
    const [tasks, attempts] = [await source.size("dbq_tasks"), await source.size("dbq_attempts")];
    const progress = { state, round: this.#round, done: 0, total: tasks + attempts };
    const onRows = (rows: number) => {
      progress.done += rows;
      this.#options.onProgress?.({ ...progress, total: Math.max(progress.total, progress.done) });
    };
    const copier = new Copier({ source, target, run: this.#run, onRows, check: this.#check });
    // What a try before this one has left is compared as a whole: meanwhile anybody may have changed anything.
    const how = { whole: this.#round === 1, keyed: state === "closing" };
    const before = this.#changed.written;
    for (const table of movedTables) {
      const { written, removed } = await copier.round(table, how);
      this.#changed.written += written;
      this.#changed.removed += removed;
    }
    if (copier.unkept.length > 0) throw new UnkeptRowsError(copier.unkept);
    return this.#changed.written - before;
  }

  // ---- close ---------------------------------------------------------------------------------

  /** From here on the old database takes nothing; when something fails, it does again, unless it has been `moved` by then. */
  async #close(): Promise<void> {
    const { transfer } = this.#source.store;
    if (!(await transfer.advance(this.#run, "copying", "closing"))) throw new MoveTakenOverError();
    try {
      if (!(await transfer.freeze(this.#run))) throw new MoveTakenOverError();
      await refuseWork(this.#source);
      if (!(await this.#target.store.transfer.removeKeyedTasks(this.#run))) throw new MoveTakenOverError();
      await this.#copyOnce("closing");
      await this.#compareSizes();
      await this.#carryIds();
      this.#check();
      if (!(await transfer.advance(this.#run, "closing", "moved"))) throw new MoveTakenOverError();
    } catch (error) {
      await this.#reopen(error);
      throw error;
    }
  }

  /** The old database takes tasks again, unless the move is another process's by now. @throws DatabaseError: it may not */
  async #reopen(reason: unknown): Promise<void> {
    const { name, store } = this.#source;
    try {
      if (await store.transfer.advance(this.#run, "closing", "copying"))
        await store.transfer.unfreeze(this.#run);
    } catch (error) {
      // What the signal says may be that all is as it was.
      const why = this.#options.signal?.aborted ? "the move was stopped" : messageOf(reason);
      throw new DatabaseError(
        `${why}; and ${name} may still refuse tasks, as it could not be opened again (${messageOf(error)}): move again`,
        { cause: reason },
      );
    }
  }

  /** What no round has seen is not left behind. */
  async #compareSizes(): Promise<void> {
    const [from, to] = [this.#source, this.#target];
    for (const table of movedTables) {
      const [old, now] = [await from.store.transfer.size(table), await to.store.transfer.size(table)];
      if (old === now) continue;
      throw new DatabaseError(`${table}: ${from.name} has ${old} rows, ${to.name} ${now}: look for odd ids`);
    }
  }

  /** An id that was given once, if only to a task that is gone, is not given again. */
  async #carryIds(): Promise<void> {
    const [source, target] = [this.#source.store.transfer, this.#target.store.transfer];
    for (const table of movedTables) await target.setLastId(table, await source.lastId(table));
  }

  /** The new database takes tasks and workers. */
  async #open(): Promise<Moved> {
    const { transfer } = this.#target.store;
    const [tasks, attempts] = [await transfer.size("dbq_tasks"), await transfer.size("dbq_attempts")];
    if ((await transfer.state())?.phase === "filling") {
      await transfer.unfreeze(this.#run);
      await transfer.advance(this.#run, "filling", "filled");
    }
    return { tasks, attempts, ...this.#changed, resumed: this.#resumed };
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
