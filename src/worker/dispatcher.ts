/**
 * The slots of a running worker. One turn: settle what has ended, claim for the slots that this freed, start what was
 * claimed; on a server quick tasks are claimed ahead of their slots, and run while the next turn is under way.
 */
import { EventEmitter } from "node:events";
import { inRootContext } from "../base/runtime/root-context.ts";
import { after } from "../base/runtime/timers.ts";
import { definitionNamed, type TaskDefinition } from "../base/tasks/registry.ts";
import { DatabaseMovedError, OutcomeUnknownError } from "../errors.ts";
import type { Wakeups } from "../queue/wakeups.ts";
import type { Outcome, Store } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { possibleOutcome, recordUnanswered, UnknownClaims } from "./ambiguous-results.ts";
import { type AttemptHost, RunningAttempt } from "./attempt.ts";
import type { Executor } from "./executor.ts";
import { OwnershipCheck } from "./ownership.ts";
import { PendingSettlement } from "./pending-settlement.ts";
import { PrefetchBuffer, PrefetchControl, roomForCrashSensitive } from "./prefetch.ts";
import { ProgressNotes } from "./progress.ts";

/** What the dispatcher needs of its worker. */
export interface DispatcherHost {
  readonly store: Pick<
    Store,
    "settleAndClaim" | "heldBy" | "taskStates" | "progress" | "within" | "synchronous"
  >;
  readonly wakeups: Wakeups;
  readonly workerId: string;
  readonly queueNames: readonly string[];
  readonly concurrency: number;
  readonly context: unknown;
  readonly maxPayload: number;
  executorOf(definition: TaskDefinition): Executor;
  /** The names of the functions that the worker runs, as of now. */
  funcs(): readonly string[];
  /** Others have taken the worker for dead, and deleted its row. */
  onDeclaredDead(): void;
  /** It has claimed; `more`: there may be more than it had slots for. */
  onClaim(more: boolean): void;
  /** A task was put off: it may be due sooner than the next one known. */
  onScheduled(): void;
  reportStarted(record: TaskRecord): void;
  /** Without an outcome, the task was lost. */
  reportSettled(record: TaskRecord, outcome: Outcome | undefined): void;
  reportError(error: unknown, where: string): void;
}

/** Milliseconds that a turn waits for notes of progress to be written. */
const progressFlushMs = 100;

export class Dispatcher {
  readonly #host: DispatcherHost;
  readonly #attemptHost: AttemptHost;
  readonly #progress: ProgressNotes;
  /**
   * From claim to settle. Not by id: a task that was taken away and claimed again has two attempts, until the first
   * handler has settled.
   */
  readonly #held = new Set<RunningAttempt>();
  /** Of these the ones that have no slot yet. */
  readonly #prefetched = new PrefetchBuffer(() => this.#prefetch.handedBack());
  readonly #prefetch: PrefetchControl;
  readonly #unknownClaims: UnknownClaims;
  readonly ownership: OwnershipCheck;
  readonly #cycles = new EventEmitter<{ end: [] }>().setMaxListeners(0);
  #pending: PendingSettlement[] = [];
  #settling = 0;
  #claims = true;
  #mayHaveWork = true;
  #scheduled = false;
  #underWay = false;
  #again = false;
  #failures = 0;
  #interrupted = false;
  #abandoned = false;

  constructor(host: DispatcherHost) {
    this.#host = host;
    const report = (error: unknown, where: string) => host.reportError(error, where);
    this.#progress = new ProgressNotes(host.store, report);
    this.#prefetch = new PrefetchControl(host.store.synchronous);
    this.#unknownClaims = new UnknownClaims(host.store, host.workerId, this.#held);
    this.ownership = new OwnershipCheck(host.store, this.#held, report);
    this.#attemptHost = {
      store: host.store,
      context: host.context,
      maxPayload: host.maxPayload,
      executorOf: (definition) => host.executorOf(definition),
      noteProgress: (record, progress, note) => this.#progress.add(record, progress, note),
      isCompleted: (record) => this.ownership.isCompleted(record),
      report,
    };
  }

  /** How many tasks are running, or have ended and are not settled yet. */
  get inflight(): number {
    return this.#held.size - this.#prefetched.length;
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
    this.#prefetched.handBack();
  }

  /** Hands back what is running, without waiting for it. */
  interrupt(): void {
    this.#interrupted = true;
    for (const attempt of this.#held) attempt.interrupt();
  }

  /** Forgets what is running or not settled: the rows stay as they are, for whoever finds this worker gone. */
  abandon(): void {
    this.#abandoned = true;
    this.#pending = [];
    this.#prefetched.clear();
    this.#held.clear();
    this.#cycles.emit("end");
  }

  /** Resolves when nothing runs, all that ran is settled, and no turn is under way. */
  async drained(): Promise<void> {
    while (!this.#abandoned && (this.#held.size > 0 || this.#scheduled)) await this.cycleEnd();
    this.ownership.stop();
    await this.#progressWritten();
  }

  /** Resolves when the last notes are written, or at once when its tasks are given up on: nobody waits for notes about them. */
  async #progressWritten(): Promise<void> {
    if (this.#abandoned) return;
    let written = false;
    void this.#progress.flush().then(() => {
      written = true;
      this.#cycles.emit("end");
    });
    while (!this.#abandoned && !written) await this.cycleEnd();
  }

  /** Resolves at the end of a turn, or after `limit` milliseconds. */
  async cycleEnd(limit?: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = limit === undefined ? undefined : setTimeout(done, limit);
      const turns = this.#cycles.once("end", done);
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
    inRootContext(() => setImmediate(() => this.#runCycle()));
  }

  async #runCycle(): Promise<void> {
    this.#again = false;
    this.#underWay = true;
    setImmediate(() => this.#fillSlots());
    // After a failure one by one, and apart from the claim: a row that the database refuses must hold up no other.
    const careful = this.#failures > 0;
    const ended = this.#pending.splice(0, careful ? 1 : this.#pending.length);
    this.#settling = ended.length;
    try {
      // Who has finished takes no more notes. But a note can wait for a handler's transaction, and this for no note.
      if (ended.length > 0) await this.#progress.flush(progressFlushMs);
      await this.#unknownClaims.handBack();
      await this.#settleAndClaim(ended, !careful);
      if (careful) await this.#settleAndClaim([], true);
      this.#failures = 0;
    } catch (error) {
      await this.#afterFailure(error, ended);
    }
    if (this.#abandoned) return;
    this.#scheduled = false;
    this.#underWay = false;
    if (this.#pending.length > 0 || (this.#again && this.#claims)) this.#schedule();
    this.#fillSlots();
    this.#cycles.emit("end");
  }

  async #settleAndClaim(ended: readonly PendingSettlement[], mayClaim: boolean): Promise<void> {
    const { store, workerId, queueNames, concurrency } = this.#host;
    const outcomes = ended.map(({ outcome }) => outcome);
    const ahead = this.#prefetch.begin(outcomes, this.#prefetched.length);
    const limit = Math.max(0, this.#free(this.#settling) - this.#prefetched.length) + ahead;
    const claiming = mayClaim && this.#claims && this.#mayHaveWork && limit > 0;
    if (ended.length === 0 && !claiming) return;
    const crashSensitive = ahead > 0 ? roomForCrashSensitive(concurrency, this.#held, ended) : limit;
    const funcs = this.#host.funcs();
    const claim = claiming ? { workerId, queueNames, funcs, limit, crashSensitive } : undefined;
    if (claiming) this.#mayHaveWork = false;
    if (claiming) this.#unknownClaims.begin();
    const { settled, claimed, more, registered, failure } = await store.settleAndClaim({ outcomes, claim });
    // What is claimed now is freed with all that it holds.
    if (this.#abandoned) return;
    if (failure === undefined) this.#unknownClaims.answered();
    // Nothing that can fail may come between a claim and its start.
    for (const { attempt } of ended) this.#held.delete(attempt);
    this.#settling = 0;
    for (const record of claimed) this.#accept(record);
    this.#prefetch.end(claimed);
    // Else the next turn goes first.
    if (this.#pending.length === 0) this.#fillSlots();
    // Else there is nothing left to claim, until a hint or the poll says otherwise.
    if (more) this.lookForWork();
    // What was too sensitive to a crash to be claimed ahead is there for whoever has a free slot.
    else if (claiming && crashSensitive < limit) this.#mayHaveWork = true;
    if (claiming) this.#host.onClaim(more);
    if (!registered) this.#host.onDeclaredDead();
    const kinds = new Set(ended.map(({ outcome }) => outcome.kind));
    if (kinds.has("retry") || kinds.has("snoozed")) this.#host.onScheduled();
    // For the other workers of this process.
    if (kinds.has("interrupted")) this.#host.wakeups.workAdded();
    if (ended.length > 0) await this.#reportSettled(ended, settled);
    if (failure !== undefined) throw failure;
  }

  /** What was not settled is tried again: with a single one it may be the row itself, so it waits apart from the others. */
  async #afterFailure(error: unknown, offered: readonly PendingSettlement[]): Promise<void> {
    this.#settling = 0;
    // Not what was settled before a claim failed.
    const ended = offered.filter(({ attempt }) => this.#held.has(attempt));
    if (error instanceof OutcomeUnknownError) return this.#offerUnanswered(ended);
    this.#host.reportError(error, "settling and claiming");
    // What cannot be handed back in its file is left to whoever opens that.
    if (this.#interrupted && error instanceof DatabaseMovedError) return this.abandon();
    this.#failures += 1;
    this.#again = true;
    this.#mayHaveWork = true;
    const delay = Math.min(50 * 2 ** Math.min(this.#failures, 7), 5_000) * (0.5 + Math.random() / 2);
    const [lonely] = ended.length === 1 ? ended : [];
    if (lonely) after(lonely.nextDelayMs(), () => this.#offerAgain([lonely]));
    else this.#pending.push(...ended);
    await new Promise((resolve) => setTimeout(resolve, lonely ? 0 : delay));
  }

  /** The store has waited as long as it took, and the next turn finds out what became of this one. */
  #offerUnanswered(ended: readonly PendingSettlement[]): void {
    for (const { attempt, outcome } of ended) recordUnanswered(attempt, outcome);
    this.#mayHaveWork = true;
    this.#offerAgain(ended);
  }

  #offerAgain(ended: readonly PendingSettlement[]): void {
    if (this.#abandoned) return;
    this.#pending.push(...ended);
    this.#schedule();
  }

  // ---- slots ---------------------------------------------------------------------------------

  #accept(record: TaskRecord): void {
    const definition = definitionNamed(record.func);
    if (!definition) throw new TypeError(`claimed a task of "${record.func}", which is not registered`);
    const attempt = new RunningAttempt(record, definition, this.#attemptHost, this.#onEnd);
    this.#held.add(attempt);
    if (this.#claims) this.#prefetched.push(attempt);
    else attempt.interrupt();
    this.ownership.watch();
  }

  /** Starts what waits for a slot, unless a turn is about to begin: then that goes first. */
  #fillSlots(): void {
    if (this.#scheduled && !this.#underWay) return;
    while (this.#prefetched.length > 0 && this.#free(this.#pending.length + this.#settling) > 0) {
      const attempt = this.#prefetched.shift() as RunningAttempt;
      this.#host.reportStarted(attempt.record);
      attempt.run();
    }
    this.#prefetched.watch();
  }

  readonly #onEnd = (attempt: RunningAttempt, outcome: Outcome | undefined): void => {
    if (outcome) {
      this.#pending.push(new PendingSettlement(attempt, outcome));
    } else {
      this.#held.delete(attempt);
      this.#prefetched.remove(attempt);
      this.#host.reportSettled(attempt.record, undefined);
      this.#mayHaveWork = true;
    }
    this.#schedule();
    // Not in the context of the handler that has ended.
    if (this.#prefetched.length > 0) inRootContext(() => this.#fillSlots());
  };

  /** Never throws: what was settled stays so. */
  async #reportSettled(ended: readonly PendingSettlement[], settled: readonly boolean[]): Promise<void> {
    this.#host.wakeups.taskEnded(ended.map(({ outcome }) => outcome.id));
    const refused = new Set(ended.filter((_, i) => !settled[i]).map(({ attempt }) => attempt));
    const lost = await this.ownership.lostAmong([...refused]);
    for (const { attempt, outcome } of ended) {
      // Refused and not lost: it was accepted before, in the handler's own transaction or without an answer.
      const accepted = refused.has(attempt) ? possibleOutcome(attempt) : outcome;
      this.#host.reportSettled(attempt.record, lost.has(attempt) ? undefined : accepted);
    }
  }
}
