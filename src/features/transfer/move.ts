/**
 * Moves a queue to another database: every task and attempt, with its id.
 *
 *     old database   copying ─────▶ closing ─────▶ moved            frozen from `closing` on
 *     new database   preparing ─▶ filling ──────────────▶ filled    frozen until `filled`
 *
 * In `copying`, apps may still write to the old database: each round copies the rows that are new or have changed. Then the
 * old database is frozen, a last round copies the rest, and the move is done. So there are never two databases that take
 * tasks. A later run compares the rows of both databases and continues, wherever an earlier run was interrupted.
 */
import { randomUUID } from "node:crypto";
import { callable, readOptions, signal, wrong } from "../../base/options/validators.ts";
import { DatabaseError } from "../../errors.ts";
import { internalsOf, type Queue } from "../queue.ts";
import { movedTables, type TransferPhase, type TransferState, type TransferStore } from "./contract.ts";
import { Copier, MoveTakenOverError, RejectedRowsError } from "./copy.ts";
import { type NamedStore, refuseRunningWork, rescueTasksOfDeadWorkers } from "./workers.ts";

/** A round that wrote at most so many rows is followed by the last one: copying as many again takes well below a second. */
const fewRows = 1_000;
/** Rounds before the old database is frozen, however many rows apps write meanwhile. */
const mostRounds = 5;

/** Options of `moveQueue`. */
export interface MoveOptions {
  /** How messages name the databases, the error that the old one gives from then on among them. @default "the old database", "the new database" */
  names?: { from?: string; to?: string };
  /** Stops the move: the old database takes tasks again, and the next move continues. Without effect once all is copied. */
  signal?: AbortSignal;
  /** Called after each batch of rows. */
  onProgress?: (progress: MoveProgress) => void;
}

/** How far a move has come. */
export interface MoveProgress {
  /** `closing`: the old database takes no more tasks, and the last changes are copied. */
  state: "copying" | "closing";
  /** Counts from 1. A round compares all rows, and copies those that are missing or differ. */
  round: number;
  /** Rows: tasks, attempts and log lines. */
  done: number;
  /** Rows of the old database, as counted when the round began. */
  total: number;
}

/** What `moveQueue` did. */
export interface Moved {
  /** Tasks in the new database. */
  tasks: number;
  /** Attempts in the new database. */
  attempts: number;
  /** Log lines in the new database. */
  logs: number;
  /** Rows that this call wrote to the new database. */
  written: number;
  /** Rows of an earlier run that this call deleted from the new database. */
  removed: number;
  /** Whether this call continued a move that was interrupted, or found one that had completed. */
  resumed: boolean;
}

/**
 * Moves all tasks, attempts and log lines of one queue to the database of another queue, which must have no tasks. The old
 * database refuses all writes from then on. After an interruption, the same call continues the move.
 * @throws DatabaseError when a worker runs on one of the databases, when the new one has tasks of its own, or cannot store a
 *   row unchanged; `signal.reason`. The old database then takes tasks as before, unless the message says otherwise.
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

/** Each write names the run that makes it. `false`: another run has taken the move over. */
async function asOwner(write: Promise<boolean>): Promise<void> {
  if (!(await write)) throw new MoveTakenOverError();
}

class Move {
  readonly #source: NamedStore;
  readonly #target: NamedStore;
  readonly #from: TransferStore;
  readonly #to: TransferStore;
  readonly #options: MoveOptions;
  #moveId: string = randomUUID();
  #run: string = randomUUID();
  #resumed = false;
  #round = 0;
  readonly #changed = { written: 0, removed: 0 };

  constructor(source: NamedStore, target: NamedStore, options: MoveOptions) {
    [this.#source, this.#target] = [source, target];
    [this.#from, this.#to] = [source.store.transfer, target.store.transfer];
    this.#options = options;
  }

  async run(): Promise<Moved> {
    const before = await this.#from.state();
    if (!(await this.#isCopied(before))) {
      await this.#begin(before);
      await this.#copy();
      await this.#close();
    }
    return await this.#open();
  }

  readonly #throwIfAborted = (): void => this.#options.signal?.throwIfAborted();

  /** The state of this run in one of the databases. */
  #stateIn(phase: TransferPhase): TransferState {
    const [source, target] = [this.#source.name, this.#target.name];
    const isSource = phase === "copying";
    const refusal = isSource
      ? `this queue moves to ${target}: this database takes no more tasks`
      : `the tasks of ${source} are being moved to this database: run "dbq move" until it has completed`;
    const other = isSource ? target : source;
    return { moveId: this.#moveId, run: this.#run, phase, other, refusal };
  }

  // ---- begin ---------------------------------------------------------------------------------

  /** Whether an earlier run has copied everything. @throws DatabaseError when the old database cannot be moved */
  async #isCopied(state: TransferState | undefined): Promise<boolean> {
    const { name } = this.#source;
    if (state?.phase === "preparing" || state?.phase === "filling")
      throw new DatabaseError(
        `${name}: a move from ${state.other} to this database has not completed: complete that move first`,
      );
    if (state?.phase !== "moved") return false;
    const there = await this.#to.state();
    if (there?.run !== state.run || there.phase === "moved")
      throw new DatabaseError(`${name}: its tasks have already been moved to ${state.other}`);
    this.#run = there.run;
    this.#resumed = true;
    return true;
  }

  /** Takes the move over from every other run, and freezes the new database. */
  async #begin(before: TransferState | undefined): Promise<void> {
    const isInterrupted = before?.phase === "copying" || before?.phase === "closing";
    if (isInterrupted) this.#moveId = before.moveId;
    else await rescueTasksOfDeadWorkers(this.#source, this.#throwIfAborted);
    const mine = this.#stateIn("copying");
    await asOwner(this.#from.setState(mine, before));
    if (isInterrupted) {
      await asOwner(this.#from.unfreeze(this.#run));
      await rescueTasksOfDeadWorkers(this.#source, this.#throwIfAborted);
    }
    const there = await this.#to.state();
    this.#resumed = there?.moveId === this.#moveId && there.phase === "filling";
    if (there && this.#resumed) await asOwner(this.#to.setState({ ...there, run: this.#run }, there));
    else await this.#prepare(there).catch((error) => this.#undoBegin(error, before, mine));
  }

  async #undoBegin(error: unknown, before: TransferState | undefined, mine: TransferState): Promise<never> {
    await this.#from.setState(before?.phase === "closing" ? mine : before, mine);
    throw error;
  }

  /** Freezes the new database, which must be empty. */
  async #prepare(before: TransferState | undefined): Promise<void> {
    if (before?.run === this.#run)
      throw new DatabaseError(`${this.#source.name} and ${this.#target.name} are the same database`);
    await this.#refuseTasksInTarget(before);
    await rescueTasksOfDeadWorkers(this.#target, this.#throwIfAborted);
    await asOwner(this.#to.setState(this.#stateIn("preparing"), before));
    try {
      await asOwner(this.#to.freeze(this.#run));
      // A task or a worker may have come just before the freeze.
      await this.#refuseTasksInTarget(before);
      await refuseRunningWork(this.#target);
    } catch (error) {
      await this.#undoPrepare(before);
      throw error;
    }
    await asOwner(this.#to.advance(this.#run, "preparing", "filling"));
  }

  /** Restores the new database's earlier state; if it was frozen, it is frozen again with its earlier error message. */
  async #undoPrepare(before: TransferState | undefined): Promise<void> {
    if (!(await this.#to.advance(this.#run, "preparing", "preparing"))) return;
    const mine = this.#stateIn("preparing");
    const wasFrozen = before !== undefined && before.phase !== "filled" && before.phase !== "copying";
    if (!wasFrozen) {
      if (await this.#to.unfreeze(this.#run)) await this.#to.setState(before, mine);
    } else if (await this.#to.setState(before, mine)) await this.#to.freeze(before.run);
  }

  async #refuseTasksInTarget(before: TransferState | undefined): Promise<void> {
    const tasks = await this.#to.size("dbq_tasks");
    if (tasks === 0) return;
    const whose =
      before?.phase === "filling" ? `of a move from ${before.other} that has not completed` : "of its own";
    throw new DatabaseError(
      `${this.#target.name}: it has ${tasks} ${tasks === 1 ? "task" : "tasks"} ${whose}: moved tasks keep their ids, so the new database must have no tasks`,
    );
  }

  // ---- copy ----------------------------------------------------------------------------------

  async #copy(): Promise<void> {
    for (let written = fewRows + 1; written > fewRows && this.#round < mostRounds; )
      written = await this.#copyRound("copying");
  }

  /** @returns how many rows were written @throws RejectedRowsError */
  async #copyRound(state: "copying" | "closing"): Promise<number> {
    this.#round += 1;
    const copier = new Copier({
      source: this.#from,
      target: this.#to,
      run: this.#run,
      onRows: await this.#progressOf(state),
      throwIfAborted: this.#throwIfAborted,
    });
    // The first round finds the rows of an earlier run: SQL may have changed them since without a new version.
    const how = { compareContents: this.#round === 1, withUniqueKeys: state === "closing" };
    const before = this.#changed.written;
    for (const table of movedTables) {
      const { written, removed } = await copier.round(table, how);
      this.#changed.written += written;
      this.#changed.removed += removed;
    }
    if (copier.rejected.length > 0) throw new RejectedRowsError(copier.rejected);
    return this.#changed.written - before;
  }

  /** A function that adds up rows and reports them. */
  async #progressOf(state: "copying" | "closing"): Promise<(rows: number) => void> {
    let total = 0;
    for (const table of movedTables) total += await this.#from.size(table);
    const progress = { state, round: this.#round, done: 0, total };
    return (rows) => {
      progress.done += rows;
      this.#options.onProgress?.({ ...progress, total: Math.max(progress.total, progress.done) });
    };
  }

  // ---- close ---------------------------------------------------------------------------------

  /** Freezes the old database and copies the rest. When that fails, the old database takes tasks again. */
  async #close(): Promise<void> {
    await asOwner(this.#from.advance(this.#run, "copying", "closing"));
    try {
      await asOwner(this.#from.freeze(this.#run));
      await refuseRunningWork(this.#source);
      await asOwner(this.#to.removeKeyedTasks(this.#run));
      await this.#copyRound("closing");
      await this.#compareSizes();
      await this.#copyLastIds();
      this.#throwIfAborted();
      await asOwner(this.#from.advance(this.#run, "closing", "moved"));
    } catch (error) {
      await this.#reopen(error);
      throw error;
    }
  }

  /** Unfreezes the old database, unless another run has the move. @throws DatabaseError when it may still be frozen */
  async #reopen(reason: unknown): Promise<void> {
    try {
      if (await this.#from.advance(this.#run, "closing", "copying")) await this.#from.unfreeze(this.#run);
    } catch (error) {
      // The signal's own reason may say that the old database is unchanged, which is now wrong.
      const why = this.#options.signal?.aborted ? "the move was stopped" : messageOf(reason);
      throw new DatabaseError(
        `${why}; ${this.#source.name} may still refuse tasks, since it could not be unfrozen (${messageOf(error)}): move again`,
        { cause: reason },
      );
    }
  }

  /** Finds rows that no round has read: their ids are outside the range of the pages. */
  async #compareSizes(): Promise<void> {
    for (const table of movedTables) {
      const [old, now] = [await this.#from.size(table), await this.#to.size(table)];
      if (old === now) continue;
      throw new DatabaseError(
        `${table}: ${this.#source.name} has ${old} rows, ${this.#target.name} ${now}: look for ids beyond 2^53`,
      );
    }
  }

  /** No id is given twice, even if its task was deleted. */
  async #copyLastIds(): Promise<void> {
    for (const table of movedTables) await this.#to.setLastId(table, await this.#from.lastId(table));
  }

  /** Messages that drains have sent keep their ids, and are known by them. */
  async #copyOrigin(): Promise<void> {
    const origin = await this.#source.store.drains.knownOrigin();
    if (origin !== undefined) await this.#target.store.drains.adoptOrigin(origin);
  }

  /** Limits and pauses hold in the new database, too. What the states of rates were is not carried. */
  async #copyLimits(): Promise<void> {
    await this.#target.store.limits.adopt(await this.#source.store.limits.records());
  }

  /** The tokens of agents are valid after the move as before: the new database knows them, and which were revoked. */
  async #copyAgents(): Promise<void> {
    await asOwner(this.#to.writeAgents(this.#run, await this.#source.store.agents.list()));
  }

  /** The old database is frozen, so that no schedule changes or fires there any more. */
  async #copySchedules(): Promise<void> {
    const { schedules } = await this.#source.store.schedules.list();
    await asOwner(this.#to.writeSchedules(this.#run, schedules));
  }

  /** Unfreezes the new database: from here on it takes tasks and workers. */
  async #open(): Promise<Moved> {
    const tasks = await this.#to.size("dbq_tasks");
    const attempts = await this.#to.size("dbq_attempts");
    const logs = await this.#to.size("dbq_task_logs");
    if ((await this.#to.state())?.phase === "filling") {
      await this.#copyOrigin();
      await this.#copyLimits();
      await this.#copyAgents();
      await this.#copySchedules();
      await this.#to.unfreeze(this.#run);
      await this.#to.advance(this.#run, "filling", "filled");
    }
    return { tasks, attempts, logs, ...this.#changed, resumed: this.#resumed };
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
