/** Handles the requests of agents (claim, settle, beat, progress), without their HTTP. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { performance, repeat } from "../../base/runtime/timers.ts";
import { groupBy, mapById } from "../../base/values/group-by.ts";
import { sessionClosedChannel, sessionOpenedChannel, taskLostChannel } from "../../events.ts";
import type { Crash, LogLine, Outcome, TaskVersion } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { cancelReason } from "../../worker/ambiguous-results.ts";
import { keptLines, linesPerWrite, mostLines } from "../../worker/logs.ts";
import type { MeteredTask } from "../../worker/meter.ts";
import { writeLines, writeProgress } from "../../worker/refused-notes.ts";
import type { FullInternals } from "../queue.ts";
import { type ClaimLimits, Claims } from "./claims.ts";
import type { AgentRecord, AgentTask } from "./contract.ts";
import { GoneSessions } from "./gone-sessions.ts";
import { type Held, keyOf, Session } from "./session.ts";
import { outcomeOf, Settling, wasSettled } from "./settling.ts";
import type {
  BeatAnswer,
  BeatBody,
  ClaimBody,
  LimitsBody,
  ProgressAnswer,
  ProgressBody,
  SettleAnswer,
  SettleBody,
  SettledTask,
  ToldTask,
  Version,
} from "./wire.ts";

export interface DeskOptions {
  /** Milliseconds. */
  lease: number;
  pollInterval: number;
  /** Bytes of the tasks in one answer. */
  maxAnswer: number;
  /** Sessions that one agent may have at once. */
  maxSessions: number;
}

export interface DeskHost {
  report(error: unknown, where: string): void;
  onRescued(workerId: string, tasks: number): void;
  onCrashes(crashes: readonly Crash[]): void;
  onScheduled(): void;
  ended(task: MeteredTask, outcome: Outcome, ranMs: number | undefined): void;
}

/** What an agent says of attempts that have ended. */
interface Settlement {
  /** Those that its session holds, and their outcomes in the same order. */
  known: readonly SettledTask[];
  outcomes: readonly Outcome[];
  unknown: readonly SettledTask[];
  /** The rows that were read of unknown ones. */
  rows: ReadonlyMap<number, AgentTask>;
}

/** The agent has as many sessions as it may have. */
export class TooManySessionsError extends Error {
  constructor(agent: string, most: number) {
    super(
      `the agent "${agent}" has ${most} sessions already: one ends when its connections close, or after two leases of silence ` +
        "(--max-sessions allows more)",
    );
  }
}

export class Desk {
  /** Begins the ids of the workers' rows of sessions that this Manager registers. */
  readonly name = `${hostname().slice(0, 80)}:${process.pid}:${randomBytes(4).toString("hex")}`;
  readonly #internals: FullInternals;
  readonly #options: DeskOptions;
  readonly #host: DeskHost;
  readonly #claims: Claims;
  readonly #settling: Settling;
  readonly #sessions = new Map<string, Session>();
  readonly #gone: GoneSessions;
  readonly #stopBeating: () => void;
  /** The tasks whose progress the database refuses. */
  readonly #unwritable = new Set<number>();
  #isQuiet = false;

  constructor(internals: FullInternals, options: DeskOptions, host: DeskHost) {
    this.#internals = internals;
    this.#options = options;
    this.#host = host;
    this.#settling = new Settling(internals.store, (...error) => host.report(...error));
    this.#claims = new Claims(internals, this.#settling, {
      ...options,
      name: this.name,
      onScheduled: () => host.onScheduled(),
      report: (...error) => host.report(...error),
    });
    this.#gone = new GoneSessions(internals, host);
    this.#stopBeating = repeat(options.lease / 3, () => this.#tick(), { keepAlive: false });
  }

  /** The number of sessions that it knows. */
  get sessions(): number {
    return this.#sessions.size;
  }

  /** Claims no more, and tells the agents so. */
  quiet(): void {
    this.#isQuiet = true;
    this.#claims.quiet();
  }

  /** Running tasks go on: their agents find another Manager, or this one when it is back. */
  async close(): Promise<void> {
    this.quiet();
    this.#stopBeating();
    await this.#gone.stop();
    for (const session of [...this.#sessions.values()]) this.#forget(session, "stopped");
  }

  /**
   * The session of this agent. Another agent's session of the same id is another session.
   * @throws TooManySessionsError
   */
  session(agent: AgentRecord, id: string): Session {
    const key = keyOfSession(agent, id);
    const known = this.#sessions.get(key);
    if (known) {
      // The token may be a new one of the same agent, with other rights.
      known.agent = agent;
      return known;
    }
    this.#checkRoom(agent.name);
    const session = new Session(agent, id, this.name, (gone) => this.#onGone(gone));
    this.#sessions.set(key, session);
    this.#gone.remove(agent.name, id);
    if (sessionOpenedChannel.hasSubscribers) sessionOpenedChannel.publish(this.#factsOf(session));
    // Another Manager may have registered it. When the database does not answer, the next request looks again.
    session.ready = this.#find(session);
    session.ready.catch(() => this.#forget(session, "failed"));
    return session;
  }

  #checkRoom(name: string): void {
    const { maxSessions } = this.#options;
    let own = 0;
    for (const { agent } of this.#sessions.values()) if (agent.name === name) own += 1;
    if (own >= maxSessions) throw new TooManySessionsError(name, maxSessions);
  }

  #factsOf({ agent, id }: Session) {
    return { agent: agent.name, session: id, manager: this.name };
  }

  /** The next request of the session makes a new one. */
  #forget(session: Session, reason: "disconnected" | "refused" | "silent" | "stopped" | "failed"): void {
    session.end();
    if (!this.#sessions.delete(keyOfSession(session.agent, session.id))) return;
    if (sessionClosedChannel.hasSubscribers)
      sessionClosedChannel.publish({ ...this.#factsOf(session), reason });
  }

  #reportLost({ agent, id }: Session, lost: readonly number[], named: readonly Version[]): void {
    if (lost.length === 0 || !taskLostChannel.hasSubscribers) return;
    const tasks = named
      .filter((one) => lost.includes(one.id))
      .map(({ id: task, generation }) => ({ id: task, generation }));
    taskLostChannel.publish({ agent: agent.name, session: id, tasks });
  }

  async #find(session: Session): Promise<void> {
    const own = (await this.#internals.store.workers()).filter(({ id }) => session.owns(id));
    const newest = own.at(-1);
    if (newest) session.registered(newest.id);
    // Another Manager, whose connections to this agent have closed, sees by this beat that the agent lives.
    await this.#internals.store.agents.beat(own.map(({ id }) => ({ workerId: id, host: session.place })));
  }

  // ---- claim ---------------------------------------------------------------------------------

  /**
   * Settles, and claims in the same write. The claim of a session that still waits ends with no tasks when the next one comes.
   * @param poll aborted when the client has gone
   * @param limits what ends it, without the signal of `poll`
   */
  async claim(
    session: Session,
    body: ClaimBody,
    poll: AbortController,
    limits: Omit<ClaimLimits, "signal">,
  ): Promise<{ tasks: readonly TaskRecord[]; answer: SettleAnswer | undefined }> {
    session.poll?.abort("asked anew");
    session.poll = poll;
    try {
      await session.ready;
      await this.#keep([session], this.#options.lease / 2);
      const settlement = await this.#settlementOf(session, body.settle);
      const { tasks, accepted } = await this.#claims.claim(session, body, settlement.outcomes, {
        ...limits,
        signal: poll.signal,
      });
      const answer = body.settle.length > 0 ? await this.#answer(session, settlement, accepted) : undefined;
      return { tasks, answer };
    } finally {
      if (session.poll === poll) session.poll = undefined;
    }
  }

  // ---- settle --------------------------------------------------------------------------------

  async settle(session: Session, { tasks }: SettleBody): Promise<SettleAnswer> {
    await session.ready;
    const settlement = await this.#settlementOf(session, tasks);
    return await this.#answer(session, settlement, await this.#settling.settle(settlement.outcomes));
  }

  /** Makes the attempts known that it can settle. A throttle is written before them: between the two no task of the group may start. */
  async #settlementOf(session: Session, told: readonly SettledTask[]): Promise<Settlement> {
    const rows = await this.#learn(session, told);
    const [known, unknown, outcomes]: [SettledTask[], SettledTask[], Outcome[]] = [[], [], []];
    const { maxPayload } = this.#internals.options;
    const ending: Held[] = [];
    for (const one of told) {
      const held = session.held.get(keyOf(one))?.task;
      (held ? known : unknown).push(one);
      if (!held) continue;
      ending.push(held);
      outcomes.push(outcomeOf(one, held, maxPayload));
      if (one.status === "throttled") await this.#internals.shared.throttle(held, one.delay);
    }
    this.#claims.ending(ending);
    return { known, unknown, outcomes, rows };
  }

  /** `accepted`: for each of the settlement's outcomes, in order. */
  async #answer(
    session: Session,
    { known, unknown, outcomes, rows }: Settlement,
    accepted: readonly boolean[],
  ): Promise<SettleAnswer> {
    const ended = known.flatMap((told, i) =>
      accepted[i] ? (session.held.get(keyOf(told))?.task ?? []) : [],
    );
    this.#claims.ended(ended);
    const stored = outcomes.map((one, i) => (accepted[i] ? this.#settling.storedFor(one) : undefined));
    this.#tellOthers(stored.flatMap((one) => one ?? []));
    for (const [i, told] of known.entries())
      if (accepted[i]) this.#meter(session.held.get(keyOf(told))?.task, stored[i]);
    const all = [...known, ...unknown];
    for (const told of all) session.held.delete(keyOf(told));
    // Where the database has refused an outcome and the task has failed, the agent's own outcome is lost.
    const isTheirs = (i: number) => stored[i] !== undefined && stored[i]?.kind === outcomes[i]?.kind;
    const refused = known.filter((_, i) => !isTheirs(i));
    const settled = known.filter((_, i) => isTheirs(i)).map(({ id }) => id);
    const answer: SettleAnswer = { settled, lost: [] };
    await this.#judge(session, [...unknown, ...refused], rows, answer);
    this.#reportLost(session, answer.lost, all);
    return answer;
  }

  /** The agent ran it for at most as long as it had it. */
  #meter(held: Held | undefined, outcome: Outcome | undefined): void {
    if (held === undefined || outcome === undefined) return;
    const { givenAt } = held;
    this.#host.ended(held, outcome, givenAt === undefined ? undefined : performance.now() - givenAt);
  }

  /** Adds each task that could not be settled to `answer`: as settled if it had been settled before, otherwise as lost. */
  async #judge(
    session: Session,
    refused: readonly SettledTask[],
    read: ReadonlyMap<number, AgentTask>,
    answer: SettleAnswer,
  ): Promise<void> {
    if (refused.length === 0) return;
    const missing = refused.map(({ id }) => id).filter((id) => !read.has(id));
    const rows = new Map([...read, ...(await this.#rows(missing))]);
    const ended = refused.filter(({ id, status }) => status !== "completed" && rows.has(id));
    const attempts = groupBy(
      await this.#internals.store.agents.attempts(ended.map(versionOf)),
      ({ taskId }) => taskId,
    );
    for (const told of refused) {
      const row = rows.get(told.id);
      if (row && wasSettled(told, row, session, attempts.get(told.id) ?? [])) answer.settled.push(told.id);
      else answer.lost.push(told.id);
    }
  }

  #tellOthers(accepted: readonly Outcome[]): void {
    if (accepted.length === 0) return;
    const { wakeups } = this.#internals;
    wakeups.taskEnded(accepted.map(({ id }) => id));
    const kinds = new Set(accepted.map(({ kind }) => kind));
    if (kinds.has("interrupted")) wakeups.workAdded();
    if (kinds.has("retry") || kinds.has("snoozed")) this.#host.onScheduled();
  }

  async #rows(ids: readonly number[]): Promise<Map<number, AgentTask>> {
    if (ids.length === 0) return new Map();
    return mapById(await this.#internals.store.agents.tasks(ids));
  }

  /** Remembers tasks that another Manager has claimed for the session. @returns the rows that it read */
  async #learn(session: Session, tasks: readonly Version[]): Promise<Map<number, AgentTask>> {
    const rows = await this.#rows(tasks.filter((one) => !session.held.has(keyOf(one))).map(({ id }) => id));
    for (const one of tasks) {
      const row = rows.get(one.id);
      const isHeld = row?.status === "running" && row.generationId === one.generation;
      if (row && isHeld && session.owns(row.workerId)) session.hold(row);
    }
    return rows;
  }

  // ---- beat and progress ---------------------------------------------------------------------

  async beat(session: Session, { running }: BeatBody): Promise<BeatAnswer> {
    const end = session.beginBeat(running);
    try {
      return await this.#beat(session, running);
    } finally {
      end();
      await this.#handBackForgotten([session], this.#options.lease / 3);
    }
  }

  async #beat(session: Session, running: readonly Version[]): Promise<BeatAnswer> {
    await session.ready;
    const { store } = this.#internals;
    await this.#learn(session, running);
    const named = running.flatMap((one) => session.held.get(keyOf(one)) ?? []);
    const workers = this.#workersOf(session, named);
    await store.agents.beat(workers.map((workerId) => ({ workerId, host: session.place })));
    session.beatAt = performance.now();
    const answer: BeatAnswer = { cancel: [], lost: [], quiet: this.#isQuiet };
    if (running.length > 0) {
      const states = mapById(await store.taskStates(running.map(({ id }) => id)));
      for (const one of running) {
        const state = states.get(one.id);
        if (state === undefined || (state.status === "cancelled" && session.held.has(keyOf(one))))
          answer.cancel.push(one.id);
        else if (state.generationId !== one.generation || !session.held.has(keyOf(one)))
          answer.lost.push(one.id);
      }
    }
    if (answer.cancel.length > 0) answer.reasons = await this.#cancelReasons(answer.cancel);
    this.#reportLost(session, answer.lost, running);
    return answer;
  }

  async #cancelReasons(ids: readonly number[]): Promise<Record<string, string>> {
    const cancelled = await this.#internals.store.agents.cancelErrors(ids);
    return Object.fromEntries(
      cancelled.flatMap(({ id, error }) => {
        const why = cancelReason(error);
        return why === undefined ? [] : [[String(id), why]];
      }),
    );
  }

  #workersOf(session: Session, named: readonly { task: Held }[]): string[] {
    const ids = named.flatMap(({ task }) => task.workerId ?? []);
    return [...new Set(session.workerId === undefined ? ids : [session.workerId, ...ids])].sort();
  }

  async progress(session: Session, { tasks }: ProgressBody): Promise<ProgressAnswer> {
    await session.ready;
    const { store, wakeups } = this.#internals;
    await this.#learn(session, tasks);
    const own = tasks.filter((told) => session.held.has(keyOf(told)));
    const filled = own.flatMap((told) =>
      told.maxRetries === undefined ? [] : [{ ...versionOf(told), maxRetries: told.maxRetries }],
    );
    if (filled.length > 0) await store.fillDefaults(filled);
    for (const { id, generationId, maxRetries } of filled) {
      const held = session.held.get(keyOf({ id, generation: generationId }));
      if (held) held.task.maxRetries = maxRetries;
    }
    const notes = own.flatMap((told) =>
      told.progress === undefined
        ? []
        : [{ ...versionOf(told), progress: told.progress, note: told.note ?? null }],
    );
    const report: DeskHost["report"] = (...error) => this.#host.report(...error);
    await writeProgress(store, notes, report, this.#unwritable);
    const lines = own.flatMap((told) => linesOf(told, session.held.get(keyOf(told))?.task));
    for (let i = 0; i < lines.length; i += linesPerWrite)
      await writeLines(store, lines.slice(i, i + linesPerWrite), keptLines, report);
    wakeups.taskNoted();
    const states = mapById(await store.taskStates(tasks.map(({ id }) => id)));
    const isLost = ({ id, generation }: Version) => states.get(id)?.generationId !== generation;
    return { lost: tasks.filter((told) => isLost(told) || !own.includes(told)).map(({ id }) => id) };
  }

  // ---- limits --------------------------------------------------------------------------------

  /** Writes the limits that the code of an agent has for its functions, as a worker does before its first claim. */
  async limits({ limits }: LimitsBody): Promise<void> {
    await this.#internals.store.limits.declare(limits);
    this.#internals.wakeups.workAdded();
  }

  // ---- sessions that end ---------------------------------------------------------------------

  /** Beats for these sessions, and compares their rows with what they name, if that was done `age` milliseconds ago or more. */
  async #keep(sessions: readonly Session[], age: number): Promise<void> {
    const now = performance.now();
    const silent = sessions.filter(({ beatAt }) => now - beatAt >= age);
    for (const session of silent) session.beatAt = now;
    const beats = silent.flatMap(({ workerId, place: host }) =>
      workerId === undefined ? [] : [{ workerId, host }],
    );
    await this.#internals.store.agents.beat(beats);
    await this.#handBackForgotten(sessions, age);
  }

  /**
   * Hands back the tasks that the sessions have claimed but have not named for a lease. The answer to their claim was lost, and
   * the agent did not ask for it again. Or they were settled, and a server that crashed, or a standby that took over, has lost that.
   */
  async #handBackForgotten(sessions: readonly Session[], age: number): Promise<void> {
    const now = performance.now();
    const { lease } = this.#options;
    const due = sessions.filter(
      ({ workerId, comparedAt }) => workerId !== undefined && now - comparedAt >= age,
    );
    for (const session of due) session.comparedAt = now;
    await this.#learnHeld(due);
    for (const session of due) {
      const forgotten = session.forgotten(lease);
      const outcomes = forgotten.map((task): Outcome => ({ ...task, kind: "interrupted" }));
      const accepted = await this.#settling.settle(outcomes);
      this.#tellOthers(outcomes.filter((_, i) => accepted[i]));
      for (const { id, generationId } of forgotten)
        session.held.delete(keyOf({ id, generation: generationId }));
    }
  }

  /** Reads which tasks the rows give to these sessions. From now on they are known: an agent has a lease to name them. */
  async #learnHeld(sessions: readonly Session[]): Promise<void> {
    const { store } = this.#internals;
    const byWorker = new Map(sessions.map((session) => [session.workerId as string, session]));
    const held = await store.agents.held([...byWorker.keys()]);
    const unknown = held.filter(
      ({ id, generationId, workerId }) =>
        !byWorker.get(workerId)?.held.has(keyOf({ id, generation: generationId })),
    );
    if (unknown.length === 0) return;
    for (const task of await store.agents.tasks(unknown.map(({ id }) => id)))
      byWorker.get(task.workerId ?? "")?.hold(task, { isFound: true });
  }

  /**
   * Writes heartbeats for the sessions that wait for tasks, and forgets those that have long been silent. A connection alone is no
   * sign of life: that of a machine without power stays open. But the agent of a session that waits beats for no task that it
   * does not know: without these heartbeats such a task would be charged with a crash. A connection does not keep a silent session
   * either: behind a proxy, it carries those of other agents.
   */
  #tick(): void {
    const now = performance.now();
    const waiting: Session[] = [];
    for (const session of [...this.#sessions.values()]) {
      const hasLeft = !session.isConnected || session.poll === undefined;
      if (hasLeft && now - session.lastSeen > 2 * this.#options.lease) this.#forget(session, "silent");
      else if (session.poll !== undefined && !session.hasTasks) waiting.push(session);
    }
    this.#keep(waiting, 0).catch((error: unknown) =>
      this.#host.report(error, "writing the heartbeats of agents"),
    );
  }

  /** All connections of the session have closed. A Manager that stops closes them itself. */
  #onGone(session: Session): void {
    if (this.#isQuiet || this.#sessions.get(keyOfSession(session.agent, session.id)) !== session) return;
    this.#free(session, "disconnected");
  }

  /**
   * Frees the sessions of an agent whose token was refused. The agent aborts its tasks and can settle none, so other agents get
   * these tasks now. The Manager cannot wait for the agent's connections to close: they stay open, and one may hold a claim
   * that waits.
   */
  release(tokenHash: string): void {
    if (this.#isQuiet) return;
    for (const session of [...this.#sessions.values()])
      if (session.agent.tokenHash === tokenHash) this.#free(session, "refused");
  }

  #free(session: Session, reason: "disconnected" | "refused"): void {
    this.#forget(session, reason);
    this.#gone.add(session, reason === "refused" ? "had its token revoked, or its token expired" : undefined);
  }
}

const versionOf = ({ id, generation }: Version): TaskVersion => ({ id, generationId: generation });

/** As many as one attempt may write. dbq's own agents stop there, and then log how many were dropped: that line is the last. */
function linesOf(told: ToldTask, held: Held | undefined): LogLine[] {
  const { log = [] } = told;
  if (held === undefined) return [];
  const kept = log.slice(0, mostLines + 1 - held.lines);
  held.lines += kept.length;
  return kept.map((line) => ({ ...versionOf(told), ...line }));
}

const keyOfSession = (agent: AgentRecord, id: string): string => `${agent.name}/${id}`;
