/** `Agent`: runs tasks on a machine without access to the database; Managers claim and settle for it. */
import { randomUUID } from "node:crypto";
import type { LimitValues } from "../../../base/options/limits.ts";
import { inRootContext } from "../../../base/runtime/root-context.ts";
import {
  after,
  clearTimeout,
  performance,
  setImmediate,
  setTimeout,
  sleep,
  type Timer,
} from "../../../base/runtime/timers.ts";
import {
  definitionNamed,
  registrationOf,
  remoteDefinition,
  runnableNames,
} from "../../../base/tasks/registry.ts";
import { LostGenerationError, TaskCancelledError } from "../../../errors.ts";
import { warn } from "../../../events.ts";
import type { Outcome } from "../../../store.ts";
import { RunningAttempt } from "../../../worker/attempt.ts";
import type { AttemptHost } from "../../../worker/attempt-host.ts";
import type { ClaimHost, ClaimPolicy } from "../../../worker/claim-policy.ts";
import { Defaults } from "../../../worker/defaults.ts";
import { WorkerEmitter } from "../../../worker/events.ts";
import type { Executors, OpenExecutors } from "../../../worker/executor.ts";
import { TaskLogs } from "../../../worker/logs.ts";
import { PrefetchBuffer, PrefetchControl } from "../../../worker/prefetch.ts";
import { ProgressNotes } from "../../../worker/progress.ts";
import type { BeatAnswer, ClaimAnswer, ProgressAnswer, SettleAnswer, ToldTask, Version } from "../wire.ts";
import { Client, RefusedError } from "./client.ts";
import {
  recordOf,
  toldDefaults,
  toldLimits,
  toldLines,
  toldOf,
  toldProgress,
  toldSharing,
} from "./messages.ts";
import {
  type AgentOptions,
  type AgentStopOptions,
  type ReadAgentOptions,
  readAgentOptions,
  readAgentStopOptions,
} from "./options.ts";

/** Milliseconds that a claim waits at the Manager. */
const claimWait = 25_000;
/** Milliseconds between two beats while tasks run: a cancel reaches its function within them. */
const beatEvery = 800;
/** Milliseconds by which a beat may be late: a third of a Manager's default lease. */
const blockedMs = 5_000;
/** The least milliseconds between two beats, also where each answer ends its connection. */
const leastBetweenBeats = 100;
/** Milliseconds until an agent that was refused asks again: its token may have been replaced by then. */
const refusedPause = 5_000;
/** Outcomes in one request, and the characters of their results. */
const mostOutcomes = 500;
const mostCharacters = 1_000_000;
/** Bytes of a result that an agent sends. The Manager has the queue's own limit. */
const maxResult = 1_048_576;
/** Milliseconds for which a stop goes on to settle. */
const finalSettleMs = 5_000;

/** An agent between its start and its stop. */
interface Run {
  session: string;
  client: Client;
  /** Ends all requests. */
  closed: AbortController;
  /** Ends the claim that waits, and begins none from now on. */
  claiming: AbortController;
  /** Ends the claim that does not wait. */
  asking: AbortController;
  /** Whether the next claim comes soon, and takes along what has ended by then. */
  settlesByClaims: boolean;
  host: AttemptHost;
  executors: Executors;
  progress: ProgressNotes;
  claims: ClaimPolicy;
  /** Whether a beat is under way: it asks until a Manager answers. */
  isBeating: boolean;
  /** When the last beat was sent, on the clock of `performance.now()`. */
  beatAt: number;
}

/** Writes the limits of functions; null: their code sets none. */
type Declare = (limits: readonly { func: string; values: LimitValues | null }[]) => Promise<unknown>;

/** What other features have for an agent. `src/features/agent.ts` gives it, since one feature never imports another. */
export interface AgentParts {
  /** Where its functions run. */
  openExecutors: OpenExecutors;
  /** What its claims are for. */
  openClaims(declare: Declare, host: ClaimHost): ClaimPolicy;
}

/** Attempts that are settled in one request. */
type Batch = readonly (readonly [RunningAttempt, Outcome])[];

interface Claim {
  slots: number;
  /** Tasks beyond the free slots. */
  ahead: number;
  batch: Batch;
  /** Milliseconds; 0: it answers at once. */
  wait: number;
}

/**
 * Runs tasks that Managers claim for it. It is an `EventEmitter` with the events of a `Worker`. A function's
 * `currentTask().within(tx)` throws: there is no database here.
 */
export class Agent<C = unknown> extends WorkerEmitter {
  readonly #options: ReadAgentOptions;
  readonly #names: readonly string[] | undefined;
  readonly #parts: AgentParts;
  /** The attempts from claim to settle. */
  readonly #owned = new Set<RunningAttempt>();
  /** The attempts that have ended, with their outcomes, until these are settled: they hold no slot. */
  readonly #ended = new Map<RunningAttempt, Outcome>();
  /** Those of them whose outcomes are on their way to a Manager. */
  readonly #sent = new Set<RunningAttempt>();
  readonly #prefetch = new PrefetchControl(false);
  /** The claimed attempts that have no slot yet. */
  readonly #prefetched = new PrefetchBuffer(() => this.#fillSlots(), this.#prefetch.waited);
  /** Whether the last claim found as many tasks as it asked for. */
  #mayHaveMore = false;
  #settling: Promise<void> | undefined;
  #beatTimer: NodeJS.Timeout | undefined;
  #run: Run | undefined;
  #wakeClaim: () => void = () => undefined;
  #wakeDrained: () => void = () => undefined;
  #stopping: Promise<void> | undefined;
  #graceTimer: Timer | undefined;
  #connected: Promise<void> | undefined;

  /**
   * @throws TypeError for a wrong option; UnregisteredFunctionError for an unregistered function in `tasks`
   */
  constructor(options: AgentOptions<C>, parts: AgentParts) {
    super();
    this.#parts = parts;
    this.#options = readAgentOptions(options);
    this.#names = this.#options.tasks?.map((fn) => registrationOf(fn).definition.name);
  }

  /** Its session, a UUID; undefined while it is stopped. */
  get session(): string | undefined {
    return this.#run?.session;
  }

  /** The Manager that it asks. */
  get manager(): string | undefined {
    return this.#run?.client.url;
  }

  /** How many tasks it runs, with those whose outcome no Manager has accepted yet. */
  get inflight(): number {
    return this.#owned.size - this.#prefetched.length;
  }

  // ---- start and stop ------------------------------------------------------------------------

  /**
   * Resolves when a Manager has answered. Tries each of them until one does.
   * @throws RefusedError when one refuses the token or a function
   */
  async start(): Promise<void> {
    if (this.#stopping) await this.#stopping;
    if (!this.#run) {
      const run = this.#newRun();
      this.#run = run;
      this.#connected = this.#begin(run);
    }
    await this.#connected;
  }

  async #begin(run: Run): Promise<void> {
    try {
      const names = runnableNames(this.#names);
      if (names.length === 0) throw new TypeError("agent.start: no function is registered");
      // A wrong token, or a function that is not the agent's, is refused here and not in a log.
      await run.claims.begin();
      await this.#claim(run, { slots: this.#options.concurrency, ahead: 0, batch: [], wait: 0 });
    } catch (error) {
      this.#end(run);
      throw error;
    }
    void this.#claims(run);
  }

  #newRun(): Run {
    const { managers, token, ca } = this.#options;
    const client = new Client(managers, token, ca);
    const [closed, claiming, asking] = [new AbortController(), new AbortController(), new AbortController()];
    const session = randomUUID();
    const report = (error: unknown, where: string) => this.reportError(error, where);
    const tell = async (tasks: ToldTask[]) => {
      const { lost } = await client.ask<ProgressAnswer>("/v1/progress", { session, tasks }, closed.signal);
      this.#lose(lost, tasks);
    };
    const defaults = new Defaults({ fillDefaults: (tasks) => tell(toldDefaults(tasks)) });
    const progress = new ProgressNotes({ progress: (notes) => tell(toldProgress(notes)) }, report);
    const { concurrency, maxTasksPerChild } = this.#options;
    const executors = this.#parts.openExecutors({
      concurrency,
      maxTasksPerChild,
      maxPayload: maxResult,
      report,
    });
    const host: AttemptHost = {
      store: { synchronous: false, within: noDatabase },
      logs: new TaskLogs({ log: (lines) => tell(toldLines(lines)) }, report),
      context: this.#options.context,
      maxPayload: maxResult,
      executorOf: (definition) => executors.executorOf(definition),
      fillDefaults: (record, maxRetries) => defaults.fill(record, maxRetries),
      noteProgress: (record, n, note) => progress.add(record, n, note),
      // The outcome says so to the Manager, which writes both.
      throttle: async () => undefined,
      checkLoss: async () => undefined,
      isCompleted: async () => false,
      report,
    };
    const declare: Declare = (all) =>
      client.ask("/v1/limits", { session, limits: toldLimits(all) }, closed.signal);
    const claims = this.#parts.openClaims(declare, {
      names: () => runnableNames(this.#names),
      onReady: () => this.#wakeClaim(),
      report,
    });
    const aborts = { closed, claiming, asking };
    const run: Run = {
      session,
      client,
      ...aborts,
      host,
      executors,
      progress,
      claims,
      settlesByClaims: false,
      isBeating: false,
      beatAt: Number.NEGATIVE_INFINITY,
    };
    client.onTrouble = (error) => report(error, "asking the Managers, none of which answers");
    // The Manager frees the tasks of an agent without a connection: a request makes a new one.
    client.onDisconnect = () => {
      if (this.#owned.size > 0 && !closed.signal.aborted) this.#beatNow(run);
    };
    return run;
  }

  /**
   * Claims no more tasks, and resolves when the running ones have ended and are settled. After `grace` their signals are aborted,
   * and they are handed back without a retry charged.
   * @throws TypeError for a wrong option
   */
  async stop(options?: AgentStopOptions): Promise<void> {
    const { grace } = readAgentStopOptions(options);
    const run = this.#run;
    if (!run) return;
    this.#graceTimer?.clear();
    this.#graceTimer = after(grace, () => this.#interrupt(run));
    this.#stopping ??= this.#stop(run);
    await this.#stopping;
  }

  async #stop(run: Run): Promise<void> {
    run.claiming.abort();
    this.#wakeClaim();
    this.#prefetched.handBack();
    // A claim may be under way: its tasks are handed back, if the answer comes in time.
    const late = after(finalSettleMs, () => run.asking.abort());
    while ((this.#owned.size > 0 || run.settlesByClaims) && !run.closed.signal.aborted)
      await new Promise<void>((resolve) => {
        this.#wakeDrained = resolve;
      });
    late.clear();
    if (!run.closed.signal.aborted) await run.progress.flush(finalSettleMs);
    this.#end(run);
    await run.executors.close();
  }

  #interrupt(run: Run): void {
    for (const attempt of this.#owned) attempt.interrupt();
    this.#graceTimer = after(finalSettleMs, () => this.#end(run));
  }

  #end(run: Run): void {
    this.#graceTimer?.clear();
    run.claiming.abort();
    run.asking.abort();
    run.closed.abort();
    run.client.close();
    clearTimeout(this.#beatTimer);
    this.#owned.clear();
    this.#ended.clear();
    this.#sent.clear();
    this.#prefetched.clear();
    if (this.#run === run) this.#run = undefined;
    this.#stopping = undefined;
    this.#wakeDrained();
    this.#wakeClaim();
  }

  // ---- claim ---------------------------------------------------------------------------------

  async #claims(run: Run): Promise<void> {
    const { signal } = run.claiming;
    run.settlesByClaims = true;
    while (!signal.aborted) {
      try {
        await this.#cycle(run);
        // Functions that return at once are settled by the next claim: the Manager settles and claims in one write.
        await new Promise((resolve) => setImmediate(resolve));
      } catch (error) {
        if (signal.aborted) break;
        this.reportError(error, "claiming tasks");
        // The pause keeps the process alive: while it is refused, nothing else may.
        await this.#settlingAlone(run, sleep(refusedPause, undefined, { signal })).catch(() => undefined);
      }
    }
    run.settlesByClaims = false;
    this.#settleAlone(run);
    this.#wakeDrained();
  }

  /** Settles what has ended, and claims what there is room for. Waits for tasks when there is nothing to settle. */
  async #cycle(run: Run): Promise<void> {
    const batch = this.#nextBatch();
    const waiting = this.#prefetched.length;
    const outcomes = batch.map(([, outcome]) => outcome);
    const ahead = this.#prefetch.begin(outcomes, waiting);
    const slots = Math.max(0, this.#freeSlots - waiting);
    if (slots + ahead === 0 && batch.length > 0) return await this.#settle(run, batch);
    if (slots + ahead === 0)
      return await new Promise<void>((resolve) => {
        this.#wakeClaim = resolve;
      });
    if (batch.length > 0 || this.#mayHaveMore)
      return await this.#claim(run, { slots, ahead, batch, wait: 0 });
    await this.#settlingAlone(run, this.#claim(run, { slots, ahead, batch, wait: claimWait }));
  }

  /** Until then no claim takes along what ends. */
  async #settlingAlone(run: Run, until: Promise<unknown>): Promise<void> {
    run.settlesByClaims = false;
    this.#settleAlone(run);
    try {
      await until;
    } finally {
      run.settlesByClaims = true;
    }
  }

  /** The client repeats the request with the same id if the answer is lost: it then gets the same tasks. */
  async #claim(run: Run, { slots, ahead, batch, wait }: Claim): Promise<void> {
    try {
      if (batch.length > 0) await run.progress.flush(100);
      const settle = batch.map(([, outcome]) => toldOf(outcome));
      const funcs = run.claims.funcs();
      const asked = {
        ...{ session: run.session, requestId: randomUUID(), slots, ahead, funcs, wait, settle },
        ...toldSharing(run.claims.ask({ funcs, ended: () => [], mayStartLater: undefined })),
      };
      const { signal } = wait > 0 ? run.claiming : run.asking;
      const began = performance.now();
      const { tasks, settled = [] } = await run.client.ask<ClaimAnswer>("/v1/claim", asked, signal, wait);
      const records = tasks.map((task) => recordOf(task, run.session));
      this.#prefetch.end(records, began);
      this.#mayHaveMore = tasks.length >= slots + ahead;
      this.#settled(batch, new Set(settled));
      for (const record of records) this.#accept(run, record);
      this.#fillSlots();
    } finally {
      for (const [attempt] of batch) this.#sent.delete(attempt);
    }
  }

  /** Attempts that have ended hold no slot. */
  get #freeSlots(): number {
    return this.#options.concurrency - (this.#owned.size - this.#ended.size - this.#prefetched.length);
  }

  #accept(run: Run, record: ReturnType<typeof recordOf>): void {
    const { id, generationId } = record;
    for (const known of [...this.#owned]) {
      if (known.record.id !== id) continue;
      if (known.record.generationId >= generationId) return;
      // It has been taken from this attempt, and given to the agent again. One whose outcome is on its way waits for the answer.
      known.lose(new LostGenerationError(id, known.record.generationId), undefined);
    }
    const definition = definitionNamed(record.func) ?? remoteDefinition(record.func);
    const attempt = new RunningAttempt(record, definition, run.host, (ended, outcome) =>
      this.#onEnd(run, ended, outcome),
    );
    this.#owned.add(attempt);
    this.#beatSoon(run);
    if (!definition.fn || run.claiming.signal.aborted) attempt.interrupt();
    else this.#prefetched.push(attempt);
  }

  #fillSlots(): void {
    const now = performance.now();
    while (this.#prefetched.length > 0 && this.#freeSlots > 0) {
      const attempt = this.#prefetched.shift(now) as RunningAttempt;
      this.#prefetch.started();
      this.reportStarted(attempt.record);
      attempt.run();
    }
    this.#prefetched.watch();
  }

  // ---- settle --------------------------------------------------------------------------------

  #onEnd(run: Run, attempt: RunningAttempt, outcome: Outcome | undefined): void {
    if (outcome) {
      this.#ended.set(attempt, outcome);
      if (!run.settlesByClaims) this.#settleAlone(run);
    } else {
      this.#owned.delete(attempt);
      this.#prefetched.remove(attempt);
      this.reportLost(attempt.record, attempt.cancelled);
      if (this.#owned.size === 0) this.#wakeDrained();
    }
    if (this.#freeSlots === this.#options.concurrency) this.#prefetch.stopped();
    this.#wakeClaim();
    // The next task must not run in the async context of the function that has just ended.
    if (this.#prefetched.length > 0) inRootContext(() => this.#fillSlots());
  }

  /** Settles what no claim takes along: one waits for tasks, or none is made. */
  #settleAlone(run: Run): void {
    this.#settling ??= this.#settleAll(run).finally(() => {
      this.#settling = undefined;
      if (this.#owned.size === 0) this.#wakeDrained();
    });
  }

  async #settleAll(run: Run): Promise<void> {
    for (;;) {
      // The attempts that end in one turn of the event loop are settled together.
      await new Promise((resolve) => setImmediate(resolve));
      if (run.closed.signal.aborted || run.settlesByClaims) return;
      const batch = this.#nextBatch();
      if (batch.length === 0) return;
      await this.#settle(run, batch);
    }
  }

  async #settle(run: Run, batch: Batch): Promise<void> {
    try {
      await run.progress.flush(100);
      const tasks = batch.map(([, outcome]) => toldOf(outcome));
      const { settled } = await run.client.ask<SettleAnswer>(
        "/v1/settle",
        { session: run.session, tasks },
        run.closed.signal,
      );
      this.#settled(batch, new Set(settled));
    } catch (error) {
      if (!run.closed.signal.aborted) this.#refused(batch, error);
    } finally {
      for (const [attempt] of batch) this.#sent.delete(attempt);
    }
  }

  /** The next attempts to settle that no request has taken along. */
  #nextBatch(): Batch {
    const batch: [RunningAttempt, Outcome][] = [];
    let characters = 0;
    for (const [attempt, outcome] of this.#ended) {
      if (this.#sent.has(attempt)) continue;
      characters += outcome.kind === "completed" ? (outcome.result?.length ?? 0) : 0;
      if (batch.length > 0 && (batch.length === mostOutcomes || characters > mostCharacters)) break;
      batch.push([attempt, outcome]);
    }
    for (const [attempt] of batch) this.#sent.add(attempt);
    return batch;
  }

  #settled(batch: Batch, settled: ReadonlySet<number>): void {
    for (const [attempt, outcome] of batch) {
      this.#letGo(attempt);
      if (settled.has(outcome.id)) this.reportSettled(attempt.record, outcome);
      else this.reportLost(attempt.record, undefined);
    }
  }

  /** A Manager has refused these outcomes. The agent stops naming the tasks, so Managers free them after a lease. */
  #refused(batch: Batch, error: unknown): void {
    this.reportError(error, "settling tasks");
    for (const [attempt] of batch) {
      this.#letGo(attempt);
      this.reportLost(attempt.record, undefined);
    }
  }

  #letGo(attempt: RunningAttempt): void {
    this.#owned.delete(attempt);
    this.#ended.delete(attempt);
  }

  // ---- beat ----------------------------------------------------------------------------------

  #beatSoon(run: Run): void {
    if (!run.isBeating && !this.#beatTimer) this.#beatIn(run, beatEvery);
  }

  #beatNow(run: Run): void {
    if (run.isBeating) return;
    clearTimeout(this.#beatTimer);
    this.#beatIn(run, Math.max(0, run.beatAt + leastBetweenBeats - performance.now()));
  }

  #beatIn(run: Run, delay: number): void {
    const due = performance.now() + delay;
    const beat = () => {
      warnOfBlocking(performance.now() - due);
      void this.#beat(run);
    };
    this.#beatTimer = setTimeout(beat, delay);
    this.#beatTimer.unref();
  }

  async #beat(run: Run): Promise<void> {
    const running = this.#versions();
    run.isBeating = true;
    run.beatAt = performance.now();
    try {
      if (running.length > 0) {
        const asked = { session: run.session, running };
        const { cancel, reasons, lost, quiet } = await run.client.ask<BeatAnswer>(
          "/v1/beat",
          asked,
          run.closed.signal,
        );
        this.#lose(lost, running);
        this.#cancel(cancel, running, reasons);
        if (quiet) run.client.next();
      }
    } catch (error) {
      if (!run.closed.signal.aborted) this.reportError(error, "telling a Manager what runs");
      // The Managers give the tasks of a refused agent to others.
      if (error instanceof RefusedError && error.status === 401)
        this.#lose(
          running.map(({ id }) => id),
          running,
        );
    }
    run.isBeating = false;
    this.#beatTimer = undefined;
    if (this.#owned.size > 0 && !run.closed.signal.aborted) this.#beatSoon(run);
  }

  /** The tasks that it runs and has not lost. Of two attempts of one task the newer one: the other one has ended, and is being settled. */
  #versions(): Version[] {
    const newest = new Map<number, number>();
    for (const { record, isLost } of this.#owned)
      if (!isLost) newest.set(record.id, Math.max(record.generationId, newest.get(record.id) ?? 0));
    return [...newest].map(([id, generation]) => ({ id, generation }));
  }

  /**
   * The attempts that the Manager means by these ids: those that the request named. If the agent has claimed a task again since,
   * its new attempt is not meant.
   */
  #named(ids: readonly number[], named: readonly Version[]): RunningAttempt[] {
    if (ids.length === 0) return [];
    const meant = new Set(ids);
    const generations = new Map(named.map(({ id, generation }) => [id, generation]));
    return [...this.#owned].filter(
      ({ record }) => meant.has(record.id) && generations.get(record.id) === record.generationId,
    );
  }

  /** Changes nothing for attempts that have ended: the answer to their settle says whether they were lost. */
  #lose(ids: readonly number[], named: readonly Version[]): void {
    for (const attempt of this.#named(ids, named)) {
      const { id, generationId } = attempt.record;
      attempt.lose(new LostGenerationError(id, generationId), undefined);
    }
  }

  #cancel(ids: readonly number[], named: readonly Version[], reasons: BeatAnswer["reasons"]): void {
    for (const attempt of this.#named(ids, named)) {
      const { record } = attempt;
      const row = { ...record, status: "cancelled" as const, generationId: record.generationId + 1 };
      attempt.lose(new TaskCancelledError(record.id, reasons?.[record.id]), row);
    }
  }
}

/** `late`: milliseconds by which a timer fired too late. */
function warnOfBlocking(late: number): void {
  if (late > blockedMs)
    warn(
      `this agent's event loop was blocked for ${Math.round(late / 1_000)} s: after a lease (15 s by default) its tasks run elsewhere, too: ` +
        'give what blocks the option runIn: "thread"',
    );
}

function noDatabase(): never {
  throw new TypeError(
    "currentTask().within(tx): an agent has no access to the queue's database: return the result, or run the task in a worker",
  );
}

export { RefusedError };
