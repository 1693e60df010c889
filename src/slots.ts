/**
 * The slots of a running worker. One turn: settle what has ended, claim for the slots that this freed, start what was
 * claimed. A turn is asked for by a hint, by a handler that ended, or by the poll; what is asked for meanwhile is one more.
 */
import { EventEmitter } from "node:events";
import { type AttemptHost, RunningAttempt } from "./attempt.ts";
import { after } from "./durations.ts";
import { DatabaseMovedError, OutcomeUnknownError } from "./errors.ts";
import type { Hints } from "./hints.ts";
import { doneByItself, handBackUnknown, isLost, noteUnanswered, reasonOf } from "./lost.ts";
import { ProgressNotes } from "./progress.ts";
import { definitionNamed } from "./registry.ts";
import { inRootContext } from "./root-context.ts";
import type { Outcome, Standing, Store } from "./store.ts";
import type { TaskRecord } from "./task.ts";

/** Milliseconds before an outcome that the database refused by itself is offered again. */
const lonelyRetry = 1_000;

/** Milliseconds between looks at whether the running tasks are still its own: a cancel is heard of within this. */
const standingsEvery = 400;

/** What slots need of their worker. */
export interface SlotsHost {
  readonly store: Pick<Store, "turn" | "heldBy" | "standings" | "progress" | "within">;
  readonly hints: Hints;
  readonly workerId: string;
  readonly queueNames: readonly string[];
  readonly concurrency: number;
  readonly context: unknown;
  readonly maxPayload: number;
  /** The names of the functions that the worker runs, as of now. */
  funcs(): readonly string[];
  /** Others have taken the worker for dead, and deleted its row. */
  onDeclaredDead(): void;
  /** It has claimed; `more`: there may be more than it had slots for. */
  onClaim(more: boolean): void;
  /** A task was put off: it may be due sooner than the next one known. */
  onScheduled(): void;
  tellStarted(record: TaskRecord): void;
  /** Without an outcome, the task was lost. */
  tellSettled(record: TaskRecord, outcome: Outcome | undefined): void;
  tellError(error: unknown, where: string): void;
}

interface Ended {
  attempt: RunningAttempt;
  outcome: Outcome;
}

export class Slots {
  readonly #host: SlotsHost;
  readonly #attemptHost: AttemptHost;
  readonly #progress: ProgressNotes;
  /** Not by id: a task that was taken away and claimed again has two attempts, until the first handler has settled. */
  readonly #running = new Set<RunningAttempt>();
  readonly #turns = new EventEmitter<{ end: [] }>().setMaxListeners(0);
  #ended: Ended[] = [];
  #claims = true;
  #mayHaveWork = true;
  #scheduled = false;
  #again = false;
  #failures = 0;
  /** A claim has no answer: it may have been made all the same. */
  #claimFailed = false;
  #interrupted = false;
  #abandoned = false;
  /** Only while something runs. */
  #standingsTimer: NodeJS.Timeout | undefined;

  constructor(host: SlotsHost) {
    this.#host = host;
    this.#progress = new ProgressNotes(host.store, (error, where) => host.tellError(error, where));
    this.#attemptHost = {
      store: host.store,
      context: host.context,
      maxPayload: host.maxPayload,
      noteProgress: (record, progress, note) => this.#progress.add(record, progress, note),
      isCompleted: (record) => this.#isCompleted(record),
      report: (error, where) => host.tellError(error, where),
    };
  }

  /** How many tasks are running, or have ended and are not settled yet. */
  get inflight(): number {
    return this.#running.size;
  }

  /** There may be something to claim. */
  lookForWork(): void {
    this.#mayHaveWork = true;
    if (this.#claims) this.#schedule();
  }

  /** No claim is begun after this; what one under way brings is handed back. */
  stopClaiming(): void {
    this.#claims = false;
  }

  /** Hands back what is running, without waiting for it. */
  interrupt(): void {
    this.#interrupted = true;
    for (const attempt of this.#running) attempt.interrupt();
  }

  /** Forgets what is running or not settled: the rows stay as they are, for whoever finds this worker gone. */
  abandon(): void {
    this.#abandoned = true;
    this.#ended = [];
    this.#running.clear();
    this.#turns.emit("end");
  }

  /** Resolves when nothing runs, all that ran is settled, and no turn is under way. */
  async drained(): Promise<void> {
    while (!this.#abandoned && (this.#running.size > 0 || this.#scheduled)) await this.turnEnd();
    clearTimeout(this.#standingsTimer);
    // Who has given up on its tasks waits for no note about them.
    if (!this.#abandoned) await this.#progress.flush();
  }

  /** Resolves at the end of a turn, or after `limit` milliseconds. */
  async turnEnd(limit?: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = limit === undefined ? undefined : setTimeout(done, limit);
      const turns = this.#turns.once("end", done);
      function done(): void {
        clearTimeout(timer);
        turns.off("end", done);
        resolve();
      }
    });
  }

  // ---- turns ---------------------------------------------------------------------------------

  /** A turn in the next phase of the event loop: what ends in this tick is settled in one transaction. */
  #schedule(): void {
    this.#again = true;
    if (this.#scheduled) return;
    this.#scheduled = true;
    inRootContext(() => setImmediate(() => this.#takeTurn()));
  }

  async #takeTurn(): Promise<void> {
    this.#again = false;
    // After a failure one by one, and apart from the claim: a row that the database refuses must hold up no other.
    const careful = this.#failures > 0;
    const ended = this.#ended.splice(0, careful ? 1 : this.#ended.length);
    try {
      // A task that has finished takes no more notes: its last one goes first.
      if (ended.length > 0) await this.#progress.flush();
      if (this.#claimFailed) await handBackUnknown(this.#host.store, this.#host.workerId, this.#running);
      this.#claimFailed = false;
      if (careful) await this.#turn([], true);
      await this.#turn(ended, !careful);
      this.#failures = 0;
    } catch (error) {
      await this.#afterFailure(error, ended);
    }
    if (this.#abandoned) return;
    this.#scheduled = false;
    if (this.#ended.length > 0 || (this.#again && this.#claims)) this.#schedule();
    this.#turns.emit("end");
  }

  async #turn(ended: readonly Ended[], mayClaim: boolean): Promise<void> {
    const { store, workerId, queueNames, concurrency } = this.#host;
    const free = concurrency - this.#running.size + ended.length;
    const claiming = mayClaim && this.#claims && this.#mayHaveWork && free > 0;
    if (ended.length === 0 && !claiming) return;
    const claim = claiming ? { workerId, queueNames, funcs: this.#host.funcs(), limit: free } : undefined;
    if (claiming) this.#mayHaveWork = false;
    const outcomes = ended.map(({ outcome }) => outcome);
    this.#claimFailed = claiming;
    const { settled, claimed, more, registered } = await store.turn({ outcomes, claim });
    this.#claimFailed = false;
    // Nothing that can fail may come between a claim and its start.
    for (const { attempt } of ended) this.#running.delete(attempt);
    for (const record of claimed) this.#start(record);
    // Else there is nothing left to claim, until a hint or the poll says otherwise.
    if (more) this.lookForWork();
    if (claiming) this.#host.onClaim(more);
    if (!registered) this.#host.onDeclaredDead();
    const kinds = new Set(ended.map(({ outcome }) => outcome.kind));
    if (kinds.has("retry") || kinds.has("snoozed")) this.#host.onScheduled();
    // For the other workers of this process.
    if (kinds.has("interrupted")) this.#host.hints.work();
    if (ended.length > 0) await this.#tellEnded(ended, settled);
  }

  /** What was not settled is tried again: with a single one it may be the row itself, so it waits apart from the others. */
  async #afterFailure(error: unknown, ended: readonly Ended[]): Promise<void> {
    if (error instanceof OutcomeUnknownError) return this.#offerUnanswered(ended);
    this.#host.tellError(error, "settling and claiming");
    // What cannot be handed back in its file is left to whoever opens that.
    if (this.#interrupted && error instanceof DatabaseMovedError) return this.abandon();
    this.#failures += 1;
    this.#again = true;
    this.#mayHaveWork = true;
    const delay = Math.min(50 * 2 ** Math.min(this.#failures, 7), 5_000) * (0.5 + Math.random() / 2);
    if (ended.length === 1) after(lonelyRetry, () => this.#offerAgain(ended));
    else this.#ended.push(...ended);
    await new Promise((resolve) => setTimeout(resolve, ended.length === 1 ? 0 : delay));
  }

  /** The store has waited as long as it took, and the next turn finds out what became of this one. */
  #offerUnanswered(ended: readonly Ended[]): void {
    for (const { attempt, outcome } of ended) noteUnanswered(attempt, outcome);
    this.#mayHaveWork = true;
    this.#offerAgain(ended);
  }

  #offerAgain(ended: readonly Ended[]): void {
    if (this.#abandoned) return;
    this.#ended.push(...ended);
    this.#schedule();
  }

  #start(record: TaskRecord): void {
    const definition = definitionNamed(record.func);
    if (!definition) throw new TypeError(`claimed a task of "${record.func}", which is not registered`);
    const attempt = new RunningAttempt(record, definition, this.#attemptHost, this.#onEnd);
    this.#running.add(attempt);
    if (this.#claims) this.#host.tellStarted(record);
    else attempt.interrupt();
    attempt.run();
    this.#standingsTimer ??= this.#checkLater();
  }

  readonly #onEnd = (attempt: RunningAttempt, outcome: Outcome | undefined): void => {
    if (outcome) {
      this.#ended.push({ attempt, outcome });
    } else {
      this.#running.delete(attempt);
      this.#host.tellSettled(attempt.record, undefined);
      this.#mayHaveWork = true;
    }
    this.#schedule();
  };

  /** Never throws: what was settled stays so. */
  async #tellEnded(ended: readonly Ended[], settled: readonly boolean[]): Promise<void> {
    this.#host.hints.ended(ended.map(({ outcome }) => outcome.id));
    const refused = new Set(ended.filter((_, i) => !settled[i]).map(({ attempt }) => attempt));
    const lost = await this.#lostAmong([...refused]);
    for (const { attempt, outcome } of ended) {
      // Refused and not lost: it was accepted before, in the handler's own transaction or without an answer.
      const accepted = refused.has(attempt) ? doneByItself(attempt) : outcome;
      this.#host.tellSettled(attempt.record, lost.has(attempt) ? undefined : accepted);
    }
  }

  async #isCompleted({ id, generationId }: TaskRecord): Promise<boolean> {
    try {
      const [standing] = await this.#host.store.standings([id]);
      return standing?.status === "completed" && standing.generationId === generationId + 1;
    } catch (error) {
      this.#host.tellError(error, "looking after a task that its handler completed");
      return false;
    }
  }

  // ---- still its own? ------------------------------------------------------------------------

  /**
   * Tasks may have been cancelled, or the worker taken for dead: then their handlers hear of it by their signals.
   * Of these tasks, or of all that run.
   */
  async checkStandings(ids?: readonly number[]): Promise<void> {
    const attempts = [...this.#running].filter(({ record }) => ids?.includes(record.id) ?? true);
    const lost = await this.#lostAmong(attempts);
    for (const [attempt, standing] of lost) attempt.lose(reasonOf(attempt.record, standing));
  }

  #checkLater(): NodeJS.Timeout {
    const check = async () => {
      await this.checkStandings();
      this.#standingsTimer = this.#running.size > 0 ? this.#checkLater() : undefined;
    };
    return inRootContext(() => setTimeout(check, standingsEvery).unref());
  }

  /** Empty, after telling of it, when the database fails: the next look will tell. */
  async #lostAmong(attempts: readonly RunningAttempt[]): Promise<Map<RunningAttempt, Standing | undefined>> {
    const lost = new Map<RunningAttempt, Standing | undefined>();
    if (attempts.length === 0) return lost;
    try {
      const found = await this.#host.store.standings(attempts.map(({ record }) => record.id));
      const standings = new Map(found.map((standing) => [standing.id, standing]));
      for (const attempt of attempts) {
        const standing = standings.get(attempt.record.id);
        if (isLost(attempt, standing)) lost.set(attempt, standing);
      }
    } catch (error) {
      this.#host.tellError(error, "looking after running tasks");
    }
    return lost;
  }
}
