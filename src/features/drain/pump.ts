/**
 * Carries the tasks of one queue into a target. One cycle settles the tasks whose messages were answered, and claims the next
 * ones while others are being sent. A task is let go only after its message was acknowledged.
 */
import { Bag } from "../../base/runtime/bag.ts";
import { setImmediate, sleep } from "../../base/runtime/timers.ts";
import { defaultBackoff } from "../../base/tasks/backoff.ts";
import { messageId } from "../../base/tasks/drained.ts";
import { describeThrown, failureOf } from "../../base/values/thrown.ts";
import { KeyMissingError, WorkerStoppedError } from "../../errors.ts";
import type { Wakeups } from "../../queue/wakeups.ts";
import type { Outcome, SettleAndClaimResult, TaskVersion } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { UnknownClaims } from "../../worker/ambiguous-results.ts";
import { CycleLoop } from "../../worker/cycle-loop.ts";
import { publishClaim } from "../../worker/events.ts";
import { KeptTasks } from "../../worker/pruning.ts";
import { RefusedTasks } from "../../worker/refused-tasks.ts";
import { setAsideFor } from "../../worker/set-aside.ts";
import { limitsAnswered } from "../limits/contract.ts";
import type { FullStore } from "../store.ts";
import { Backlog } from "./backlog.ts";
import { orderAsked } from "./contract.ts";
import { parts, type Staged, staged } from "./messages.ts";
import type { ReadDrainOptions } from "./options.ts";
import { Sender } from "./sender.ts";

export interface PumpHost {
  readonly store: Pick<FullStore, "settleAndClaim" | "heldBy" | "drains" | "synchronous">;
  readonly wakeups: Wakeups;
  readonly workerId: string;
  readonly options: ReadDrainOptions;
  readonly origin: string;
  /** A claim was answered; `more`: there may be more tasks than it took. */
  onClaim(more: boolean): void;
  /** Another process has declared this drain dead, and deleted its worker's row. */
  onDeclaredDead(): void;
  /** A task became `scheduled`. */
  onScheduled(): void;
  /** The database has accepted an outcome of a task that this drain held. */
  onEnded(record: TaskRecord, outcome: Outcome): void;
  onSent(messageIds: string[]): void;
  onRefused(record: TaskRecord, error: unknown): void;
  onPause(error: unknown, delay: number): void;
  onResume(): void;
  report(error: unknown, where: string): void;
}

/** A task that was claimed and is not settled. */
class HeldTask {
  readonly record: TaskRecord;
  /** Of the `Bag` that it is in. */
  place = -1;

  constructor(record: TaskRecord) {
    this.record = record;
  }
}

/** A task whose message was sent or refused, or that goes back to the queue unsent. */
type End = { held: HeldTask } & (
  | { as: "sent"; messageId: string }
  | { as: "refused"; error: unknown }
  | { as: "unsent" }
);

/** While the target works for one batch, the messages of the next one are made. */
const mostSends = 2;

/** Milliseconds of backoff after a failed cycle: `base` doubled for each failure in a row, and at most `most`. */
const failureBackoff = { base: 50, most: 5_000 };

/** Failed cycles in a row after which an outcome that fails for an unknown reason is given up: some 20 s. */
const mostFailedCycles = 10;

export class Pump {
  readonly #host: PumpHost;
  readonly #loop: CycleLoop;
  readonly #backlog: Backlog;
  readonly #sender: Sender;
  readonly #unknownClaims: UnknownClaims;
  readonly #refused: RefusedTasks<HeldTask>;
  /** The target's name as JSON. */
  readonly #target: string;
  /** The claimed tasks that are not settled. */
  readonly #held = new Bag<HeldTask>();
  /** Only ever moves forward. `ending`: nothing is claimed. `abandoned`: nothing is written either. */
  #phase: "standby" | "carrying" | "ending" | "abandoned" = "standby";
  #ended: End[] = [];
  /** The claimed batches whose messages are not made yet. */
  #claimed: (readonly HeldTask[])[] = [];
  /** How many batches are being sent. */
  #sends = 0;
  /** How many batches may be claimed and not sent. On a server the next one is claimed while messages are made. */
  readonly #mostBatches: number;
  #failedCycles = 0;
  /** Whether limits or pauses were about tasks of the last claim. */
  #limited = false;

  constructor(host: PumpHost) {
    this.#host = host;
    const { store, workerId, options } = host;
    this.#target = JSON.stringify(options.to.name ?? "target");
    this.#backlog = new Backlog(store.drains, options.queueName, options.batch);
    this.#mostBatches = store.synchronous ? mostSends : mostSends + 1;
    const report = (error: unknown, where: string) => host.report(error, where);
    this.#refused = new RefusedTasks(store, report, (held, stored) => {
      if (!stored) return;
      host.onEnded(held.record, stored);
      host.wakeups.taskEnded([stored.id]);
    });
    this.#unknownClaims = new UnknownClaims(store, workerId, this.#held, this.#refused);
    this.#sender = new Sender(options, {
      onPause: (error, delay) => host.onPause(error, delay),
      onResume: () => host.onResume(),
      onRetry: () => this.lookForWork(),
      report: (error, where) => host.report(error, where),
    });
    this.#loop = new CycleLoop({
      run: () => this.#cycle(),
      isAnotherDue: (requested) => this.#ended.length > 0 || (requested && this.#phase === "carrying"),
      onEnd: () => this.#sendClaimed(),
    });
  }

  // ---- what the drain asks for ---------------------------------------------------------------

  /** Claims from now on. */
  begin(): void {
    if (this.#phase === "standby") this.#phase = "carrying";
    this.lookForWork();
  }

  /** There may be a task to claim. */
  lookForWork(): void {
    this.#backlog.mayHaveWork = true;
    if (this.#phase === "carrying") this.#loop.request();
  }

  /** Begins no claim from now on. */
  stopClaiming(): void {
    if (this.#phase !== "abandoned") this.#phase = "ending";
  }

  /** Hands back the tasks that are being sent, without waiting for the answers. Their messages may still arrive. */
  interrupt(): void {
    this.stopClaiming();
    this.#sender.interrupt(new WorkerStoppedError());
  }

  /** Gives up all tasks without a write: they are rescued once this drain's worker is gone. */
  abandon(): void {
    this.#phase = "abandoned";
    this.#ended = [];
    this.#claimed = [];
    this.#sender.interrupt(new WorkerStoppedError());
    this.#loop.stop();
  }

  /** Resolves when no task is held and no cycle is under way; or after `abandon`. */
  async drained(): Promise<void> {
    while (!this.#isAbandoned() && (this.#held.size > 0 || !this.#loop.isIdle)) {
      if (this.#ended.length > 0) this.#loop.request();
      await this.#loop.cycleEnd(100);
    }
    this.#refused.stop();
    this.#sender.close();
  }

  #isAbandoned(): boolean {
    return this.#phase === "abandoned";
  }

  // ---- the cycle: settle, claim, send --------------------------------------------------------

  async #cycle(): Promise<void> {
    // A batch is sent while the database works for this cycle.
    setImmediate(() => this.#sendClaimed());
    const ended = this.#ended.splice(0);
    // Until now the claims refused the next task of each of these groups, or more tasks than a limit allows.
    if (ended.length > 0 && (this.#host.options.ordered || this.#limited)) this.#backlog.mayHaveWork = true;
    try {
      await this.#unknownClaims.handBack();
      await this.#settleAndClaim(ended);
      this.#failedCycles = 0;
    } catch (error) {
      if (this.#isAbandoned()) return;
      this.#unknownClaims.failed();
      // The database may have settled some of them before the error. It refuses these the second time, which is harmless.
      this.#ended.unshift(...ended.filter(({ held }) => this.#held.has(held)));
      this.#host.report(error, "settling and claiming");
      this.#backlog.mayHaveWork = true;
      const { base, most } = failureBackoff;
      await sleep(Math.min(base * 2 ** this.#failedCycles++, most) * (0.5 + Math.random() / 2));
      this.#loop.request();
    }
  }

  async #settleAndClaim(ended: readonly End[]): Promise<void> {
    const { store, workerId, options } = this.#host;
    const own = await this.#withoutHandedOver(ended);
    const outcomes = own.map((end) => this.#outcomeOf(end));
    const funcs = this.#mayClaim() ? await this.#backlog.funcs() : [];
    const limit = this.#sender.isSuspect ? this.#backlog.probe : this.#backlog.limit;
    const inOrder = options.ordered ? orderAsked.with({ scheduledToo: options.onRefused === "retry" }) : {};
    const queueNames = [options.queueName];
    const claim = funcs.length > 0 ? { workerId, queueNames, funcs, limit, ...inOrder } : undefined;
    if (!claim && this.#phase === "carrying" && this.#backlog.isEmpty) this.#host.onClaim(false);
    if (!claim && outcomes.length === 0) return this.#letGo(ended, []);
    const began = Date.now();
    const givesUp = this.#failedCycles >= mostFailedCycles;
    const result = await store.settleAndClaim({ outcomes, claim, givesUp });
    if (this.#isAbandoned()) return;
    this.#accept(result, claim?.limit, began);
    const { settled, refused } = result;
    own.forEach(({ held }, i) => {
      const outcome = outcomes[i] as Outcome;
      if (this.#refused.note(held, outcome, refused?.get(outcome))) return;
      if (settled[i]) this.#host.onEnded(held.record, outcome);
    });
    await this.#letGo(
      ended,
      outcomes.filter((one, i) => settled[i] && !refused?.has(one)),
    );
    if (result.failure !== undefined) throw result.failure;
  }

  #mayClaim(): boolean {
    if (this.#phase !== "carrying" || this.#sender.isPaused) return false;
    return this.#sends + this.#claimed.length < this.#mostBatches && this.#backlog.mayHaveWork;
  }

  /**
   * Takes over the claimed tasks. On a server the next cycle begins before they are sent, since making their messages takes as
   * long as a cycle does there. A synchronous store blocks the event loop, so there the target works meanwhile. Nothing
   * before the send may throw: the tasks would stay claimed and unsent.
   */
  #accept(result: SettleAndClaimResult, limit: number | undefined, began: number): void {
    const { claimed, more, registered } = result;
    const { workerId, options, onClaim } = this.#host;
    const batch = claimed.map((record) => new HeldTask(record));
    for (const held of batch) this.#held.add(held);
    if (batch.length > 0) this.#claimed.push(batch);
    publishClaim({ workerId, queueNames: [options.queueName] }, began, claimed);
    if (limit !== undefined) {
      this.#limited = limitsAnswered.of(result) !== undefined;
      this.#backlog.note(claimed, limit, more);
      onClaim.call(this.#host, this.#backlog.mayHaveWork);
    }
    if (!registered) this.#host.onDeclaredDead();
    if (this.#host.store.synchronous) this.#sendClaimed();
    if (this.#backlog.mayHaveWork) this.#loop.request();
  }

  /** Forgets the ended tasks, which are settled, and reports them. `accepted`: the outcomes that the database took. */
  async #letGo(ended: readonly End[], accepted: readonly Outcome[]): Promise<void> {
    for (const { held } of ended) this.#held.delete(held);
    if (ended.length === 0) return;
    const { store, wakeups, options } = this.#host;
    const completed = accepted.filter(({ kind }) => kind === "completed").map(({ id }) => id);
    wakeups.taskEnded(accepted.map(({ id }) => id));
    if (accepted.some(({ kind }) => kind === "retry")) this.#host.onScheduled();
    this.#tell(ended);
    if (options.keep === 0 && completed.length > 0) await this.#removeSent(completed, store);
  }

  #tell(ended: readonly End[]): void {
    const sent = ended.flatMap((end) => (end.as === "sent" ? [end.messageId] : []));
    if (sent.length > 0) this.#host.onSent(sent);
    for (const end of ended) if (end.as === "refused") this.#host.onRefused(end.held.record, end.error);
  }

  /** Never throws: if it fails, a periodic job of the drain (`deletesOld`) deletes these tasks later. */
  async #removeSent(ids: readonly number[], { drains }: Pick<FullStore, "drains">): Promise<void> {
    try {
      await drains.remove(ids);
    } catch (error) {
      this.#host.report(error, "deleting sent tasks");
    }
  }

  // ---- outcomes ------------------------------------------------------------------------------

  /** With `results`, a sent task gets its outcome later, from `settleDrained`: until then its row stays `running`. */
  async #withoutHandedOver(ended: readonly End[]): Promise<readonly End[]> {
    if (!this.#host.options.results) return ended;
    const sent: TaskVersion[] = ended.filter(({ as }) => as === "sent").map(({ held }) => held.record);
    const kept = new KeptTasks((error) => this.#host.report(error, "handing over sent tasks"), "change");
    if (sent.length > 0) await this.#host.store.drains.handOver(sent, kept.add);
    kept.tell();
    return ended.filter(({ as }) => as !== "sent");
  }

  #outcomeOf(end: End): Outcome {
    const { id, generationId, workerId, startedAt, func, retryCount, maxRetries } = end.held.record;
    if (end.as === "sent") {
      // No spread, and no JSON of an object: this is the outcome of nearly every task. An id needs no escapes.
      const result = `{"target":${this.#target},"messageId":"${end.messageId}"}`;
      return { id, generationId, workerId, startedAt, kind: "completed", result };
    }
    const version = { id, generationId, workerId, startedAt, func };
    if (end.as === "unsent") return { ...version, kind: "interrupted" };
    // A drain that has the key can send it.
    if (end.error instanceof KeyMissingError) return { ...version, kind: "snoozed", delay: setAsideFor };
    const { onRefused } = this.#host.options;
    const failure = failureOf("failed", describeThrown(end.error));
    return onRefused === "retry" && retryCount < maxRetries
      ? { ...version, kind: "retry", ...failure, delay: defaultBackoff(retryCount + 1) }
      : { ...version, kind: "failed", ...failure };
  }

  // ---- the send ------------------------------------------------------------------------------

  /** Sends claimed batches, as many as may be on their way, unless a cycle is about to begin. */
  #sendClaimed(): void {
    if (this.#loop.isAboutToBegin) return;
    while (this.#sends < mostSends) {
      const batch = this.#claimed.shift();
      if (!batch) return;
      void this.#send(batch);
    }
  }

  /** Never throws: each of the tasks ends in one way. */
  async #send(batch: readonly HeldTask[]): Promise<void> {
    this.#sends += 1;
    try {
      await this.#sendAll(batch);
    } catch (error) {
      this.#host.report(error, "preparing messages");
      const known = new Set(this.#ended.map(({ held }) => held));
      this.#end(batch.filter((held) => !known.has(held)).map((held) => ({ held, as: "unsent" })));
    } finally {
      this.#sends -= 1;
      this.#loop.request();
    }
  }

  async #sendAll(batch: readonly HeldTask[]): Promise<void> {
    const { origin, options } = this.#host;
    const retries = await this.#backlog.manualRetries(batch.map(({ record }) => record));
    const idOf = ({ id }: TaskRecord) => messageId(origin, id, retries.get(id) ?? 0);
    const { ready, refused } = staged(batch, options, idOf);
    this.#end(refused.map(({ held, error }) => ({ held, as: "refused", error })));
    for (const part of parts(ready, options.to.limits)) this.#end(await this.#sendPart(part));
  }

  async #sendPart(part: readonly Staged<HeldTask>[]): Promise<End[]> {
    const answers = await this.#sender.send(part.map(({ message }) => message));
    return part.map(({ held, message }, i): End => {
      const answer = answers?.[i];
      if (answer === undefined) return { held, as: "unsent" };
      if (answer instanceof Error) return { held, as: "refused", error: answer };
      return { held, as: "sent", messageId: message.id };
    });
  }

  #end(ended: readonly End[]): void {
    if (this.#isAbandoned() || ended.length === 0) return;
    this.#ended.push(...ended);
    this.#loop.request();
  }
}
