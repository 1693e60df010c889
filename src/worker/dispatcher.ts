/**
 * Keeps the slots of a running worker filled. One cycle settles the attempts that have ended, claims tasks for the free
 * slots, and starts them. On a server it claims quick tasks ahead of their slots, to run them during the next cycle.
 * Where many tasks end during a cycle there, the next one begins beside it, so that the server and this process both work.
 */

import { Bag } from "../base/runtime/bag.ts";
import { inRootContext } from "../base/runtime/root-context.ts";
import { after, performance, setImmediate, type Timer } from "../base/runtime/timers.ts";
import { definitionNamed, remoteDefinition } from "../base/tasks/registry.ts";
import { isEnding } from "../base/values/ending.ts";
import { DatabaseMovedError, OutcomeUnknownError } from "../errors.ts";
import { isHeldUp, type Outcome, type SettleAndClaimResult } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { UnknownClaims } from "./ambiguous-results.ts";
import { RunningAttempt } from "./attempt.ts";
import type { AttemptHost } from "./attempt-host.ts";
import type { Heard } from "./claim-policy.ts";
import { CycleFailures } from "./cycle-failures.ts";
import { CycleLoop } from "./cycle-loop.ts";
import { type Cycle, CyclesUnderWay, type SlotClaim } from "./cycles-under-way.ts";
import { Defaults } from "./defaults.ts";
import type { DispatcherHost } from "./dispatcher-host.ts";
import { publishClaim } from "./events.ts";
import { HeldStarts } from "./held-starts.ts";
import { TaskLogs } from "./logs.ts";
import { type Loss, OwnershipCheck } from "./ownership.ts";
import { PendingSettlement } from "./pending-settlement.ts";
import { PrefetchBuffer, PrefetchControl, roomForCrashSensitive } from "./prefetch.ts";
import { ProgressNotes } from "./progress.ts";
import { Reports } from "./reports.ts";
import { SetAside } from "./set-aside.ts";
import { throttleHolding } from "./throttle.ts";

const noNews: Heard = {};
const noLoss: ReadonlyMap<RunningAttempt, Loss> = new Map();

/** Milliseconds that a cycle waits until progress is written. */
const progressFlushMs = 100;

export class Dispatcher {
  readonly #host: DispatcherHost;
  readonly #attemptHost: AttemptHost;
  readonly #progress: ProgressNotes;
  readonly #loop: CycleLoop;
  /** The attempts from claim to settle. A task that was lost and claimed again has two, until the function of the first one settles. */
  readonly #owned = new Bag<RunningAttempt>();
  /** The owned attempts that have no slot yet. */
  readonly #prefetched: PrefetchBuffer;
  readonly #prefetch: PrefetchControl;
  readonly #held = new HeldStarts((attempt) => this.#start(attempt));
  readonly #unknownClaims: UnknownClaims;
  readonly ownership: OwnershipCheck;
  /** Only ever moves forward. `draining`: nothing is claimed, attempts may finish. `interrupted`: attempts are handed back. */
  #phase: "claiming" | "draining" | "interrupted" | "abandoned" = "claiming";
  readonly #underWay = new CyclesUnderWay();
  /** The outcomes that the next cycle settles. */
  #ended: PendingSettlement[] = [];
  /** False after a claim that left nothing behind, until a wake-up or the poll. */
  #mayHaveWork = true;
  /** Whether the last claim that was answered left tasks behind. */
  #leftTasks = false;
  #againTimer: Timer | undefined;
  /** Whether the end of a task may let another one start, by the answer to the last claim. */
  #endsLetStart = false;
  /** Whether no claim is to be made beside the last one. */
  #claimsAlone = false;
  /** Claims of features that are under way, and what runs beside the slots because of them. */
  #takingOn = 0;
  readonly #beside = new Set<RunningAttempt>();
  readonly #setAside: SetAside;
  readonly #failures = new CycleFailures((batch) => this.#settleAgain(batch));
  readonly #reports: Reports;

  constructor(host: DispatcherHost) {
    this.#host = host;
    const report = (error: unknown, where: string) => host.reportError(error, where);
    this.#setAside = new SetAside(report, () => this.lookForWork());
    this.#progress = new ProgressNotes(host.store, report, () => host.wakeups.taskNoted());
    this.#prefetch = new PrefetchControl(host.store.synchronous);
    this.#prefetched = new PrefetchBuffer(() => this.#fillSlots(), this.#prefetch.waited);
    this.ownership = new OwnershipCheck(host.store, this.#owned, report, host.checkEvery);
    const defaults = new Defaults(host.store);
    this.#attemptHost = {
      store: host.store,
      logs: new TaskLogs(host.store, report, () => host.wakeups.taskNoted(), host.clock),
      clock: host.clock,
      context: host.context,
      maxPayload: host.maxPayload,
      executorOf: (definition) => host.executorOf(definition),
      fillDefaults: (record, maxRetries) => defaults.fill(record, maxRetries),
      noteProgress: (record, progress, note) => this.#progress.add(record, progress, note),
      throttle: (record, delay) => throttleHolding(this.#held, host.claims, record, delay, report),
      checkLoss: ({ id }) => this.ownership.check([id]),
      setAside: (record, error) => this.#setAside.add(record, error),
      isCompleted: (record) => this.ownership.isCompleted(record),
      features: host.featuresOf?.(() => this.#freeSlots(this.#ended.length + this.#underWay.settling) > 0),
      report,
    };
    this.#reports = new Reports(host, this.#attemptHost.features);
    this.#unknownClaims = new UnknownClaims(host.store, host.workerId, this.#owned, this.#reports.refused);
    this.#loop = new CycleLoop({
      run: () => this.#runCycle(),
      mayOverlap: (running) => running === 1 && this.#mayOverlap(),
      isAnotherDue: (requested) => this.#ended.length > 0 || (requested && this.#phase === "claiming"),
      onEnd: () => this.#fillSlots(),
    });
  }

  /** How many tasks run, or have ended and are not settled yet. */
  get inflight(): number {
    return this.#owned.size - this.#prefetched.length;
  }

  /** Whether a cycle is under way or requested: it may claim tasks that `inflight` does not count yet. */
  get isCycling(): boolean {
    return !this.#loop.isIdle;
  }

  // ---- what the worker asks for --------------------------------------------------------------

  /** There may be a task to claim. */
  lookForWork(): void {
    this.#mayHaveWork = true;
    if (this.#phase === "claiming") this.#loop.request();
  }

  /** Runs at once, beside the slots, what a feature claims for this worker. */
  async takeOn(claim: () => Promise<readonly TaskRecord[]>): Promise<void> {
    if (this.#phase !== "claiming") return;
    this.#takingOn += 1;
    try {
      const claimed = await claim();
      if (this.#isAbandoned()) return;
      for (const record of claimed) {
        const attempt = this.#own(record);
        this.#beside.add(attempt);
        if (this.#mayStart(attempt)) this.#start(attempt);
        else attempt.interrupt();
      }
    } finally {
      this.#takingOn -= 1;
    }
  }

  /** Begins no claim from now on, and hands back the tasks that a claim under way returns. */
  stopClaiming(): void {
    if (this.#phase === "claiming") this.#phase = "draining";
    this.#lookAgain(undefined);
    this.#prefetched.handBack();
    this.#held.handBack();
  }

  /** Hands back all running tasks without waiting for their functions. */
  interrupt(): void {
    if (this.#phase !== "abandoned") this.#phase = "interrupted";
    for (const attempt of this.#owned) attempt.interrupt();
  }

  /** Gives up all owned tasks without a write: another worker rescues them once this one is gone. */
  abandon(): void {
    this.#phase = "abandoned";
    this.#ended = [];
    this.#prefetched.clear();
    this.#held.clear();
    this.#owned.clear();
    this.#loop.stop();
  }

  /** Resolves when no attempt runs, every outcome is settled and no cycle is under way; or after `abandon`. */
  async drained(): Promise<void> {
    while (!this.#isAbandoned() && (this.#owned.size > 0 || this.isCycling)) await this.cycleEnd();
    this.ownership.stop();
    this.#reports.refused.stop();
    await this.#progressWritten();
  }

  /** Resolves when the last progress is written; at once after `abandon`. */
  async #progressWritten(): Promise<void> {
    if (this.#isAbandoned()) return;
    let written = false;
    void this.#progress.flush().then(() => {
      written = true;
      this.#loop.notify();
    });
    while (!this.#isAbandoned() && !written) await this.cycleEnd();
  }

  /** Resolves at the end of a cycle, or after `limitMs` milliseconds. */
  async cycleEnd(limitMs?: number): Promise<void> {
    await this.#loop.cycleEnd(limitMs);
  }

  #isAbandoned(): boolean {
    return this.#phase === "abandoned";
  }

  // ---- the cycle: settle, claim, start -------------------------------------------------------

  /**
   * Whether a second cycle may begin now. After a failure, where ends let others start, and before a look at what the worker holds,
   * one cycle follows the other.
   */
  #mayOverlap(): boolean {
    if (this.#host.isClaimWaiting?.()) return this.#ended.length > 0;
    if (!this.#underWay.leaveEnough(this.#ended.length)) return false;
    if (this.#failures.count > 0 || this.#endsLetStart || this.#claimsAlone || this.#unknownClaims.isDue)
      return false;
    return this.#host.store.cyclesMayOverlap(this.#loop.request);
  }

  async #runCycle(): Promise<void> {
    // Prefetched tasks start while the database works for this cycle.
    if (this.#prefetched.length > 0) setImmediate(() => this.#fillSlots());
    // After a failure one outcome at a time, apart from the claim: a row that the database refuses blocks no others.
    const failures = this.#failures.count;
    const oneByOne = failures > 0;
    const batch = this.#ended.splice(0, oneByOne ? 1 : this.#ended.length);
    this.#underWay.settling += batch.length;
    try {
      // A settled task takes no more progress. The limit breaks a deadlock: a write of progress may wait for a
      // function's own transaction, and that function for this cycle.
      if (batch.length > 0 && this.#progress.isUnwritten) await this.#progress.flush(progressFlushMs);
      if (this.#unknownClaims.isDue && !this.#underWay.isClaiming && this.#takingOn === 0)
        await this.#unknownClaims.handBack();
      await this.#settleAndClaim(batch, !oneByOne && !this.#host.isClaimWaiting?.());
      if (oneByOne) await this.#settleAndClaim([], true);
      // Not when the cycle beside this one has failed meanwhile.
      if (this.#failures.count === failures) this.#failures.count = 0;
    } catch (error) {
      await this.#afterFailure(error, batch);
    }
  }

  async #settleAndClaim(batch: readonly PendingSettlement[], mayClaim: boolean): Promise<void> {
    const outcomes = batch.map(({ outcome }) => outcome);
    const claim = this.#claimRequest(batch, outcomes, mayClaim);
    if (batch.length === 0 && !claim) return;
    if (claim) this.#mayHaveWork = false;
    const cycle = this.#underWay.begin(batch, claim);
    const began = Date.now();
    let result: SettleAndClaimResult;
    try {
      const givesUp = batch.length === 1 && batch[0]?.givesUp;
      result = await this.#host.store.settleAndClaim({ outcomes, claim, givesUp });
    } finally {
      this.#underWay.end(cycle);
    }
    // A rescue of this worker frees the tasks that were just claimed, too.
    if (this.#isAbandoned()) return;
    this.#apply(cycle, result);
    publishClaim(this.#host, began, result.claimed);
    this.#notify(cycle, result);
    if (batch.length > 0) {
      this.#host.wakeups.taskEnded(outcomes.map(({ id }) => id));
      const refused = batch.filter((_, i) => !result.settled[i]).map(({ attempt }) => attempt);
      const lost = refused.length === 0 ? noLoss : await this.ownership.lostAmong(refused);
      this.#reports.settled(batch, new Set(refused), lost, result);
    }
    if (result.failure !== undefined) throw result.failure;
  }

  /** None when there is no free slot, or nothing to claim. */
  #claimRequest(
    batch: readonly PendingSettlement[],
    outcomes: readonly Outcome[],
    mayClaim: boolean,
  ): SlotClaim | undefined {
    const { workerId, queueNames, concurrency, claims } = this.#host;
    const underWay = this.#underWay;
    const free = this.#freeSlots(underWay.settling);
    const taken = this.#prefetched.length + underWay.claiming.tasks;
    // It measures each cycle, whether or not that claims.
    const ahead = this.#prefetch.begin(outcomes, Math.max(0, taken - free));
    const slots = Math.max(0, free - taken);
    const limit = slots + ahead;
    // The claim of a cycle under way is not the last one.
    const mayHaveWork =
      this.#mayHaveWork ||
      (this.#endsLetStart && batch.length > 0) ||
      (this.#leftTasks && underWay.isClaiming);
    if (!mayClaim || this.#phase !== "claiming" || !mayHaveWork || limit === 0) return undefined;
    // Alone, it claims for slots that are free once its own outcomes are settled.
    const crashSensitive =
      ahead > 0 || !underWay.isAlone(batch)
        ? roomForCrashSensitive(concurrency, this.#owned, batch) - underWay.claiming.crashSensitive
        : limit;
    const funcs = this.#setAside.among(claims.funcs());
    const ended = () => batch.map(({ attempt }) => attempt.record);
    // While a task would wait for its start, a clock that a test steps stands still.
    const mayStartLater = this.#host.clock ? undefined : this.#held.room(slots, concurrency);
    const { parts, alone = false } = claims.ask({ funcs, ended, mayStartLater });
    this.#claimsAlone = alone;
    return { workerId, queueNames, funcs, limit, crashSensitive: Math.max(0, crashSensitive), parts };
  }

  /** Takes over what the store did. Nothing that can fail may come between a claim and the start of its tasks. */
  #apply(cycle: Cycle, result: SettleAndClaimResult): void {
    const { batch, claim, began } = cycle;
    const { claimed, more } = result;
    const { startsIn, again, endsLetStart = false } = claim ? this.#host.claims.hear(result) : noNews;
    for (const { attempt } of batch) this.#owned.delete(attempt);
    this.#underWay.settling -= batch.length;
    for (const record of claimed) this.#accept(record, startsIn?.get(record.id));
    this.#prefetch.end(claimed, began);
    // With outcomes waiting, the next cycle goes first.
    if (this.#ended.length === 0) this.#fillSlots();
    if (this.#underWay.noteAnswer(cycle)) {
      this.#leftTasks = more;
      this.#lookAgain(again);
      this.#endsLetStart = endsLetStart;
    }
    if (more) this.lookForWork();
    // The claim had no room for some crash-sensitive tasks: look again.
    else if (claim && claim.crashSensitive < claim.limit) this.#mayHaveWork = true;
  }

  /** A task may start after so many milliseconds, whose waiting no other event ends. */
  #lookAgain(delay: number | undefined): void {
    this.#againTimer?.clear();
    this.#againTimer = undefined;
    if (delay !== undefined) this.#againTimer = after(delay, () => this.lookForWork(), { keepAlive: false });
  }

  #notify({ batch, claim }: Cycle, { more, registered, retaken, expired }: SettleAndClaimResult): void {
    if (claim) this.#host.onClaim(more, expired);
    if (!registered) this.#host.onDeclaredDead();
    const kinds = new Set(batch.map(({ outcome }) => outcome.kind));
    const isOneHeldUp = batch.some(({ outcome }) => isHeldUp(outcome));
    if (kinds.has("retry") || kinds.has("snoozed") || isOneHeldUp) this.#host.onScheduled();
    // Another worker of this process may have a free slot for the tasks handed back, for one that an end lets start, or for a parent.
    const leavesPlace = this.#endsLetStart && batch.length > 0 && !retaken;
    const freesParent = batch.some(({ attempt }) => attempt.record.parentId !== null);
    if (kinds.has("interrupted") || leavesPlace || freesParent) this.#host.wakeups.workAdded();
  }

  // ---- slots ---------------------------------------------------------------------------------

  /** `ended`: attempts that are not settled yet. Their slots count as free, unless cycles are failing. */
  #freeSlots(ended: number): number {
    return (
      this.#host.concurrency - this.inflight + this.#beside.size + (this.#failures.count > 0 ? 0 : ended)
    );
  }

  #accept(record: TaskRecord, startsIn: number | undefined): void {
    const attempt = this.#own(record);
    if (startsIn !== undefined) this.#held.add(attempt, startsIn);
    if (this.#mayStart(attempt)) this.#prefetched.push(attempt);
    else attempt.interrupt();
  }

  /** A function that was unregistered during the claim is not run here any more: its task is handed back. */
  #mayStart({ definition }: RunningAttempt): boolean {
    return this.#phase === "claiming" && definition.fn !== undefined;
  }

  #own(record: TaskRecord): RunningAttempt {
    const known = definitionNamed(record.func) ?? remoteDefinition(record.func);
    const { features } = this.#attemptHost;
    const definition = features && known.fn && isEnding(record) ? features.ending(known) : known;
    const attempt = new RunningAttempt(record, definition, this.#attemptHost, this.#onEnd);
    this.#owned.add(attempt);
    this.ownership.watch();
    return attempt;
  }

  /** Starts claimed tasks in the free slots, unless a cycle is about to begin: it settles first, and then starts them. */
  #fillSlots(): void {
    if (this.#loop.isAboutToBegin) return;
    const now = performance.now();
    while (this.#prefetched.length > 0 && this.#freeSlots(this.#ended.length + this.#underWay.settling) > 0)
      this.#held.start(this.#prefetched.shift(now) as RunningAttempt);
    this.#prefetched.watch();
  }

  #start(attempt: RunningAttempt): void {
    this.#prefetch.started();
    this.#host.reportStarted(attempt.record);
    attempt.run();
  }

  readonly #onEnd = (attempt: RunningAttempt, outcome: Outcome | undefined): void => {
    this.#beside.delete(attempt);
    if (outcome) {
      this.#ended.push(new PendingSettlement(attempt, outcome));
      // The end may let the parent go on.
      if (attempt.record.parentId !== null) this.#mayHaveWork = true;
    } else {
      this.#owned.delete(attempt);
      this.#prefetched.remove(attempt);
      // It may wait for a time that is due before the next one that is known.
      if (attempt.hasLeft) this.#host.onScheduled();
      else this.#reports.lost(attempt, attempt.cancelled);
      this.#mayHaveWork = true;
    }
    if (this.inflight === this.#ended.length + this.#underWay.settling) this.#prefetch.stopped();
    this.#loop.request();
    // The next task must not run in the async context of the function that has just ended.
    if (this.#prefetched.length > 0) inRootContext(() => this.#fillSlots());
  };

  // ---- failures ------------------------------------------------------------------------------

  /** Keeps the outcomes that were not settled, and waits before the next cycle. */
  async #afterFailure(error: unknown, batch: readonly PendingSettlement[]): Promise<void> {
    this.#unknownClaims.failed();
    // When only the claim failed, the outcomes are settled and their attempts no longer owned.
    const unsettled = batch.filter(({ attempt }) => this.#owned.has(attempt));
    this.#underWay.settling -= unsettled.length;
    if (error instanceof OutcomeUnknownError) return this.#failures.unanswered(unsettled);
    this.#host.reportError(error, "settling and claiming");
    // The database file was replaced: the process that opens the moved file rescues these tasks.
    if (this.#phase === "interrupted" && error instanceof DatabaseMovedError) return this.abandon();
    await this.#failures.failed(error, unsettled);
  }

  #settleAgain(batch: readonly PendingSettlement[]): void {
    if (this.#isAbandoned()) return;
    this.#mayHaveWork = true;
    this.#ended.push(...batch);
    this.#loop.request();
  }
}
