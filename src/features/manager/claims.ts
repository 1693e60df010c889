/** Claims for agents: each looks at once, and waits for tasks when there are none. */
import { performance } from "../../base/runtime/timers.ts";
import { cutToLevels } from "../../base/text/levels.ts";
import { decodeArgs, decodeObject, maxDepth } from "../../base/values/codec.ts";
import { describeThrown, failureOf } from "../../base/values/thrown.ts";
import { KeyMissingError, TaskCorruptError } from "../../errors.ts";
import type { ClaimRequest, Outcome, SettleAndClaimResult } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { watchForWork } from "../../worker/change-listener.ts";
import { SetAside } from "../../worker/set-aside.ts";
import { limitsAnswered, limitsAsked } from "../limits/contract.ts";
import type { FullInternals } from "../queue.ts";
import type { AnswerPlace } from "./answers.ts";
import { type AgentRecord, sessionAnswered, sessionAsked } from "./contract.ts";
import { Polls } from "./polls.ts";
import { type Held, keyOf, type Session } from "./session.ts";
import type { Settling } from "./settling.ts";
import type { ClaimBody } from "./wire.ts";

/** Milliseconds for which a look that has found nothing counts for the next claim of its session. */
const freshMs = 50;

/** Ended tasks that one claim is told of: the store takes no more. */
const mostFreed = 256;

export interface ClaimOptions {
  /** Begins the ids of the workers' rows of sessions that this Manager registers. */
  name: string;
  /** Milliseconds. */
  lease: number;
  pollInterval: number;
  /** Bytes of the tasks in one answer. */
  maxAnswer: number;
  /** Tasks were scheduled. */
  onScheduled(): void;
  report(error: unknown, where: string): void;
}

/** What ends a claim that waits. */
export interface ClaimLimits {
  /** Aborted when the client has gone. */
  signal: AbortSignal;
  /** The agent as its token allows it now; undefined: the token is not valid any more. */
  rights(): Promise<AgentRecord | undefined>;
  /** Left at once after a look that has found nothing; otherwise, the caller leaves it when the answer was sent. */
  place: AnswerPlace;
}

/** Whether the agent may run all of these functions. */
export const mayRun = ({ funcs }: AgentRecord, asked: readonly string[]): boolean =>
  asked.every((name) => funcs.includes(name));

export interface ClaimedTasks {
  tasks: readonly TaskRecord[];
  /** For each outcome, in order, whether it was accepted. */
  accepted: boolean[];
}

export class Claims {
  readonly #internals: FullInternals;
  readonly #settling: Settling;
  readonly #options: ClaimOptions;
  readonly #polls: Polls;
  /** Functions of which no agent gets a task for a while: this process lacks the key. */
  readonly #setAside: SetAside;
  /** The functions whose tasks a limit or a pause was about in their last claim. */
  readonly #limited = new Set<string>();
  /** Tasks with a group that have ended since the last claim, or end with the next one. */
  readonly #freed: Held[] = [];
  #isQuiet = false;

  constructor(internals: FullInternals, settling: Settling, options: ClaimOptions) {
    this.#internals = internals;
    this.#settling = settling;
    this.#options = options;
    const { store, wakeups } = internals;
    this.#setAside = new SetAside(options.report, () => wakeups.workAdded());
    this.#polls = new Polls(options.pollInterval, [
      (listener) => watchForWork(store, listener),
      (listener) => wakeups.onWorkAdded(listener),
    ]);
  }

  /** From now on no claim finds anything, and those that wait are answered. */
  quiet(): void {
    this.#isQuiet = true;
    this.#polls.stop();
  }

  /**
   * Settles these outcomes, and claims in the same write. Waits for tasks when there are none, and resolves with none when none
   * came in time or the signal was aborted. A claim that settles does not wait: its agent wants to know that it has settled.
   */
  async claim(
    session: Session,
    body: ClaimBody,
    outcomes: readonly Outcome[],
    limits: ClaimLimits,
  ): Promise<ClaimedTasks> {
    const { signal } = limits;
    const { funcs, sharing } = body;
    const key = JSON.stringify([session.agent.queues, funcs, [...(sharing ?? [])]]);
    const end = performance.now() + (body.settle.length > 0 ? 0 : body.wait);
    let { wakes } = this.#polls;
    if (this.#isQuiet || signal.aborted || funcs.length === 0)
      return { tasks: [], accepted: await this.#settling.settle(outcomes) };
    const first = this.#hasJustLooked(session, body)
      ? { tasks: [], accepted: [], more: false }
      : await this.#lookInTurn(session, body, outcomes, key, limits);
    let { tasks, more } = first;
    while (tasks.length === 0 && (await this.#polls.turn(key, wakes, end - performance.now(), signal))) {
      wakes = this.#polls.wakes;
      ({ tasks, more } = await this.#lookInTurn(session, body, [], key, limits));
    }
    if (more) this.#polls.found(key);
    session.emptyLook = tasks.length === 0 && !more ? { wakes, at: performance.now() } : undefined;
    return { tasks, accepted: first.accepted };
  }

  /**
   * An agent that has settled and found nothing asks again at once, to wait. It waits for a wake-up or the next poll, which would
   * also find out that the request is a repeated one.
   */
  #hasJustLooked({ emptyLook }: Session, { settle, wait }: ClaimBody): boolean {
    if (!emptyLook || settle.length > 0 || wait === 0) return false;
    return emptyLook.wakes === this.#polls.wakes && performance.now() - emptyLook.at < freshMs;
  }

  async #lookInTurn(
    session: Session,
    body: ClaimBody,
    outcomes: readonly Outcome[],
    key: string,
    { signal, rights, place }: ClaimLimits,
  ): Promise<ClaimedTasks & { more: boolean }> {
    let hasTasks = false;
    try {
      const isIn = await place.enter(signal);
      // While the claim waited, the token may have been revoked, or have expired, or the agent may have got other rights.
      const agent = isIn ? await rights() : undefined;
      if (!agent || !mayRun(agent, body.funcs) || signal.aborted)
        return { tasks: [], accepted: await this.#settling.settle(outcomes), more: false };
      session.agent = agent;
      const found = await this.#look(session, body, outcomes, key);
      hasTasks = found.tasks.length > 0;
      return found;
    } finally {
      if (!hasTasks) place.leave();
    }
  }

  async #look(
    session: Session,
    asked: ClaimBody,
    outcomes: readonly Outcome[],
    key: string,
  ): Promise<ClaimedTasks & { more: boolean }> {
    const body = { ...asked, funcs: this.#setAside.among(asked.funcs) };
    if (session.workerId === undefined) await this.#register(session, body.slots);
    if (session.hasEnded || body.funcs.length === 0)
      return { tasks: [], accepted: await this.#settling.settle(outcomes), more: false };
    const { registrations } = session;
    const claim = async (anew: boolean, settled: readonly Outcome[]) => {
      const freed = this.#freed.splice(0);
      const request = claimOf(session, body, { anew, freed, mostBytes: this.#mostBytes(body) });
      const { result, accepted } = await this.#settling.claim(request, settled);
      this.#learn(body.funcs, key, result);
      return { result, accepted };
    };
    const { result, accepted } = await claim(false, outcomes);
    const isRepeated = sessionAnswered.of(result) === "repeated";
    if (isRepeated) {
      const tasks = await this.#internals.store.agents.claimed(session.workerId as string);
      for (const task of tasks) session.hold(task);
      if (tasks.length > 0)
        return { tasks: await this.#fitting(session, tasks, body), accepted, more: false };
    }
    let last = result;
    // The agent may be gone, and its row with it: another one would keep tasks from the other agents for a lease.
    if (!session.hasEnded) {
      if (!result.registered && session.registrations === registrations)
        await this.#register(session, body.slots);
      if (isRepeated || !result.registered) ({ result: last } = await claim(isRepeated, []));
    }
    return { tasks: await this.#take(session, last, body), accepted, more: last.more };
  }

  #learn(funcs: readonly string[], key: string, result: SettleAndClaimResult): void {
    const limits = limitsAnswered.of(result);
    for (const func of funcs)
      if (limits) this.#limited.add(func);
      else this.#limited.delete(func);
    // It has put tasks off, which makes no wake-up here: they are due before the next look for due tasks.
    if (limits?.again === 0) this.#options.onScheduled();
    this.#polls.lookAgain(key, limits?.again);
  }

  /** The next claim settles these tasks, or comes after that: their groups may have room. */
  ending(tasks: readonly Held[]): void {
    const inGroups = tasks.filter(({ groupKey }) => groupKey !== null);
    this.#freed.push(...inGroups.slice(0, mostFreed - this.#freed.length));
  }

  /** These tasks are settled: a limit may have a place for another task. */
  ended(tasks: readonly Held[]): void {
    if (tasks.some(({ func }) => this.#limited.has(func))) this.#internals.wakeups.workAdded();
  }

  async #take(
    session: Session,
    { claimed, ...answer }: SettleAndClaimResult,
    body: ClaimBody,
  ): Promise<readonly TaskRecord[]> {
    if (claimed.length === 0) return [];
    const now = performance.now();
    session.beatAt = now;
    this.#internals.wakeups.taskNoted();
    const startsIn = limitsAnswered.of(answer)?.startsIn;
    for (const task of claimed) {
      const wait = startsIn?.get(task.id);
      session.hold(task, { givenAt: now, startsAt: wait === undefined ? undefined : now + wait });
    }
    return await this.#fitting(session, await this.#readable(session, claimed), body);
  }

  #mostBytes({ maxBytes }: ClaimBody): number {
    return Math.min(maxBytes ?? Number.POSITIVE_INFINITY, this.#options.maxAnswer);
  }

  /** As many as one answer may hold, and one at least. The others go back to the queue, and no retry is charged. */
  async #fitting(
    session: Session,
    tasks: readonly TaskRecord[],
    body: ClaimBody,
  ): Promise<readonly TaskRecord[]> {
    if (tasks.length === 0) return tasks;
    const most = this.#mostBytes(body);
    let bytes = 0;
    let count = 0;
    for (const [i, task] of tasks.entries()) {
      bytes += bytesOf(task);
      if (bytes <= most || i === 0) count = i + 1;
    }
    session.bytesPerTask = bytes / tasks.length;
    if (count === tasks.length) return tasks;
    const others = tasks.slice(count);
    await this.#settling.settle(others.map((task): Outcome => ({ ...task, kind: "interrupted" })));
    for (const { id, generationId } of others) session.held.delete(keyOf({ id, generation: generationId }));
    this.#internals.wakeups.workAdded();
    return tasks.slice(0, count);
  }

  /**
   * A row whose JSON cannot be read, has numbers that JavaScript would change, or is so deep that an agent could not walk it, fails its
   * task and no other.
   */
  async #readable(session: Session, claimed: readonly TaskRecord[]): Promise<TaskRecord[]> {
    const [good, bad]: [TaskRecord[], Outcome[]] = [[], []];
    for (const task of claimed) {
      try {
        checkCarried(task);
        good.push(task);
      } catch (error) {
        // A Manager that has the key can hand it out.
        if (error instanceof KeyMissingError) {
          this.#setAside.add(task, error);
          bad.push({ ...task, kind: "interrupted" });
        } else bad.push({ ...task, kind: "failed", ...failureOf("failed", describeThrown(error)) });
      }
    }
    if (bad.length > 0) {
      await this.#settling.settle(bad);
      this.#internals.wakeups.taskEnded(bad.map(({ id }) => id));
      for (const { id, generationId } of bad) session.held.delete(keyOf({ id, generation: generationId }));
    }
    return good;
  }

  /**
   * Registers a row without a process, since the agent's runs elsewhere: only heartbeats show that the agent lives. One
   * registration after another: the second one finds that the first has done it.
   */
  async #register(session: Session, concurrency: number): Promise<void> {
    const before = session.registrations;
    const next = session.ready.then(async () => {
      if (session.registrations !== before) return;
      const id = `${this.#options.name}${session.suffix}`;
      const nowhere = { bootId: null, pidNamespace: null, pid: 0, processStart: null };
      const { queues: queueNames } = session.agent;
      const { lease } = this.#options;
      await this.#internals.store.register({
        ...{ id, queueNames, concurrency, lease, host: session.place },
        ...nowhere,
      });
      session.registered(id);
    });
    session.ready = next.catch(() => undefined);
    await next;
  }
}

/** @throws TaskCorruptError */
function checkCarried({ args, kwargs, meta, traceContext }: TaskRecord): void {
  checkLevels(args, "args");
  decodeArgs(args);
  checkObject(kwargs, "kwargs");
  checkObject(meta, "meta");
  if (traceContext !== null) checkObject(traceContext, "trace_context");
}

/** @throws TaskCorruptError */
function checkObject(text: string, column: string): void {
  checkLevels(text, column);
  decodeObject(text, column);
}

/** @throws TaskCorruptError */
function checkLevels(text: string, column: string): void {
  if (cutToLevels(text, maxDepth) !== text)
    throw new TaskCorruptError(column, `more than ${maxDepth} levels deep`);
}

interface ToClaim {
  /** The tasks that the same request has claimed do not run any more. */
  anew: boolean;
  /** Tasks with a group that have ended, or end with the claim. */
  freed: readonly Held[];
  /** Bytes of the tasks in one answer. */
  mostBytes: number;
}

/** A crash is charged to all tasks that an agent has, started or not: of those ahead of its slots none may be crash-sensitive. */
function claimOf(session: Session, body: ClaimBody, { anew, freed, mostBytes }: ToClaim): ClaimRequest {
  const { workerId, agent, place: host, bytesPerTask } = session;
  const { slots, ahead, funcs, requestId, sharing, later: held } = body;
  // By the size of the last tasks, so that few of them have to be handed back.
  const limit = Math.max(1, Math.min(slots + ahead, Math.floor(mostBytes / bytesPerTask)));
  const crashSensitive = Math.min(slots, limit);
  const limits = limitsAsked.with({ ...(sharing && { sharing }), ...(freed.length > 0 && { freed }), held });
  return {
    ...{ workerId: workerId as string, queueNames: agent.queues, funcs, limit, crashSensitive },
    ...sessionAsked.with({ id: requestId, host, anew }, limits),
  };
}

/** In the answer, but for names and numbers, which are some 300 bytes. */
const bytesOf = ({ func, args, kwargs, meta, traceContext }: TaskRecord): number =>
  300 +
  [func, args, kwargs, meta, traceContext ?? ""].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
