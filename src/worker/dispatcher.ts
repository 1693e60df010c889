/**
 * The slots of a running worker. One turn: settle what has ended, claim for the slots that this freed, start what was
 * claimed; on a server quick tasks are claimed ahead of their slots, and run while the next turn is under way.
 */
import { EventEmitter } from "node:events";
import { after } from "../base/options/durations.ts";
import { inRootContext } from "../base/runtime/root-context.ts";
import { definitionNamed } from "../base/tasks/registry.ts";
import { DatabaseMovedError, OutcomeUnknownError } from "../errors.ts";
import type { Outcome } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { doneByItself, noteUnanswered, UnknownClaims } from "./ambiguous-results.ts";
import { type AttemptHost, RunningAttempt } from "./attempt.ts";
import type { SlotsHost } from "./dispatcher-host.ts";
import { Standings } from "./ownership.ts";
import { Ended } from "./pending-settlement.ts";
import { Pace, roomForFragile } from "./prefetch.ts";
import { Waiting } from "./prefetch-buffer.ts";
import { ProgressNotes } from "./progress.ts";

/** Milliseconds that a turn waits for notes of progress to be written. */
const notesTake = 100;

export class Slots {
  readonly #host: SlotsHost;
  readonly #attemptHost: AttemptHost;
  readonly #progress: ProgressNotes;
  /**
   * From claim to settle. Not by id: a task that was taken away and claimed again has two attempts, until the first
   * handler has settled.
   */
  readonly #held = new Set<RunningAttempt>();
  /** Of these the ones that have no slot yet. */
  readonly #waiting = new Waiting(() => this.#pace.handedBack());
  readonly #pace: Pace;
  readonly #unknown: UnknownClaims;
  readonly standings: Standings;
  readonly #turns = new EventEmitter<{ end: [] }>().setMaxListeners(0);
  #ended: Ended[] = [];
  #settling = 0;
  #claims = true;
  #mayHaveWork = true;
  #scheduled = false;
  #underWay = false;
  #again = false;
  #failures = 0;
  #interrupted = false;
  #abandoned = false;

  constructor(host: SlotsHost) {
    this.#host = host;
    const report = (error: unknown, where: string) => host.tellError(error, where);
    this.#progress = new ProgressNotes(host.store, report);
    this.#pace = new Pace(host.store.synchronous);
    this.#unknown = new UnknownClaims(host.store, host.workerId, this.#held);
    this.standings = new Standings(host.store, this.#held, report);
    this.#attemptHost = {
      store: host.store,
      context: host.context,
      maxPayload: host.maxPayload,
      noteProgress: (record, progress, note) => this.#progress.add(record, progress, note),
      isCompleted: (record) => this.standings.isCompleted(record),
      report,
    };
  }

  /** How many tasks are running, or have ended and are not settled yet. */
  get inflight(): number {
    return this.#held.size - this.#waiting.length;
  }

  /** What has ended holds no slot, unless its outcome cannot be written. */
  #free(ended: number): number {
    return this.#host.concurrency - this.inflight + (this.#failures > 0 ? 0 : ended);
  }

  /** There may be something to claim. */
  lookForWork(): void {
    this.#mayHaveWork = true;
    if (this.#claims) this.#schedule();
  }

  /** No claim is begun after this; what one under way brings is handed back. */
  stopClaiming(): void {
    this.#claims = false;
    this.#waiting.handBack();
  }

  /** Hands back what is running, without waiting for it. */
  interrupt(): void {
    this.#interrupted = true;
    for (const attempt of this.#held) attempt.interrupt();
  }

  /** Forgets what is running or not settled: the rows stay as they are, for whoever finds this worker gone. */
  abandon(): void {
    this.#abandoned = true;
    this.#ended = [];
    this.#waiting.clear();
    this.#held.clear();
    this.#turns.emit("end");
  }

  /** Resolves when nothing runs, all that ran is settled, and no turn is under way. */
  async drained(): Promise<void> {
    while (!this.#abandoned && (this.#held.size > 0 || this.#scheduled)) await this.turnEnd();
    this.standings.stop();
    await this.#noted();
  }

  /** Resolves when the last notes are written, or at once when its tasks are given up on: nobody waits for notes about them. */
  async #noted(): Promise<void> {
    if (this.#abandoned) return;
    let written = false;
    void this.#progress.flush().then(() => {
      written = true;
      this.#turns.emit("end");
    });
    while (!this.#abandoned && !written) await this.turnEnd();
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

  /**
   * A turn in the next phase of the event loop: what ends in this tick is settled in one transaction. What waits for a
   * slot is started when the turn is under way, so that the database and the handlers work at the same time.
   */
  #schedule(): void {
    this.#again = true;
    if (this.#scheduled) return;
    this.#scheduled = true;
    inRootContext(() => setImmediate(() => this.#takeTurn()));
  }

  async #takeTurn(): Promise<void> {
    this.#again = false;
    this.#underWay = true;
    setImmediate(() => this.#fill());
    // After a failure one by one, and apart from the claim: a row that the database refuses must hold up no other.
    const careful = this.#failures > 0;
    const ended = this.#ended.splice(0, careful ? 1 : this.#ended.length);
    this.#settling = ended.length;
    try {
      // Who has finished takes no more notes. But a note can wait for a handler's transaction, and this for no note.
      if (ended.length > 0) await this.#progress.flush(notesTake);
      await this.#unknown.handBack();
      await this.#turn(ended, !careful);
      if (careful) await this.#turn([], true);
      this.#failures = 0;
    } catch (error) {
      await this.#afterFailure(error, ended);
    }
    if (this.#abandoned) return;
    this.#scheduled = false;
    this.#underWay = false;
    if (this.#ended.length > 0 || (this.#again && this.#claims)) this.#schedule();
    this.#fill();
    this.#turns.emit("end");
  }

  async #turn(ended: readonly Ended[], mayClaim: boolean): Promise<void> {
    const { store, workerId, queueNames, concurrency } = this.#host;
    const outcomes = ended.map(({ outcome }) => outcome);
    const ahead = this.#pace.begin(outcomes, this.#waiting.length);
    const limit = Math.max(0, this.#free(this.#settling) - this.#waiting.length) + ahead;
    const claiming = mayClaim && this.#claims && this.#mayHaveWork && limit > 0;
    if (ended.length === 0 && !claiming) return;
    const fragile = ahead > 0 ? roomForFragile(concurrency, this.#held, ended) : limit;
    const funcs = this.#host.funcs();
    const claim = claiming ? { workerId, queueNames, funcs, limit, fragile } : undefined;
    if (claiming) this.#mayHaveWork = false;
    if (claiming) this.#unknown.begin();
    const { settled, claimed, more, registered, failure } = await store.turn({ outcomes, claim });
    // What is claimed now is freed with all that it holds.
    if (this.#abandoned) return;
    if (failure === undefined) this.#unknown.answered();
    // Nothing that can fail may come between a claim and its start.
    for (const { attempt } of ended) this.#held.delete(attempt);
    this.#settling = 0;
    for (const record of claimed) this.#take(record);
    this.#pace.end(claimed);
    // Else the next turn goes first.
    if (this.#ended.length === 0) this.#fill();
    // Else there is nothing left to claim, until a hint or the poll says otherwise.
    if (more) this.lookForWork();
    // What was too fragile to be claimed ahead is there for whoever has a free slot.
    else if (claiming && fragile < limit) this.#mayHaveWork = true;
    if (claiming) this.#host.onClaim(more);
    if (!registered) this.#host.onDeclaredDead();
    const kinds = new Set(ended.map(({ outcome }) => outcome.kind));
    if (kinds.has("retry") || kinds.has("snoozed")) this.#host.onScheduled();
    // For the other workers of this process.
    if (kinds.has("interrupted")) this.#host.hints.work();
    if (ended.length > 0) await this.#tellEnded(ended, settled);
    if (failure !== undefined) throw failure;
  }

  /** What was not settled is tried again: with a single one it may be the row itself, so it waits apart from the others. */
  async #afterFailure(error: unknown, offered: readonly Ended[]): Promise<void> {
    this.#settling = 0;
    // Not what was settled before a claim failed.
    const ended = offered.filter(({ attempt }) => this.#held.has(attempt));
    if (error instanceof OutcomeUnknownError) return this.#offerUnanswered(ended);
    this.#host.tellError(error, "settling and claiming");
    // What cannot be handed back in its file is left to whoever opens that.
    if (this.#interrupted && error instanceof DatabaseMovedError) return this.abandon();
    this.#failures += 1;
    this.#again = true;
    this.#mayHaveWork = true;
    const delay = Math.min(50 * 2 ** Math.min(this.#failures, 7), 5_000) * (0.5 + Math.random() / 2);
    const [lonely] = ended.length === 1 ? ended : [];
    if (lonely) after(lonely.refused(), () => this.#offerAgain([lonely]));
    else this.#ended.push(...ended);
    await new Promise((resolve) => setTimeout(resolve, lonely ? 0 : delay));
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

  // ---- slots ---------------------------------------------------------------------------------

  #take(record: TaskRecord): void {
    const definition = definitionNamed(record.func);
    if (!definition) throw new TypeError(`claimed a task of "${record.func}", which is not registered`);
    const attempt = new RunningAttempt(record, definition, this.#attemptHost, this.#onEnd);
    this.#held.add(attempt);
    if (this.#claims) this.#waiting.push(attempt);
    else attempt.interrupt();
    this.standings.watch();
  }

  /** Starts what waits for a slot, unless a turn is about to begin: then that goes first. */
  #fill(): void {
    if (this.#scheduled && !this.#underWay) return;
    while (this.#waiting.length > 0 && this.#free(this.#ended.length + this.#settling) > 0) {
      const attempt = this.#waiting.shift() as RunningAttempt;
      this.#host.tellStarted(attempt.record);
      attempt.run();
    }
    this.#waiting.watch();
  }

  readonly #onEnd = (attempt: RunningAttempt, outcome: Outcome | undefined): void => {
    if (outcome) {
      this.#ended.push(new Ended(attempt, outcome));
    } else {
      this.#held.delete(attempt);
      this.#waiting.remove(attempt);
      this.#host.tellSettled(attempt.record, undefined);
      this.#mayHaveWork = true;
    }
    this.#schedule();
    // Not in the context of the handler that has ended.
    if (this.#waiting.length > 0) inRootContext(() => this.#fill());
  };

  /** Never throws: what was settled stays so. */
  async #tellEnded(ended: readonly Ended[], settled: readonly boolean[]): Promise<void> {
    this.#host.hints.ended(ended.map(({ outcome }) => outcome.id));
    const refused = new Set(ended.filter((_, i) => !settled[i]).map(({ attempt }) => attempt));
    const lost = await this.standings.lostAmong([...refused]);
    for (const { attempt, outcome } of ended) {
      // Refused and not lost: it was accepted before, in the handler's own transaction or without an answer.
      const accepted = refused.has(attempt) ? doneByItself(attempt) : outcome;
      this.#host.tellSettled(attempt.record, lost.has(attempt) ? undefined : accepted);
    }
  }
}
