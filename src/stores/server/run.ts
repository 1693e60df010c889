/** Operations on a server: each step asked over a connection, and all of it again when the server could not. */
import { setTimeout as sleep } from "node:timers/promises";
import { memoize } from "../../base/runtime/memoize.ts";
import { storable } from "../../base/values/storable.ts";
import { DatabaseError, DbqError, OutcomeUnknownError, QueueClosedError } from "../../errors.ts";
import type { NewTask } from "../../store.ts";
import type { Compiled, Compiler } from "../sql/compile.ts";
import { type Program, runAsync, type Step } from "../sql/program.ts";
import type { Params, Statement } from "../sql/statements.ts";
import type { Runner } from "../sql/store-methods.ts";
import type { Pool, Queryable, QueryResult } from "./pool.ts";
import { describeProblem } from "./problem.ts";

/**
 * What an error of the driver means. `passing`: the server undid everything, and another try may succeed (a deadlock).
 * `held`: the same, of a row that somebody holds for longer than one statement waits.
 * `elsewhere`: the same, but not on this connection (the server became read-only). `lost`: the connection broke, and what
 * was under way may have happened. `final`: it will not be different the next time.
 */
export type Failure = "passing" | "held" | "elsewhere" | "lost" | "final";

/** The steps that are not the same text on each server. */
export interface ServerSteps {
  compiler: Compiler;
  failureOf(error: unknown): Failure;
  /** Whether so many go in one statement, none of them with a key. */
  isOneInsert(tasks: readonly NewTask[]): boolean;
  /** The id of the row that an insert made, if it made one. `note`: what the same statement tells others. */
  id(
    asked: Queryable,
    query: Statement,
    params: Params,
    note: string | undefined,
  ): Promise<number | undefined>;
  ids(
    asked: Queryable,
    query: Statement,
    params: readonly Params[],
    note: string | undefined,
  ): Promise<number[]>;
  /** Whether each of many changes found its row. */
  changes(asked: Queryable, query: Statement, params: readonly Params[]): Promise<boolean[]>;
}

let named = 0;

/** A statement's name on a connection, under which it is prepared once. */
const nameOf = memoize((_: Compiled) => {
  named += 1;
  return `dbq_${named}`;
});

export function execute(asked: Queryable, compiled: Compiled, params: Params) {
  const values = compiled.names.map((parameter) => toParameter(params[parameter]));
  return asked.query(compiled.text, values, nameOf(compiled));
}

/** A parameter as a server can store it. */
export const toParameter = (value: unknown): unknown => (typeof value === "string" ? storable(value) : value);

/** The list of parameters of a change of many rows. */
export function listOf(params: readonly Params[]): string {
  return JSON.stringify(params, (_, value) => toParameter(value));
}

/** In a transaction: the connection's own way to run one, or between BEGIN and COMMIT. */
export async function transacted<T>(asked: Queryable, fn: (inside: Queryable) => Promise<T>): Promise<T> {
  if (asked.transaction) return await asked.transaction(fn);
  await asked.query("begin", []);
  try {
    const result = await fn(asked);
    await asked.query("commit", []);
    return result;
  } catch (error) {
    // Whatever becomes of the rollback: a connection on which it fails is not used again.
    await asked.query("rollback", []).catch(() => undefined);
    throw error;
  }
}

/** What tells other processes that something was committed. */
export interface Notifier {
  /** `rewind`: their claim cursors may have passed tasks that became pending. */
  notify(rewind: boolean): void;
  /** For a statement that tells what it does by itself; undefined when others were told just now: they are told later. */
  payload(): string | undefined;
}

/** Runs an operation over what can be asked: a connection, or a transaction of the app's. */
export class Execution {
  asked: Queryable;
  readonly #steps: ServerSteps;
  readonly #teller: Notifier | undefined;
  /** Whether something was changed that somebody may be waiting for, and has not been told. */
  changed = false;
  /** Whether claim cursors may have passed tasks that became pending. */
  rewinds = false;
  #inTransaction: boolean;
  /** Whether what is under way may have happened, should its answer not come. */
  undecided = false;

  constructor(asked: Queryable, steps: ServerSteps, inTransaction = false, teller?: Notifier) {
    this.asked = asked;
    this.#steps = steps;
    this.#teller = teller;
    this.#inTransaction = inTransaction;
  }

  run<T>(op: Program<T>): Promise<T> {
    this.undecided = !this.#inTransaction;
    return runAsync(op, (step) => this.#execute(step));
  }

  async atomically<T>(op: () => Program<T>, awaited = true): Promise<T> {
    if (this.#inTransaction) return await this.run(op());
    this.#inTransaction = true;
    const outside = this.asked;
    try {
      this.undecided = false;
      const result = await transacted(outside, (inside) => this.#inside(inside, op));
      if (!awaited) this.changed = false;
      return result;
    } finally {
      this.asked = outside;
      this.#inTransaction = false;
    }
  }

  async #inside<T>(asked: Queryable, op: () => Program<T>): Promise<T> {
    this.asked = asked;
    const result = await this.run(op());
    this.undecided = true;
    return result;
  }

  async #execute(step: Step): Promise<unknown> {
    const { compiler, id, ids, changes } = this.#steps;
    switch (step.want) {
      case "transaction":
        return await this.atomically(step.op, step.awaited);
      case "tell":
        return this.#noting(undefined);
      case "rewind":
        this.rewinds = true;
        return undefined;
      case "rowsOnce": {
        const { sql, params } = compiler.once(step.query);
        return (await this.asked.query(sql, params.map(toParameter))).rows;
      }
      case "rows":
        return (await execute(this.asked, compiler.compile(step.query), step.params)).rows;
      case "count":
        return this.#noting(await execute(this.asked, compiler.compile(step.query), step.params)).changed;
      case "id":
        return await this.#inserting((note) => id(this.asked, step.query, step.params, note));
      case "ids":
        return await this.#inserting((note) => ids(this.asked, step.query, step.params, note));
      case "changes":
        return this.#noting(
          await this.#inRounds(step.params, (some) => changes(this.asked, step.query, some)),
        );
    }
  }

  /**
   * Of changes of one row, each has a statement of its own, in their order. Rows are taken by id: two who took the same
   * ones in different orders would wait for each other.
   */
  async #inRounds(
    params: readonly Params[],
    change: (some: readonly Params[]) => Promise<boolean[]>,
  ): Promise<boolean[]> {
    const changed: boolean[] = [];
    const byId = (a: number, b: number) => Number(params[a]?.id) - Number(params[b]?.id) || a - b;
    for (let left = [...params.keys()].sort(byId); left.length > 0; ) {
      const seen = new Set<unknown>();
      const now = left.filter((i) => !seen.has(params[i]?.id) && seen.add(params[i]?.id));
      const answers = await change(now.map((i) => params[i] as Params));
      for (const [n, i] of now.entries()) changed[i] = answers[n] === true;
      const done = new Set(now);
      left = left.filter((i) => !done.has(i));
    }
    return changed;
  }

  /** What is committed by itself tells by itself: a second statement would be a commit more, for which a worker waits. */
  async #inserting<T>(insert: (note: string | undefined) => Promise<T>): Promise<T> {
    const note = this.#inTransaction ? undefined : this.#teller?.payload();
    const answer = await insert(note);
    if (note === undefined) this.changed = true;
    return answer;
  }

  #noting<T>(answer: T): T {
    this.changed = true;
    return answer;
  }
}

/** Drizzle wraps what a driver throws. */
export function driverError(error: unknown): unknown {
  const { cause, message } = error as { cause?: unknown; message?: unknown };
  return cause instanceof Error && String(message).startsWith("Failed query") ? cause : error;
}

/** How long a server that does not answer is waited for, in milliseconds. */
const longestOutageMs = 60_000;
const firstPause = 5;
const longestPause = 500;

export interface Repeat {
  /** Whether it may be done a second time when nobody knows whether it was done. */
  twice: boolean;
  /** Whether a server that cannot be reached is waited for. */
  patient: boolean;
  /** Milliseconds that rows which others hold are waited for. @default as long as a server */
  forHeld?: number;
}

/** Operations that are fenced by generations may happen twice; the second time they find nothing to do. */
const usual: Repeat = { twice: true, patient: true };

/** For what opens a queue: a server that cannot be reached is an error at once. */
export const atOpening: Repeat = { twice: true, patient: false };

/** What to throw; undefined: nothing yet. */
type Naming = (error: unknown, ends: boolean) => unknown;

export class ServerRunner implements Runner {
  readonly #pool: Pool;
  readonly #steps: ServerSteps;
  /** Told when something was committed that somebody may be waiting for. */
  notifier: Notifier | undefined;
  /** Called when tasks became pending that the claim cursors of this queue may have passed. */
  onRewind: () => void = () => undefined;
  #closed = false;

  constructor(pool: Pool, steps: ServerSteps) {
    this.#pool = pool;
    this.#steps = steps;
  }

  /** `op`: is told how often it was tried before. */
  readonly run = <T>(op: (tries: number) => Program<T>, repeat = usual): Promise<T> =>
    this.#retrying((execution, tries) => execution.run(op(tries)), repeat);

  readonly write = <T>(op: (tries: number) => Program<T>, repeat = usual): Promise<T> =>
    this.#retrying((execution, tries) => execution.atomically(() => op(tries)), repeat);

  #committed(
    { changed, rewinds }: Pick<Execution, "changed" | "rewinds"> = { changed: false, rewinds: false },
  ) {
    if (rewinds) this.onRewind();
    if (changed || rewinds) this.notifier?.notify(rewinds);
  }

  /** Something that is no operation. A server that cannot be reached is not waited for, one that cannot now is. */
  ask<T>(fn: (asked: Queryable) => Promise<T>): Promise<T> {
    return this.#retrying(({ asked }) => fn(asked), atOpening);
  }

  close(): void {
    this.#closed = true;
  }

  readonly #isSpoilt = (error: unknown): boolean =>
    ["lost", "elsewhere"].includes(this.#steps.failureOf(error));

  async #retrying<T>(
    act: (execution: Execution, tries: number) => Promise<T>,
    { twice, patient, forHeld }: Repeat,
  ): Promise<T> {
    let execution: Execution | undefined;
    let mayHaveHappened = false;
    const attempt = async (tries: number) => {
      execution = undefined;
      const result = await this.#pool.use((connection) => {
        execution = new Execution(connection, this.#steps, false, this.notifier);
        return act(execution, tries);
      }, this.#isSpoilt);
      this.#committed(execution);
      return result;
    };
    const givesUp: Naming = (error, ends) => {
      const lost = this.#steps.failureOf(error) === "lost";
      if (lost && !twice && execution?.undecided) return this.toDatabaseError(error, true);
      mayHaveHappened ||= lost && execution?.undecided === true && execution.changed;
      // What the last try was refused with says nothing of an earlier one, whose answer did not come.
      return ends || (lost && !patient) ? this.toDatabaseError(error, mayHaveHappened) : undefined;
    };
    return await this.again(attempt, givesUp, forHeld);
  }

  /** Tries until it succeeds, while the server cannot now. `givesUp`: what to throw instead of another try, if there is one. */
  async again<T>(
    attempt: (tries: number) => Promise<T>,
    givesUp: Naming,
    forHeld = longestOutageMs,
  ): Promise<T> {
    const start = performance.now();
    for (let tries = 0; ; tries += 1) {
      try {
        return await attempt(tries);
      } catch (error) {
        const failure = this.#steps.failureOf(error);
        const most = failure === "held" ? forHeld : longestOutageMs;
        const ends = failure === "final" || this.#closed || performance.now() - start > most;
        const reason = givesUp(error, ends) ?? (ends ? this.toDatabaseError(error) : undefined);
        if (reason !== undefined) throw reason;
      }
      await sleep(Math.min(firstPause * 2 ** tries, longestPause) * (0.5 + Math.random()));
    }
  }

  /** What the driver threw, as a `DatabaseError` that says where; or that it may have happened. */
  toDatabaseError(thrown: unknown, mayHaveHappened = false): unknown {
    const error = driverError(thrown);
    if (error instanceof DbqError || !(error instanceof Error)) return error;
    const problem = describeProblem(this.#pool.name, error);
    if (mayHaveHappened) return new OutcomeUnknownError(problem, { cause: error });
    if (this.#closed) return new QueueClosedError();
    // What is no error of the driver's is a mistake of the program's.
    if (!("code" in error) && !("errno" in error) && this.#steps.failureOf(error) === "final") return error;
    return new DatabaseError(problem, { cause: error });
  }
}

export const integersIn = ({ rows }: QueryResult): number[] => rows.map((row) => Number(row[0]));
