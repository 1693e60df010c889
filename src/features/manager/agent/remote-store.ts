/**
 * What a dispatcher needs of a store, by requests to Managers: a claim and the outcomes before it are `/v1/claim`, other outcomes
 * `/v1/settle`, the states of tasks `/v1/beat`, and what running tasks tell `/v1/progress`.
 */
import { randomUUID } from "node:crypto";
import { after, performance, sleep, type Timer } from "../../../base/runtime/timers.ts";
import { portionsOf } from "../../../base/values/portions.ts";
import { warn } from "../../../events.ts";
import type {
  ClaimRequest,
  LogLine,
  Outcome,
  SettleAndClaim,
  SettleAndClaimResult,
  TaskState,
  TaskVersion,
} from "../../../store.ts";
import type { TaskRecord } from "../../../task.ts";
import type { DispatcherHost } from "../../../worker/dispatcher-host.ts";
import type {
  BeatAnswer,
  ClaimAnswer,
  ProgressAnswer,
  SettleAnswer,
  ToldLimit,
  ToldTask,
  Version,
} from "../wire.ts";
import { type Client, RefusedError } from "./client.ts";
import {
  cancelledOf,
  heardOf,
  recordOf,
  toldAsk,
  toldDefaults,
  toldLines,
  toldOf,
  toldProgress,
} from "./messages.ts";

/** Milliseconds that a claim waits at the Manager. */
const claimWait = 25_000;
/** Milliseconds until an agent that was refused asks again: its token may have been replaced by then. */
const refusedPause = 5_000;
/** Outcomes in one request, and the characters of their results. */
const mostOutcomes = 500;
const mostCharacters = 1_000_000;
/** Milliseconds between two beats while tasks run: a cancel reaches its function within them. */
export const beatEvery = 800;
/** Milliseconds by which a beat may be late: a third of a Manager's default lease. */
const blockedMs = 5_000;
/** The least milliseconds between two beats, also where each answer ends its connection. */
const leastBetweenBeats = 100;
/** Milliseconds after the agent stops claiming for which it waits for the answer to a claim. */
const lastClaimMs = 5_000;

type Store = DispatcherHost["store"];

export interface RemoteStoreHost {
  readonly client: Client;
  readonly session: string;
  /** Asks for the states of these tasks, or of all, by `taskStates`, and ends the attempts whose tasks the agent has lost. */
  look(ids?: readonly number[]): void;
  report(error: unknown, where: string): void;
}

export class RemoteStore implements Store {
  readonly synchronous = false;
  readonly #host: RemoteStoreHost;
  /** The tasks that it has claimed and has neither settled nor lost, at their newest generation. */
  readonly #claimed = new Map<number, TaskRecord>();
  /** The rows of the tasks that were cancelled since the last look at them. */
  readonly #cancelled = new Map<number, TaskRecord>();
  /** The tasks that it has claimed again: their earlier attempts are lost, which no Manager has to say. */
  readonly #claimedAgain = new Set<number>();
  /** Ends all requests. */
  readonly #closed = new AbortController();
  /** Ends the claim that waits, and begins none from now on. */
  readonly #claiming = new AbortController();
  /** Ends the claim that does not wait. */
  readonly #asking = new AbortController();
  /** Whether the last claim found as many tasks as it asked for. */
  #mayHaveMore = true;
  /** The answer to the claim of the start, for the dispatcher's first one. */
  #first: ClaimAnswer | undefined;
  /** When a refused claim may be made again, on the clock of `performance.now()`. */
  #refusedUntil = Number.NEGATIVE_INFINITY;
  /** A claim waits for tasks, or for the end of the pause after a refusal. */
  isWaiting = false;
  /** Whether a beat is under way: it asks until a Manager answers. */
  #isBeating = false;
  /** When the last beat was sent, and when the next one is due, on the clock of `performance.now()`. */
  #beatAt = Number.NEGATIVE_INFINITY;
  #beatDue = Number.POSITIVE_INFINITY;
  #beatTimer: Timer | undefined;

  constructor(host: RemoteStoreHost) {
    this.#host = host;
    // The Manager frees the tasks of an agent without a connection: a request makes a new one.
    host.client.onDisconnect = () => this.#beatSoon();
  }

  /** Writes the limits of functions. */
  async declare(limits: Record<string, ToldLimit | null>): Promise<void> {
    const { client, session } = this.#host;
    await client.ask("/v1/limits", { session, limits }, this.#claiming.signal);
  }

  /** Makes the first claim. @throws RefusedError for a wrong token, or a function that is not the agent's */
  async begin(claim: ClaimRequest): Promise<void> {
    this.#first = await this.#ask(claim, [], 0, this.#claiming.signal);
  }

  // ---- settle and claim ----------------------------------------------------------------------

  async settleAndClaim({ outcomes, claim }: SettleAndClaim): Promise<SettleAndClaimResult> {
    const settled: boolean[] = [];
    const batches = batchesOf(outcomes);
    const last = claim && performance.now() >= this.#refusedUntil ? (batches.pop() ?? []) : undefined;
    for (const batch of batches) settled.push(...(await this.#settle(batch)));
    if (!claim) return { settled, claimed: [], more: false, registered: true };
    if (last) return await this.#claim(claim, last, settled);
    // The dispatcher hears first which outcomes were accepted, and then the next claim waits for the end of the pause.
    if (outcomes.length === 0) await this.#waiting(this.#pause());
    return { settled, claimed: [], more: true, registered: true };
  }

  /** The client repeats the request with the same id if the answer is lost: it then gets the same tasks. */
  async #claim(
    claim: ClaimRequest,
    outcomes: readonly Outcome[],
    before: readonly boolean[],
  ): Promise<SettleAndClaimResult> {
    const nothing = { claimed: [], registered: true };
    const { funcs, limit } = claim;
    if (!this.#first && (funcs.length === 0 || this.#claiming.signal.aborted))
      return { ...nothing, settled: [...before, ...(await this.#settle(outcomes))], more: false };
    const wait = outcomes.length > 0 || this.#mayHaveMore ? 0 : claimWait;
    try {
      const { tasks, settled } = this.#takeFirst() ?? (await this.#answer(claim, outcomes, wait));
      this.#mayHaveMore = tasks.length >= limit;
      const accepted = this.#settledAmong(outcomes, settled);
      // Among them may be a task that the same request has handed back.
      const claimed = this.#hold(tasks.map((task) => recordOf(task, this.#host.session)));
      return { claimed, registered: true, settled: [...before, ...accepted], more: true, ...heardOf(tasks) };
    } catch (error) {
      const settled = [...before, ...(await this.#settle(outcomes))];
      if (this.#claiming.signal.aborted) return { ...nothing, settled, more: false };
      this.#host.report(error, "claiming tasks");
      this.#refusedUntil = performance.now() + refusedPause;
      return { ...nothing, settled, more: true };
    }
  }

  #takeFirst(): ClaimAnswer | undefined {
    const first = this.#first;
    this.#first = undefined;
    return first;
  }

  async #answer(claim: ClaimRequest, outcomes: readonly Outcome[], wait: number): Promise<ClaimAnswer> {
    if (wait === 0) return await this.#ask(claim, outcomes, wait, this.#asking.signal);
    return await this.#waiting(this.#ask(claim, outcomes, wait, this.#claiming.signal));
  }

  async #ask(
    claim: ClaimRequest,
    outcomes: readonly Outcome[],
    wait: number,
    signal: AbortSignal,
  ): Promise<ClaimAnswer> {
    const { funcs, limit, crashSensitive = limit } = claim;
    const slots = Math.min(limit, crashSensitive);
    const { client, session } = this.#host;
    const asked = {
      ...{ session, requestId: randomUUID(), slots, ahead: limit - slots, funcs, wait },
      settle: outcomes.map(toldOf),
      ...toldAsk(claim),
    };
    return await client.ask<ClaimAnswer>("/v1/claim", asked, signal, wait);
  }

  async #waiting<T>(until: Promise<T>): Promise<T> {
    this.isWaiting = true;
    try {
      return await until;
    } finally {
      this.isWaiting = false;
    }
  }

  /** It keeps the process alive: while the agent is refused, nothing else may. */
  async #pause(): Promise<void> {
    const { signal } = this.#claiming;
    await sleep(this.#refusedUntil - performance.now(), undefined, { signal }).catch(() => undefined);
  }

  /** Leaves out what the agent has already. Of two generations of a task the older one has been taken from it. */
  #hold(records: readonly TaskRecord[]): TaskRecord[] {
    const added = records.filter(
      ({ id, generationId }) => generationId > (this.#claimed.get(id)?.generationId ?? 0),
    );
    const again = added.filter(({ id }) => this.#claimed.has(id)).map(({ id }) => id);
    for (const id of again) this.#claimedAgain.add(id);
    if (this.#claimed.size === 0) this.#beatDue = performance.now() + beatEvery;
    for (const record of added) this.#claimed.set(record.id, record);
    if (again.length > 0) this.#host.look(again);
    return added;
  }

  async #settle(outcomes: readonly Outcome[]): Promise<boolean[]> {
    if (outcomes.length === 0) return [];
    const { client, session, report } = this.#host;
    let settled: number[] = [];
    try {
      const asked = { session, tasks: outcomes.map(toldOf) };
      ({ settled } = await client.ask<SettleAnswer>("/v1/settle", asked, this.#closed.signal));
    } catch (error) {
      // The agent stops naming the tasks, so Managers free them after a lease.
      if (!this.#closed.signal.aborted) report(error, "settling tasks");
    }
    return this.#settledAmong(outcomes, settled);
  }

  #settledAmong(outcomes: readonly Outcome[], settled: readonly number[] = []): boolean[] {
    const accepted = new Set(settled);
    for (const outcome of outcomes) this.#letGo(outcome);
    return outcomes.map(({ id }) => accepted.has(id));
  }

  #letGo({ id, generationId }: TaskVersion): void {
    if (this.#claimed.get(id)?.generationId === generationId) this.#claimed.delete(id);
  }

  /** A claim without an answer is repeated until a Manager answers, so that no task is held without the agent's knowledge. */
  async heldBy(): Promise<[]> {
    return [];
  }

  // ---- states --------------------------------------------------------------------------------

  /** Tells a Manager what runs here. A task that the agent has lost is in a state that its attempt did not make. */
  async taskStates(ids: readonly number[]): Promise<TaskState[]> {
    const isToBeTold = (id: number) => this.#claimed.has(id) && !this.#claimedAgain.delete(id);
    if (ids.some(isToBeTold)) await this.#beat();
    return ids.map((id): TaskState => {
      const cancelled = this.#cancelled.get(id);
      if (cancelled) return { id, generationId: cancelled.generationId, status: "cancelled" };
      const generationId = this.#claimed.get(id)?.generationId;
      return generationId === undefined
        ? { id, generationId: 0, status: "pending" }
        : { id, generationId, status: "running" };
    });
  }

  async #beat(): Promise<void> {
    const { client, session, report } = this.#host;
    const running = [...this.#claimed.values()].map(({ id, generationId }) => ({
      id,
      generation: generationId,
    }));
    this.#beatAt = performance.now();
    warnOfBlocking(this.#beatAt - this.#beatDue);
    this.#isBeating = true;
    try {
      const answer = await client.ask<BeatAnswer>("/v1/beat", { session, running }, this.#closed.signal);
      this.#lose(running, answer);
      if (answer.quiet) client.next();
    } catch (error) {
      if (!this.#closed.signal.aborted) report(error, "telling a Manager what runs");
      // The Managers give the tasks of a refused agent to others.
      if (error instanceof RefusedError && error.status === 401)
        this.#lose(running, { cancel: [], lost: running.map(({ id }) => id) });
    }
    this.#isBeating = false;
    this.#beatDue = performance.now() + beatEvery;
  }

  /** `named`: what the request named. If the agent has claimed a task again since, its new attempt is not meant. */
  #lose(
    named: readonly Version[],
    { cancel, reasons, lost }: Pick<BeatAnswer, "cancel" | "reasons" | "lost">,
  ): void {
    const generations = new Map(named.map(({ id, generation }) => [id, generation]));
    for (const id of [...cancel, ...lost]) {
      const record = this.#claimed.get(id);
      if (!record || record.generationId !== generations.get(id)) continue;
      this.#claimed.delete(id);
      if (cancel.includes(id)) this.#cancelled.set(id, cancelledOf(record, reasons?.[id]));
    }
  }

  #beatSoon(): void {
    if (this.#claimed.size === 0 || this.#isBeating || this.#closed.signal.aborted) return;
    const look = () => {
      this.#beatTimer = undefined;
      this.#host.look();
    };
    const wait = Math.max(0, this.#beatAt + leastBetweenBeats - performance.now());
    this.#beatTimer ??= after(wait, look, { keepAlive: false });
  }

  /** The rows of cancelled tasks, once: the agent has no others. */
  async get(ids: readonly number[]): Promise<TaskRecord[]> {
    const found = ids.flatMap((id) => this.#cancelled.get(id) ?? []);
    for (const { id } of found) this.#cancelled.delete(id);
    return found;
  }

  // ---- what running tasks tell ---------------------------------------------------------------

  async progress(notes: readonly (TaskVersion & { progress: number; note: string | null })[]): Promise<void> {
    await this.#tell(toldProgress(notes));
  }

  async log(lines: readonly LogLine[]): Promise<void> {
    await this.#tell(toldLines(lines));
  }

  async fillDefaults(tasks: readonly (TaskVersion & { maxRetries: number })[]): Promise<void> {
    await this.#tell(toldDefaults(tasks));
  }

  async #tell(tasks: ToldTask[]): Promise<void> {
    const { client, session, look } = this.#host;
    const { lost } = await client.ask<ProgressAnswer>(
      "/v1/progress",
      { session, tasks },
      this.#closed.signal,
    );
    this.#lose(tasks, { cancel: [], lost });
    if (lost.length > 0) look(lost);
  }

  /**
   * One request at a time: the next one settles the attempts that end meanwhile. While a claim waits for tasks, the dispatcher settles
   * them beside it.
   */
  cyclesMayOverlap(): boolean {
    return false;
  }

  within(): never {
    throw new TypeError(
      "currentTask().within(tx): an agent has no access to the queue's database: return the result, or run the task in a worker",
    );
  }

  // ---- stop ----------------------------------------------------------------------------------

  /** Ends the claim that waits. One that does not may bring tasks, which are handed back if the answer comes in time. */
  stopClaiming(): void {
    this.#claiming.abort();
    after(lastClaimMs, () => this.#asking.abort(), { keepAlive: false });
  }

  /** Ends all requests. */
  close(): void {
    this.#claiming.abort();
    this.#asking.abort();
    this.#closed.abort();
    this.#beatTimer?.clear();
    this.#host.client.close();
  }
}

/** At least one, so that a claim takes the last one along. */
function batchesOf(outcomes: readonly Outcome[]): Outcome[][] {
  const lengthOf = (outcome: Outcome) => (outcome.kind === "completed" ? (outcome.result?.length ?? 0) : 0);
  const batches = [...portionsOf(outcomes, lengthOf, { count: mostOutcomes, size: mostCharacters })];
  return batches.length > 0 ? batches : [[]];
}

/** `late`: milliseconds by which a beat was sent too late. */
function warnOfBlocking(late: number): void {
  if (late > blockedMs)
    warn(
      `this agent's event loop was blocked for ${Math.round(late / 1_000)} s: after a lease (15 s by default) its tasks run elsewhere, too: ` +
        'give what blocks the option runIn: "thread"',
    );
}
