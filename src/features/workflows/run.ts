/**
 * The workflow side of one attempt. It gives a step that is stored its value, stores the others, and waits. When the function waits
 * for nothing but events, children and times, the task is parked: its row becomes `waiting`, and the attempt is left alone. Its
 * promises never settle, so that no `catch` of the app's sees it.
 */

import { systemClock } from "../../base/runtime/clock.ts";
import { mapMaybe } from "../../base/runtime/maybe-promise.ts";
import { performance, setImmediate, setTimeout } from "../../base/runtime/timers.ts";
import { checkSize, decode, encode } from "../../base/values/codec.ts";
import { refuseUnreadableResult, resultIn, toTask } from "../../base/values/records.ts";
import { describeThrown, isUnreadable } from "../../base/values/thrown.ts";
import {
  AsyncTransactionError,
  TaskCancelledError,
  TaskFailedError,
  TaskNotFoundError,
  toError,
} from "../../errors.ts";
import { traced, traces } from "../../events.ts";
import { isAsync } from "../../queue/transaction.ts";
import type { MaybePromise, NewTask } from "../../store.ts";
import type { FinishedStatus, TaskError, TaskRecord } from "../../task.ts";
import type { AttemptPart, AttemptPort } from "../../worker/attempt-part.ts";
import { internalsOf } from "../queue.ts";
import type { ChildStart } from "./child-start.ts";
import type { EndedChild, NewChild, NewStep, StoredStep, Wait, Waited, WorkflowWrites } from "./contract.ts";
import { tellWaiting } from "./told.ts";
import type { Tries } from "./tries.ts";
import type { Settle } from "./wait-promise.ts";

/** Steps of one task. More of them belong into children. */
const mostSteps = 10_000;
/** Children of one task. */
const mostChildren = 100_000;

/** Steps and starts of one transaction: others write to the database between two of them. */
const mostInWrite = 1_000;

/** Milliseconds between two looks at what a task waits for in its slot, unless this process hears of it. */
const lookEvery = 100;
/** Milliseconds between two looks, however much happens. */
const leastBetweenLooks = 10;

/** With more waits than this, a task leaves its slot at once, since each look reads all of them. */
const mostInSlot = 100;

/** What an attempt that is over awaits: its function goes no further. */
export const never = (): Promise<never> => new Promise(() => undefined);

/** How a stored step is undone. `undo` gets its value, and in a transaction `tx` before that. */
export interface StepUndo extends Tries {
  // biome-ignore lint/suspicious/noExplicitAny: the app's function, with the step's own type of value
  undo: (...args: any[]) => unknown;
  inTransaction: boolean;
}

type Settles = Settle<unknown>;

interface Waiting {
  wait: Wait;
  settles: Settles;
  /** Milliseconds until its time is over, on the clock of `performance.now()`; undefined: it has none. */
  due: number | undefined;
}

/** What one turn writes: a step, or the start of a child. */
type Write = { step: NewStep; settles: Settle<void> } | { start: ChildStart; child: NewChild };

/** Rolls a transaction back whose attempt has lost its task. The app does not see it. */
class MovedOn extends Error {}

export class WorkflowRun implements AttemptPart {
  readonly port: AttemptPort;
  /** The stored steps, without those that were undone. */
  protected readonly steps = new Map<string, StoredStep>();
  /** Steps that were undone: each counts as not stored, and the next one of its name is another one. */
  readonly #undone = new Map<string, StoredStep>();
  readonly #names = new Set<string>();
  readonly #counts = new Map<string, number>();
  readonly #waiting = new Map<string, Waiting>();
  /** Steps that have failed in this attempt, and whether that is stored. */
  readonly #failures = new Map<string, { step: NewStep; error: unknown; stored: boolean }>();
  #loading: Promise<void> | undefined;
  #seq = 0;
  /** How many steps are stored or about to be, and how many children were started. */
  #sizes = { step: 0, child: 0 };
  /** Starts of children that are under way, and those of them that the next look at the stored steps takes up. */
  readonly #starts = new Set<ChildStart>();
  #newStarts: ChildStart[] = [];
  /** Children whose end the function has met, and whose step does not say so yet. */
  readonly #met = new Map<string, EndedChild>();
  #modes = 0;
  /** Steps whose function runs. */
  readonly #running = new Set<Promise<unknown>>();
  /** The function has settled: it waits for nothing any more. */
  #hasSettled = false;
  /** No step begins any more. */
  #isEnding = false;
  #writes: Write[] = [];
  #writing: Promise<void> | undefined;
  /** While the database decides whether the task is parked, no step begins. */
  #deciding: Promise<void> | undefined;
  #isLooking = false;
  #wakeLook: () => void = () => undefined;
  /** The task is parked, or the function has ended. */
  #isOver = false;
  /** The task is not this attempt's any more. Steps that it has begun may be stored still, if somebody has cancelled it. */
  #isLost = false;

  constructor(port: AttemptPort) {
    this.port = port;
    // An aborted attempt does not look at its waits any more. They reject, so that the function can clean up.
    port.signal.addEventListener("abort", () => this.#rejectAll(port.signal.reason));
  }

  protected get workflows() {
    return internalsOf(this.port.queue).store.workflows;
  }

  /** Milliseconds since 1970, by the clock of the queue. */
  now(): number {
    return (internalsOf(this.port.queue).options.clock ?? systemClock).now();
  }

  // ---- names ---------------------------------------------------------------------------------

  /** The name under which a step is stored: a repeated one gets a number. Steps are named in the order of the calls. */
  nameOf(given: string): string {
    let [name, n] = [given, this.#counts.get(given) ?? 0];
    do {
      n += 1;
      name = n === 1 ? given : `${given}#${n}`;
    } while (this.#names.has(name));
    this.#counts.set(given, n);
    this.#names.add(name);
    return name;
  }

  /** A text for waits that belong together. */
  newMode(kind: "all" | "settled"): string {
    this.#modes += 1;
    return `${kind}:${this.#modes}`;
  }

  /** Tells the steps apart that have had this name, one after the other: each one was undone but the last. */
  placeOf(name: string): string {
    const undone = this.#undone.get(name);
    return undone ? `~${undone.seq}` : "";
  }

  // ---- steps ---------------------------------------------------------------------------------

  /** The stored step of this name; undefined: it is to run now. @throws with what the stored step has failed with */
  async stored(name: string): Promise<{ value?: unknown } | undefined> {
    await this.load();
    try {
      const step = this.found(name);
      if (step && step.childId !== null)
        throw new TypeError(
          `the step ${JSON.stringify(name)} of this task has started a child in an earlier attempt: give what comes in its place another name`,
        );
      return step;
    } catch (error) {
      if (isUnreadable(error)) return await this.unusable(error);
      throw error;
    }
  }

  /**
   * A stored value that nobody may use ends the attempt, and its function goes no further: with a `catch`, whoever changes the value
   * would decide which way the function takes.
   */
  protected unusable(error: Error): Promise<never> {
    this.port.fail(error);
    return never();
  }

  /** As `stored`, once the steps are loaded. */
  protected found(name: string): { value?: unknown; childId: number | null } | undefined {
    const step = this.steps.get(name);
    if (!step) return undefined;
    if (step.childId !== null) return { childId: step.childId };
    if (step.error !== null) throw toError(decode(step.error, errorOfStep(name)) as TaskError);
    return { value: valueIn(step), childId: null };
  }

  /** Waits for the end of a child that has started. An earlier attempt may have met it. */
  waitForChild({ name, func }: ChildStart, id: number, mode: string | null, settle: Settles): void {
    const step = this.steps.get(name);
    if (step?.childId == null || step.startedAt === null) {
      this.waitFor({ name, kind: "child", target: String(id), until: null, mode }, settle);
      return;
    }
    try {
      const status =
        step.error === null ? "completed" : (decode(step.value ?? "", valueOfStep(name)) as FinishedStatus);
      const result = step.error === null ? step.value : null;
      settleChild(settle, { ...endedTask, id, func, status, result, error: step.error });
    } catch (error) {
      if (isUnreadable(error)) this.unusable(error).catch(settle.reject);
      else settle.reject(error);
    }
  }

  /** The function has come to a stored step that has something to undo. */
  met(_name: string, _undo: StepUndo): void {}

  /** Runs what no attempt has stored. Never settles once the attempt is over; rejects if its signal is aborted. */
  async begin<T>(act: () => Promise<T>): Promise<T> {
    if (this.#deciding) await this.#deciding;
    if (this.#isOver || this.#isLost || this.#isEnding) return await never();
    this.port.signal.throwIfAborted();
    const running = act();
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
      this.#consider();
    }
  }

  /** As `begin`, for a step. */
  runStep<T>(step: string, act: () => Promise<T>): Promise<T> {
    return this.begin(() => this.traced(step, false, act));
  }

  protected traced<T>(step: string, isUndo: boolean, act: () => Promise<T>): Promise<T> {
    const { record } = this.port;
    return traced(traces.step, () => ({ record, task: toTask(record), step, isUndo }), act);
  }

  /**
   * Runs `call` in a transaction of the queue's database, in which `mark` writes that it has run. Never settles once the task is not
   * this attempt's any more: then nothing is written.
   * @param fn the app's function, which `call` calls
   * @throws AsyncTransactionError on SQLite for an async `fn`
   */
  async marked<T>(
    owner: string,
    fn: (...args: never[]) => unknown,
    call: (tx: unknown) => MaybePromise<T>,
    mark: (writes: WorkflowWrites, value: T) => MaybePromise<boolean>,
  ): Promise<T> {
    const { queue } = this.port;
    const { store } = internalsOf(queue);
    if (store.synchronous && isAsync(fn))
      throw new AsyncTransactionError(
        `${owner}: on SQLite its function must not be async: no transaction was begun`,
      );
    const accept = (value: T) => (accepted: boolean) => {
      if (!accepted) throw new MovedOn();
      return value;
    };
    try {
      return (await queue.transaction((tx) =>
        mapMaybe(call(tx), (value) => mapMaybe(mark(store.within(tx).workflows, value), accept(value))),
      )) as T;
    } catch (error) {
      if (!(error instanceof MovedOn)) throw error;
      this.lose();
      return await never();
    }
  }

  /** A step as it is to be stored. @throws NotSerializableError, PayloadTooLargeError; TypeError for too many steps */
  newStep(name: string, startedAt: number, value: unknown, undoes = false): NewStep {
    const text = encode(value, `step ${JSON.stringify(name)}`) ?? null;
    const { maxPayload } = internalsOf(this.port.queue).options;
    if (text !== null) checkSize(`the value of step ${JSON.stringify(name)}`, maxPayload, text);
    const again = this.#undone.has(name);
    return { name, seq: this.#nextSeq("step"), value: text, error: null, startedAt, undoes, again };
  }

  #nextSeq(kind: "step" | "child"): number {
    this.#sizes[kind] += 1;
    if (this.#sizes.step > mostSteps || this.#sizes.child > mostChildren)
      throw new TypeError(
        `a task has at most ${mostSteps} steps and ${mostChildren} children: let children do a part of the work`,
      );
    this.#seq += 1;
    return this.#seq;
  }

  async store(step: NewStep): Promise<void> {
    await new Promise<void>((resolve, reject) => this.#push({ step, settles: { resolve, reject } }));
  }

  /** Whether an earlier attempt has started the child of this step, as far as the steps are loaded. */
  hasChild(name: string): boolean {
    return this.steps.get(name)?.childId != null;
  }

  /** Starts a child, unless an earlier attempt has. */
  start(start: ChildStart): void {
    this.#starts.add(start);
    this.#newStarts.push(start);
    if (this.#newStarts.length === 1) void this.#startAll();
  }

  /** Takes up all starts of one turn. Leaves them alone once the attempt is over. */
  async #startAll(): Promise<void> {
    let error: unknown;
    try {
      await this.load();
      if (this.#deciding) await this.#deciding;
    } catch (thrown) {
      error = thrown;
    }
    for (const start of this.#newStarts.splice(0))
      if (error !== undefined) this.#hasFailed(start, error);
      else this.startOne(start);
  }

  protected startOne(start: ChildStart): void {
    try {
      const stored = this.found(start.name);
      if (stored && stored.childId === null)
        throw new TypeError(
          `child: the step ${JSON.stringify(start.name)} of this task is stored, and started no child`,
        );
      if (stored?.childId != null) this.#hasStarted(start, stored.childId);
      else if (start.call?.checking)
        start.call.checking.then(
          () => this.#startNew(start),
          (error) => this.#hasFailed(start, error),
        );
      else this.#startNew(start);
    } catch (error) {
      this.#hasFailed(start, error);
    }
  }

  #startNew(start: ChildStart): void {
    if (!start.call || this.#isOver || this.#isLost || this.#isEnding) return;
    try {
      this.port.signal.throwIfAborted();
      this.#push({ start, child: { name: start.name, task: start.call.task, seq: this.#nextSeq("child") } });
    } catch (error) {
      this.#hasFailed(start, error);
    }
  }

  #hasInserted(start: ChildStart, { task }: NewChild, id: number): void {
    if (task.uniqueKey === null) this.#hasStarted(start, id);
    else void this.#startedWithKey(start, task, id);
  }

  /** Another task may have the key of a child: this one or an ancestor would be its own child, and wait for itself. */
  async #startedWithKey(start: ChildStart, task: NewTask, id: number): Promise<void> {
    try {
      if (!(await this.#isOwnOrAncestor(id))) return this.#hasStarted(start, id);
      await this.workflows.forget(this.port.record, [start.name]);
      const holder = id === this.port.record.id ? "this task" : `task ${id}, which waits for this one,`;
      throw new TypeError(
        `child: task "${task.func}": ${holder} holds the uniqueKey ${JSON.stringify(task.uniqueKey)}, and would wait for itself`,
      );
    } catch (error) {
      this.#hasFailed(start, error);
    }
  }

  #hasStarted(start: ChildStart, id: number): void {
    this.#starts.delete(start);
    start.started(id);
  }

  #hasFailed(start: ChildStart, error: unknown): void {
    this.#starts.delete(start);
    start.failed(error);
    this.#consider();
  }

  async #isOwnOrAncestor(id: number): Promise<boolean> {
    const { store } = internalsOf(this.port.queue);
    for (let task: TaskRecord | undefined = this.port.record; task; ) {
      if (task.id === id) return true;
      [task] = task.parentId === null ? [] : await store.get([task.parentId]);
    }
    return false;
  }

  /** The function may catch the error, and go on: then it is stored. Else the step runs again with the next attempt. */
  failed(name: string, startedAt: number, error: unknown): void {
    const step = {
      ...{ name, seq: 0, value: null, startedAt, again: this.#undone.has(name) },
      error: JSON.stringify(describeThrown(error)),
    };
    this.#failures.set(name, { step, error, stored: false });
  }

  /** Reads the stored steps, once. */
  load(): Promise<void> {
    this.#loading ??= this.workflows.steps(this.port.record.id).then((steps) => {
      for (const step of steps) {
        (step.undo === "done" ? this.#undone : this.steps).set(step.name, step);
        this.#sizes[step.childId === null ? "step" : "child"] += 1;
      }
      this.#seq = Math.max(0, ...steps.slice(-1).map(({ seq }) => seq));
    });
    return this.#loading;
  }

  // ---- writes --------------------------------------------------------------------------------

  /** All steps and starts that come in one turn are one transaction, or few if there are very many. */
  #push(write: Write): void {
    this.#writes.push(write);
    this.#writing ??= Promise.resolve().then(() => this.#writeAll());
  }

  async #writeAll(): Promise<void> {
    while (this.#writes.length > 0 && !this.#isOver) {
      await this.#writeBatch(this.#writes.splice(0, mostInWrite));
      // On SQLite each transaction blocks the event loop.
      if (this.#writes.length > 0) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#writing = undefined;
  }

  async #writeBatch(batch: readonly Write[]): Promise<void> {
    const steps: NewStep[] = [];
    const children: NewChild[] = [];
    for (const write of batch)
      if ("step" in write) steps.push(write.step);
      else children.push(write.child);
    try {
      const started = await this.#withFailures((failures) =>
        this.workflows.write(this.port.record, [...failures, ...steps], children),
      );
      if (!started) {
        this.lose();
        return;
      }
      let next = 0;
      for (const write of batch)
        if ("step" in write) write.settles.resolve();
        else this.#hasInserted(write.start, write.child, started[next++]?.id ?? 0);
      if (children.length > 0) internalsOf(this.port.queue).wakeups.workAdded();
    } catch (error) {
      for (const write of batch)
        if ("step" in write) write.settles.reject(error);
        else this.#hasFailed(write.start, error);
    }
  }

  /** The task is not this attempt's any more: the function goes no further. */
  protected lose(): void {
    this.#isLost = true;
    this.port.lost();
  }

  get #unstored() {
    return [...this.#failures.values()].filter(({ stored }) => !stored);
  }

  /** Writes the failures that are not stored yet, too. They count as stored from now on, unless the write fails. */
  async #withFailures<T>(write: (failures: readonly NewStep[]) => Promise<T>): Promise<T> {
    const unstored = this.#unstored;
    for (const failure of unstored) failure.stored = true;
    try {
      return await write(unstored.map(({ step }) => ({ ...step, seq: this.#nextSeq("step") })));
    } catch (error) {
      for (const failure of unstored) failure.stored = false;
      throw error;
    }
  }

  // ---- waits ---------------------------------------------------------------------------------

  /** Waits for an event, a child or a time whose step is not stored. */
  waitFor(wait: Wait, settles: Settles): void {
    const after = wait.until && "after" in wait.until ? wait.until.after : undefined;
    const due = after === undefined ? undefined : performance.now() + after;
    this.#waiting.set(wait.name, { wait, settles, due });
    this.#consider();
  }

  /** Whether the function waits for something. Beside that, steps may run. */
  get #waits(): boolean {
    return !this.#isOver && !this.#isLost && !this.#hasSettled && this.#waiting.size > 0;
  }

  /** At the end of this turn, by when the function has begun whatever it does beside its waits. */
  #consider(): void {
    if (!this.#waits || this.#isLooking) return;
    this.#isLooking = true;
    setImmediate(() => void this.#look());
  }

  async #look(): Promise<void> {
    const begun = performance.now();
    const deaf = this.#listen();
    try {
      for (;;) {
        await this.#written();
        if (!this.#waits) break;
        const isBusy = this.#running.size > 0 || this.#starts.size > 0 || this.#writing !== undefined;
        const isShort = performance.now() - begun < this.port.patience && this.#waiting.size <= mostInSlot;
        const stays = isBusy || (isShort && this.port.hasFreeSlot());
        if (await this.#ask(!stays)) break;
        await this.#heard();
      }
    } catch (error) {
      this.#rejectAll(error);
    } finally {
      deaf();
      this.#isLooking = false;
    }
    // A wait is over, and the function has gone on. By now it may wait for something else.
    setImmediate(() => this.#consider());
  }

  /** After the writes that are under way, so that one look finds all waits which these begin. */
  async #written(): Promise<void> {
    if (!this.#writing) return;
    await this.#writing;
    // By then the function has gone on, and has begun whatever it does beside its waits.
    await new Promise((resolve) => setImmediate(resolve));
  }

  #rejectAll(error: unknown): void {
    for (const { wait } of [...this.#waiting.values()])
      this.#settle(wait.name, ({ reject }) => reject(error));
  }

  /** Whether something is over, or the attempt is. */
  async #ask(park: boolean): Promise<boolean> {
    let decided = () => {};
    this.#deciding = new Promise((resolve) => {
      decided = resolve;
    });
    try {
      if (this.#unstored.length > 0)
        await this.#withFailures((failures) => this.workflows.write(this.port.record, failures, []));
      // A task that does not run any more takes no more lines.
      if (park) await this.port.logWritten();
      // Retention may delete a child before the task goes on.
      if (park && this.#met.size > 0) {
        await this.workflows.keepEnds(this.port.record, [...this.#met.values()]);
        this.#met.clear();
      }
      const waits = [...this.#waiting.values()].map(({ wait }) => wait);
      const answer = await this.workflows.wait(this.port.record, waits, park);
      if (!answer) this.lose();
      else if (answer.parked) {
        // The function goes no further, and its slot is free.
        this.#isOver = true;
        this.port.leave();
        tellWaiting(this.port.record, waits);
      } else return this.#apply(answer);
      return true;
    } finally {
      this.#deciding = undefined;
      decided();
    }
  }

  #apply({ steps, completed, ended, gone }: Waited): boolean {
    for (const step of steps) {
      this.steps.set(step.name, step);
      this.#seq = Math.max(this.#seq, step.seq);
      this.#settle(step.name, (waiting) => waiting.resolve(valueIn(step)));
    }
    const results = new Map(completed.map(({ id, result }) => [id, result]));
    const tasks = new Map(ended.map((task) => [task.id, task]));
    const lost = new Set(gone);
    for (const { wait } of this.#waiting.values()) {
      if (wait.kind !== "child") continue;
      const { name } = wait;
      const id = Number(wait.target);
      const result = results.get(id);
      const task = result === undefined ? tasks.get(id) : undefined;
      if (result !== undefined) {
        this.#met.set(name, { name, value: result, error: null });
        this.#settle(name, ({ resolve }) => resolve(usableResult(id, result)));
      } else if (task) {
        this.#met.set(name, endOf(name, task));
        this.#settle(name, (waiting) => settleChild(waiting, task));
      } else if (lost.has(id)) this.#settle(name, ({ reject }) => reject(new TaskNotFoundError(id)));
    }
    return steps.length + completed.length + ended.length + gone.length > 0;
  }

  #settle(name: string, how: (settles: Settles) => void): void {
    const settles = this.#waiting.get(name)?.settles;
    this.#waiting.delete(name);
    try {
      if (settles) how(settles);
    } catch (error) {
      if (isUnreadable(error)) this.unusable(error).catch(settles?.reject);
      else settles?.reject(error);
    }
  }

  /** Listens for ends of tasks, and for events of this process. */
  #listen(): () => void {
    const { wakeups } = internalsOf(this.port.queue);
    const children = new Set([...this.#waiting.values()].map(({ wait }) => wait.target));
    const hear = () => this.#wakeLook();
    const stop = [
      wakeups.onTaskEnded((ids) => {
        if (!ids || ids.some((id) => children.has(String(id)))) hear();
      }),
      wakeups.onWorkAdded(hear),
    ];
    return () => {
      for (const each of stop) each();
    };
  }

  async #heard(): Promise<void> {
    const now = performance.now();
    let longest = lookEvery;
    for (const { due } of this.#waiting.values())
      if (due !== undefined) longest = Math.min(longest, due - now);
    longest = Math.max(leastBetweenLooks, longest);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, longest);
      this.#wakeLook = () => {
        this.#wakeLook = () => undefined;
        timer.refresh();
        setTimeout(resolve, leastBetweenLooks);
      };
    });
  }

  // ---- the end -------------------------------------------------------------------------------

  ending(threw: boolean, error: unknown): Promise<void> | undefined {
    this.#hasSettled = true;
    if (this.#names.size === 0 || !this.#isAlive) return this.#end(threw, error);
    return this.#allBegun().then(() => this.#end(threw, error));
  }

  get #isAlive(): boolean {
    return !this.#isOver && !this.#isLost && !this.port.signal.aborted;
  }

  #end(threw: boolean, error: unknown): Promise<void> | undefined {
    const isAlive = this.#isAlive;
    if (isAlive && this.#starts.size > 0) return this.#allStarted().then(() => this.#end(threw, error));
    this.#isEnding = true;
    // Some steps still run: beside one that has failed, or because the function did not await them. They are stored first.
    if (isAlive && this.#running.size > 0)
      return Promise.allSettled(this.#running).then(() => this.#end(threw, error));
    this.#isOver = true;
    const isUncaught = (failure: { error: unknown }) => threw && isBehind(failure.error, error);
    const failures = [...this.#failures.values()];
    const caught = failures.filter((failure) => !failure.stored && !isUncaught(failure));
    const uncaught = failures.filter((failure) => failure.stored && isUncaught(failure));
    if (caught.length + uncaught.length === 0) return undefined;
    return this.#storeFailures(
      caught.map(({ step }) => ({ ...step, seq: this.#nextSeq("step") })),
      uncaught.map(({ step }) => step.name),
    );
  }

  /** A step that the function did not await begins in a later turn: when it is known that no attempt has stored it. */
  async #allBegun(): Promise<void> {
    await this.#loading?.catch(() => undefined);
    await this.#deciding;
    await new Promise((resolve) => setImmediate(resolve));
  }

  async #allStarted(): Promise<void> {
    const settled = (start: ChildStart) => new Promise<unknown>((resolve) => start.listen(resolve, resolve));
    await Promise.all([...this.#starts].map(settled));
  }

  async #storeFailures(caught: readonly NewStep[], uncaught: readonly string[]): Promise<void> {
    const { record, report } = this.port;
    try {
      if (caught.length > 0) await this.workflows.write(record, caught, []);
      if (uncaught.length > 0) await this.workflows.forget(record, uncaught);
    } catch (error) {
      report(error, `storing the failed steps of task "${record.func}" (${record.id})`);
    }
  }
}

/** Whether the error that was thrown is this one, or has it among its causes. */
function isBehind(cause: unknown, thrown: unknown): boolean {
  let error = thrown;
  for (let depth = 0; depth < 10 && error !== undefined; depth += 1) {
    if (error === cause) return true;
    error = error instanceof Error ? error.cause : undefined;
  }
  return false;
}

const valueOfStep = (name: string) => `the value of step ${JSON.stringify(name)}`;
const errorOfStep = (name: string) => `the error of step ${JSON.stringify(name)}`;

export const valueIn = ({ name, value }: Pick<StoredStep, "name" | "value">): unknown =>
  value === null ? undefined : decode(value, valueOfStep(name));

/** How a child has ended, as the step that started it keeps it. */
function endOf(name: string, { status, result, error }: TaskRecord): EndedChild {
  if (status === "completed") return { name, value: result, error: null };
  return {
    name,
    value: JSON.stringify(status),
    error: error ?? JSON.stringify({ name: "Error", message: status }),
  };
}

/** Neutral values for the columns that a parent does not keep of a child. */
const endedTask = {
  ...{ args: "[]", kwargs: "{}", meta: "{}", generationId: 0, createdAt: 0, updatedAt: 0, priority: 5 },
  ...{ queueName: "default", retryCount: 0, maxRetries: 0, waitUntil: null, workerId: null, startedAt: null },
  ...{ finishedAt: null, requestId: null, uniqueKey: null, uniqueUntil: null, timeout: null, progress: null },
  ...{ progressNote: null, fillDefaults: 0 as const, traceContext: null, groupKey: null, scheduleName: null },
  ...{ slot: null, parentId: null, rootId: null, expiresAt: null },
};

function usableResult(id: number, result: string | null): unknown {
  refuseUnreadableResult({ id, result });
  return resultIn(result);
}

export function settleChild({ resolve, reject }: Settles, record: TaskRecord): void {
  const task = toTask(record);
  if (task.status === "completed") resolve(usableResult(task.id, record.result));
  else if (task.status === "failed") reject(new TaskFailedError(task));
  else reject(new TaskCancelledError(task.id, task.error?.message));
}
