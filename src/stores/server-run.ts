/** Operations on a server: each step asked over a connection, and all of it again when the server could not. */
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseError, DbqError, OutcomeUnknownError, QueueClosedError } from "../errors.ts";
import { type Compiled, type Compiler, remembering } from "./compile.ts";
import type { Runner } from "./methods.ts";
import type { Answer, Asked, Pool } from "./server-pool.ts";
import type { Params, Statement } from "./statements.ts";
import { type Op, runAsync, type Step } from "./steps.ts";

/**
 * What an error of the driver means. `passing`: the server undid everything, and another try may succeed (a deadlock).
 * `elsewhere`: the same, but not on this connection (the server became read-only). `lost`: the connection broke, and what
 * was under way may have happened. `final`: it will not be different the next time.
 */
export type Failure = "passing" | "elsewhere" | "lost" | "final";

/** The steps that are not the same text on each server. */
export interface ServerSteps {
  compiler: Compiler;
  failureOf(error: unknown): Failure;
  /** The id of the row that an insert made, if it made one. */
  id(asked: Asked, query: Statement, params: Params): Promise<number | undefined>;
  ids(asked: Asked, query: Statement, params: readonly Params[]): Promise<number[]>;
  /** Whether each of many changes found its row. */
  changes(asked: Asked, query: Statement, params: readonly Params[]): Promise<boolean[]>;
}

let named = 0;

/** A statement's name on a connection, under which it is prepared once. */
const nameOf = remembering((_: Compiled) => {
  named += 1;
  return `dbq_${named}`;
});

export function ask(asked: Asked, compiled: Compiled, params: Params) {
  const values = compiled.names.map((parameter) => storable(params[parameter]));
  return asked.query(compiled.text, values, nameOf(compiled));
}

/**
 * Servers keep no NUL and no half of a surrogate pair in a text. In JSON they are written as escapes; in a name or a note
 * they are no characters to keep.
 */
export function storable(value: unknown): unknown {
  if (typeof value !== "string") return value;
  return value.replace(/[\0\ud800-\udfff]/gu, "\ufffd");
}

/** The list of parameters of a change of many rows. */
export function listOf(params: readonly Params[]): string {
  return JSON.stringify(params, (_, value) => storable(value));
}

/** In a transaction: the connection's own way to run one, or between BEGIN and COMMIT. */
export async function transacted<T>(asked: Asked, fn: (inside: Asked) => Promise<T>): Promise<T> {
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

/** Runs an operation over what can be asked: a connection, or a transaction of the app's. */
export class Execution {
  asked: Asked;
  readonly #steps: ServerSteps;
  /** Whether something was changed that somebody may be waiting for. */
  changed = false;
  #inTransaction: boolean;
  /** Whether what is under way may have happened, should its answer not come. */
  undecided = false;

  constructor(asked: Asked, steps: ServerSteps, inTransaction = false) {
    this.asked = asked;
    this.#steps = steps;
    this.#inTransaction = inTransaction;
  }

  run<T>(op: Op<T>): Promise<T> {
    this.undecided = !this.#inTransaction;
    return runAsync(op, (step) => this.#execute(step));
  }

  async atomically<T>(op: () => Op<T>, awaited = true): Promise<T> {
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

  async #inside<T>(asked: Asked, op: () => Op<T>): Promise<T> {
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
      case "rowsOnce": {
        const { sql, params } = compiler.once(step.query);
        return (await this.asked.query(sql, params.map(storable))).rows;
      }
      case "rows":
        return (await ask(this.asked, compiler.compile(step.query), step.params)).rows;
      case "count":
        return this.#noting(await ask(this.asked, compiler.compile(step.query), step.params)).changed;
      case "id":
        return this.#noting(await id(this.asked, step.query, step.params));
      case "ids":
        return this.#noting(await ids(this.asked, step.query, step.params));
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

  #noting<T>(answer: T): T {
    this.changed = true;
    return answer;
  }
}

/** Drizzle wraps what a driver throws. */
export function thrownBy(error: unknown): unknown {
  const { cause, message } = error as { cause?: unknown; message?: unknown };
  return cause instanceof Error && String(message).startsWith("Failed query") ? cause : error;
}

/** How long a server that does not answer is waited for, in milliseconds. */
const patience = 60_000;
const firstPause = 5;
const longestPause = 500;

export interface Repeat {
  /** Whether it may be done a second time when nobody knows whether it was done. */
  twice: boolean;
  /** Whether a server that cannot be reached is waited for. */
  patient: boolean;
}

/** Operations that are fenced by generations may happen twice; the second time they find nothing to do. */
const usual: Repeat = { twice: true, patient: true };

export class ServerRunner implements Runner {
  readonly #pool: Pool;
  readonly #steps: ServerSteps;
  /** Called when something was committed that somebody may be waiting for. */
  onCommit: () => void = () => undefined;
  #closed = false;

  constructor(pool: Pool, steps: ServerSteps) {
    this.#pool = pool;
    this.#steps = steps;
  }

  /** `op`: is told how often it was tried before. */
  readonly run = <T>(op: (tries: number) => Op<T>, repeat = usual): Promise<T> =>
    this.#patiently((execution, tries) => execution.run(op(tries)), repeat);

  readonly write = <T>(op: (tries: number) => Op<T>, repeat = usual): Promise<T> =>
    this.#patiently((execution, tries) => execution.atomically(() => op(tries)), repeat);

  /** Something that is no operation. A server that cannot be reached is not waited for, one that cannot now is. */
  ask<T>(fn: (asked: Asked) => Promise<T>): Promise<T> {
    return this.#patiently(({ asked }) => fn(asked), { twice: true, patient: false });
  }

  close(): void {
    this.#closed = true;
  }

  readonly #isSpoilt = (error: unknown): boolean => {
    const failure = this.#steps.failureOf(error);
    return failure === "lost" || failure === "elsewhere";
  };

  async #patiently<T>(
    act: (execution: Execution, tries: number) => Promise<T>,
    { twice, patient }: Repeat,
  ): Promise<T> {
    let execution: Execution | undefined;
    const attempt = async (tries: number) => {
      execution = undefined;
      const result = await this.#pool.use((connection) => {
        execution = new Execution(connection, this.#steps);
        return act(execution, tries);
      }, this.#isSpoilt);
      if ((execution as Execution | undefined)?.changed) this.onCommit();
      return result;
    };
    return await this.again(attempt, (error) => {
      if (this.#steps.failureOf(error) !== "lost") return undefined;
      if (!twice && execution?.undecided) return this.#unknown(error);
      return patient ? undefined : this.named(error);
    });
  }

  /** Tries until it succeeds, while the server cannot now. `givesUp`: what to throw instead of another try. */
  async again<T>(attempt: (tries: number) => Promise<T>, givesUp: (error: unknown) => unknown): Promise<T> {
    const start = performance.now();
    for (let tries = 0; ; tries += 1) {
      try {
        return await attempt(tries);
      } catch (error) {
        const reason = givesUp(error);
        if (reason !== undefined) throw reason;
        const late = this.#closed || performance.now() - start > patience;
        if (late || this.#steps.failureOf(error) === "final") throw this.named(error);
      }
      await sleep(Math.min(firstPause * 2 ** tries, longestPause) * (0.5 + Math.random()));
    }
  }

  #unknown(error: unknown): OutcomeUnknownError {
    return new OutcomeUnknownError(this.#text(error), { cause: error });
  }

  /** What the driver threw, as a `DatabaseError` that says where. */
  named(thrown: unknown): unknown {
    const error = thrownBy(thrown);
    if (error instanceof DbqError || !(error instanceof Error)) return error;
    if (this.#closed) return new QueueClosedError();
    // What is no error of the driver's is a mistake of the program's.
    if (!("code" in error) && !("errno" in error) && this.#steps.failureOf(error) === "final") return error;
    return new DatabaseError(this.#text(error), { cause: error });
  }

  #text(error: unknown): string {
    const { message, code } = error as { message?: string; code?: string };
    // Several addresses that all refused come as one error without a message.
    const what =
      message || (error instanceof AggregateError ? String(error.errors[0]?.message) : String(error));
    return `${this.#pool.name}: ${what}${code === undefined || what.includes(code) ? "" : ` (${code})`}`;
  }
}

export const integersIn = ({ rows }: Answer): number[] => rows.map((row) => Number(row[0]));
