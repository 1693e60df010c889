/** Runs operations on a server: one query per step, and the whole operation again when the server could not do it. */
import { driverError } from "../../base/runtime/drizzle-internals.ts";
import { memoize } from "../../base/runtime/memoize.ts";
import { performance, sleep } from "../../base/runtime/timers.ts";
import { storable } from "../../base/values/storable.ts";
import {
  type AnotherTry,
  DatabaseError,
  DbqError,
  OutcomeUnknownError,
  QueueClosedError,
  RequestTimeoutError,
  withAnotherTry,
} from "../../errors.ts";
import { warn } from "../../events.ts";
import type { NewTask } from "../../store.ts";
import { type Compiled, type Compiler, Computed } from "../sql/compile.ts";
import type { Params } from "../sql/dialect.ts";
import { type InsertedId, type Program, type Runner, runAsync, type Step } from "../sql/program.ts";
import type { Statement } from "../sql/statements.ts";
import { Deadline } from "./deadline.ts";
import type { Pool, Queryable, QueryResult } from "./pool.ts";

/**
 * What a driver's error means. `transient`: the server undid everything, and another try may succeed (a deadlock). `locked`: the
 * same, because another transaction holds a row for longer than one statement waits. `elsewhere`: the same, but only another
 * connection can succeed (the server became read-only). `lost`: the connection broke, and the statement may have happened.
 * `exhausted`: the server has no disk or memory left, which takes longer than a few tries. `refused`: it refuses these values or
 * this row, and would do so again. `permanent`: anything else, which another try at once would not change.
 */
export type Failure = "transient" | "locked" | "elsewhere" | "lost" | "exhausted" | "refused" | "permanent";

/** The failures after which the same operation is not tried again. */
const final: ReadonlySet<Failure> = new Set<Failure>(["exhausted", "refused", "permanent"]);

export function anotherTryByFailure(failure: Failure): AnotherTry {
  if (failure === "refused") return "fails";
  return failure === "permanent" ? undefined : "may succeed";
}

/** The steps that are not one text on every server. */
export interface ServerSteps {
  compiler: Compiler;
  failureOf(error: unknown): Failure;
  /** Whether these tasks, none of which has a key, go in one INSERT. */
  isOneInsert(tasks: readonly NewTask[]): boolean;
  /** The id of the inserted row; undefined when a unique key refused it. `payload`: the same statement notifies with it. */
  id(
    queryable: Queryable,
    query: Statement,
    params: Params,
    payload: string | undefined,
  ): Promise<InsertedId | undefined>;
  ids(
    queryable: Queryable,
    query: Statement,
    params: readonly Params[],
    payload: string | undefined,
  ): Promise<InsertedId[]>;
  /** For each change, whether it found its row. */
  changes(queryable: Queryable, query: Statement, params: readonly Params[]): Promise<boolean[]>;
}

let statements = 0;

/** The name under which a connection prepares a statement once. */
const nameOf = memoize((_: Compiled) => {
  statements += 1;
  return `dbq_${statements}`;
});

export function execute(queryable: Queryable, compiled: Compiled, params: Params) {
  const values = compiled.names.map((parameter) => parameterOf(parameter, params));
  return queryable.query(compiled.text, values, nameOf(compiled));
}

/** A parameter as a server can store it. */
const toParameter = (value: unknown): unknown => (typeof value === "string" ? storable(value) : value);

/** The value of a statement's parameter. */
export const parameterOf = (parameter: string | Computed, params: Params): unknown =>
  typeof parameter === "string" ? toParameter(params[parameter]) : parameter.value();

/** The parameters of a change of many rows, as the one parameter that they are: of each row only what the change reads. */
export function listOf({ columns = [] }: Compiled, params: readonly Params[]): string {
  const rows = params.map((one) => {
    const row: Record<string, unknown> = {};
    for (const name of columns) row[name] = toParameter(one[name]);
    return row;
  });
  return JSON.stringify(rows);
}

/** Ids that the statement gives as texts. */
export const insertedIn = ({ rows }: QueryResult): InsertedId[] =>
  rows.map(([id]) => toInsertedId(String(id)));

export const toInsertedId = (text: string): InsertedId =>
  Number.isSafeInteger(Number(text)) ? Number(text) : text;

export const integersIn = ({ rows }: QueryResult): number[] => rows.map((row) => Number(row[0]));

/** Runs `fn` in a transaction: by the connection's own method, or between BEGIN and COMMIT. */
export async function transacted<T>(queryable: Queryable, fn: (inside: Queryable) => Promise<T>): Promise<T> {
  if (queryable.transaction) return await queryable.transaction(fn);
  await queryable.query("begin", []);
  try {
    const result = await fn(queryable);
    await queryable.query("commit", []);
    return result;
  } catch (error) {
    // When the rollback fails too, the pool does not use the connection again.
    await queryable.query("rollback", []).catch(() => undefined);
    throw error;
  }
}

/**
 * What others are notified of. `quiet`: tasks have ended, and none can start because of that; only awaits need look. `rewind`:
 * claim cursors may have passed tasks that became pending.
 */
export type Change = "quiet" | "work" | "rewind";

/** Notifies other processes of commits. */
export interface Notifier {
  notify(change: Change): void;
  /** The text that a statement sends which notifies by itself. Undefined soon after a notification: the next one follows later. */
  payload(): string | undefined;
}

/** Runs one operation on a connection, or in a transaction of the app's. */
export class Execution {
  queryable: Queryable;
  readonly #steps: ServerSteps;
  readonly #notifier: Notifier | undefined;
  readonly #first: string | undefined;
  /** Whether a step changed something that others may wait for, and have not been notified of. */
  changed = false;
  /** Whether nothing that changed lets a task start. */
  quiet = false;
  /** Whether claim cursors may have passed tasks that became pending. */
  rewinds = false;
  #inTransaction: boolean;
  /** Whether the current statement may have taken effect if its answer is lost. */
  undecided = false;

  /** @param first the statement with which its transactions begin */
  constructor(
    queryable: Queryable,
    steps: ServerSteps,
    inTransaction = false,
    notifier?: Notifier,
    first?: string,
  ) {
    this.queryable = queryable;
    this.#steps = steps;
    this.#notifier = notifier;
    this.#first = first;
    this.#inTransaction = inTransaction;
  }

  run<T>(op: Program<T>): Promise<T> {
    this.undecided = !this.#inTransaction;
    return runAsync(op, (step) => this.#execute(step));
  }

  async atomically<T>(op: () => Program<T>, awaited = true): Promise<T> {
    if (this.#inTransaction) return await this.run(op());
    this.#inTransaction = true;
    const { queryable: outside, changed, quiet } = this;
    try {
      this.undecided = false;
      const result = await transacted(outside, (inside) => this.#inside(inside, op));
      // What the operation had changed before is notified all the same.
      if (!awaited) [this.changed, this.quiet] = [changed, quiet];
      return result;
    } finally {
      this.queryable = outside;
      this.#inTransaction = false;
    }
  }

  async #inside<T>(queryable: Queryable, op: () => Program<T>): Promise<T> {
    this.queryable = queryable;
    if (this.#first !== undefined) await queryable.query(this.#first, []);
    const result = await this.run(op());
    // Next comes COMMIT.
    this.undecided = true;
    return result;
  }

  async #execute(step: Step): Promise<unknown> {
    const { queryable } = this;
    const { compiler, id, ids, changes } = this.#steps;
    switch (step.want) {
      case "transaction":
        return await this.atomically(step.op, step.awaited);
      case "notify":
        return this.#noteChange(undefined);
      case "rewind":
        this.rewinds = true;
        return undefined;
      case "quiet":
        this.quiet = true;
        return undefined;
      case "rowsOnce": {
        const { sql, params } = compiler.once(step.query);
        const values = params.map((value) =>
          value instanceof Computed ? value.value() : toParameter(value),
        );
        return (await queryable.query(sql, values)).rows;
      }
      case "rows":
        return (await execute(queryable, compiler.compile(step.query), step.params)).rows;
      case "count": {
        const { changed } = await execute(queryable, compiler.compile(step.query), step.params);
        return step.awaited ? this.#noteChange(changed) : changed;
      }
      case "id":
        return await this.#insert((payload) => id(queryable, step.query, step.params, payload));
      case "ids":
        return await this.#insert((payload) => ids(queryable, step.query, step.params, payload));
      case "changes":
        return this.#noteChange(
          await this.#inRounds(step.params, (some) => changes(queryable, step.query, some)),
        );
    }
  }

  /**
   * Several changes of one row go into statements of their own, in their order. Rows are changed in the order of their ids:
   * two transactions that lock the same rows in different orders would deadlock.
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

  /** An INSERT outside of a transaction notifies by itself: a second statement would be a second commit. */
  async #insert<T>(insert: (payload: string | undefined) => Promise<T>): Promise<T> {
    const payload = this.#inTransaction ? undefined : this.#notifier?.payload();
    const answer = await insert(payload);
    return payload === undefined ? this.#noteChange(answer) : answer;
  }

  #noteChange<T>(answer: T): T {
    this.changed = true;
    this.quiet = false;
    return answer;
  }
}

/** Milliseconds after which an operation gives up on a server that does not answer. */
const longestOutage = 60_000;

/** Milliseconds of tries after which a server that answers, but takes no writes or no connections, is worth a warning. */
const silentFor = 1_000;

/** Milliseconds between tries. */
const firstPause = 5;
const longestPause = 500;

export interface RepeatPolicy {
  /** Whether a second run is harmless when the first one may have taken effect. */
  repeatable: boolean;
  /** Whether to wait for a server that cannot be reached. */
  waitForServer: boolean;
  /** Milliseconds to wait for rows that other transactions hold. @default as long as for a server */
  lockedLimit?: number;
  /** The statement with which transactions begin. @default none */
  first?: string | undefined;
}

/** Generations fence operations: a second run finds nothing to do. */
const fenced: RepeatPolicy = { repeatable: true, waitForServer: true };

/** A second run would do it twice. */
export const once: RepeatPolicy = { repeatable: false, waitForServer: true };

/** While a queue opens, a server that cannot be reached is an error at once. */
export const atOpening: RepeatPolicy = { repeatable: true, waitForServer: false };

/** The error to throw instead of another try; undefined: try again. `ends`: there will be no other try in any case. */
type GiveUp = (error: unknown, ends: boolean) => unknown;

export class ServerRunner implements Runner {
  readonly #pool: Pool;
  readonly #steps: ServerSteps;
  notifier: Notifier | undefined;
  /** Called when tasks became pending that the claim cursors of this queue may have passed. */
  onRewind: () => void = () => undefined;
  #closed = false;
  /** Whether a connection was lost, and no call has succeeded since. */
  #isOut = false;
  /** When the last warning was of a server that answers. Reads may succeed meanwhile. */
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(pool: Pool, steps: ServerSteps) {
    this.#pool = pool;
    this.#steps = steps;
  }

  /** `op` gets the number of earlier tries. */
  readonly run = <T>(op: (tries: number) => Program<T>, policy = fenced, deadline?: Deadline): Promise<T> =>
    this.#retrying((execution, tries) => execution.run(op(tries)), policy, deadline);

  readonly write = <T>(op: (tries: number) => Program<T>, policy = fenced, deadline?: Deadline): Promise<T> =>
    this.#retrying((execution, tries) => execution.atomically(() => op(tries)), policy, deadline);

  readonly writeOnce = <T>(op: () => Program<T>): Promise<T> => this.write(op, once);

  /** Runs operations for calls of the app, each of which rejects with a RequestTimeoutError after `limit` milliseconds. */
  limited(limit: number): Pick<ServerRunner, "run" | "write" | "writeOnce"> {
    const within = async <T>(call: (deadline: Deadline) => Promise<T>): Promise<T> => {
      const deadline = new Deadline(this.#pool.name, limit);
      return await deadline.race(call(deadline)).finally(() => deadline.clear());
    };
    const write: ServerRunner["write"] = (op, policy) =>
      within((deadline) => this.write(op, policy, deadline));
    return {
      run: (op, policy) => within((deadline) => this.run(op, policy, deadline)),
      write,
      writeOnce: (op) => write(op, once),
    };
  }

  /** Runs queries that are no operation. */
  ask<T>(fn: (queryable: Queryable) => Promise<T>): Promise<T> {
    return this.#retrying(({ queryable }) => fn(queryable), atOpening);
  }

  close(): void {
    this.#closed = true;
  }

  #committed({ changed, quiet, rewinds }: Pick<Execution, "changed" | "quiet" | "rewinds">): void {
    if (rewinds) this.onRewind();
    if (changed || rewinds) this.notifier?.notify(rewinds ? "rewind" : quiet ? "quiet" : "work");
  }

  async #retrying<T>(
    act: (execution: Execution, tries: number) => Promise<T>,
    { repeatable, waitForServer, lockedLimit, first }: RepeatPolicy,
    deadline?: Deadline,
  ): Promise<T> {
    let execution: Execution | undefined;
    let mayHaveHappened = false;
    const attempt = async (tries: number) => {
      execution = undefined;
      deadline?.check();
      const result = await this.#pool.use(
        async (connection) => {
          deadline?.check();
          execution = new Execution(connection, this.#steps, false, this.notifier, first);
          return await (deadline?.race(act(execution, tries)) ?? act(execution, tries));
        },
        // The connection still owes an answer to the abandoned statement: its next user would take that for its own.
        (error) =>
          isSpoilt(this.#steps.failureOf(error)) ||
          (execution !== undefined && error instanceof RequestTimeoutError),
        deadline?.passed,
      );
      if (execution) this.#committed(execution);
      return result;
    };
    const giveUp: GiveUp = (error, ends) => {
      const lost = this.#steps.failureOf(error) === "lost";
      if (lost && !repeatable && execution?.undecided) return this.toDatabaseError(error, true);
      mayHaveHappened ||= lost && execution?.undecided === true && execution.changed;
      // The last try's error says nothing about an earlier try whose answer was lost.
      return ends || (lost && !waitForServer) ? this.toDatabaseError(error, mayHaveHappened) : undefined;
    };
    return await this.retry(attempt, giveUp, lockedLimit);
  }

  /** Tries again while the server is unavailable. */
  async retry<T>(
    attempt: (tries: number) => Promise<T>,
    giveUp: GiveUp,
    lockedLimit = longestOutage,
  ): Promise<T> {
    const start = performance.now();
    for (let tries = 0; ; tries += 1) {
      try {
        const result = await attempt(tries);
        this.#isOut = false;
        return result;
      } catch (error) {
        const failure = this.#steps.failureOf(error);
        const limit = failure === "locked" ? lockedLimit : longestOutage;
        const ends = final.has(failure) || this.#closed || performance.now() - start > limit;
        const reason = giveUp(error, ends) ?? (ends ? this.toDatabaseError(error) : undefined);
        if (reason !== undefined) throw reason;
        if (failure === "lost") this.#warnOfOutage(error);
        if (failure !== "lost" && failure !== "locked") this.#warnOfRefusals(error, start);
      }
      await sleep(Math.min(firstPause * 2 ** tries, longestPause) * (0.5 + Math.random()));
    }
  }

  /** At the first failure: callers hear of it only when their patience ends. */
  #warnOfOutage(thrown: unknown): void {
    if (this.#isOut) return;
    this.#isOut = true;
    this.#warn(thrown);
  }

  /** A deadlock, or a host that has just become a replica, is over after a few tries. */
  #warnOfRefusals(thrown: unknown, since: number): void {
    const now = performance.now();
    if (now - since < silentFor || now - this.#warnedAt < longestOutage) return;
    this.#warnedAt = now;
    this.#warn(thrown);
  }

  #warn(thrown: unknown): void {
    const problem = describe(this.#pool.name, driverError(thrown) as Error);
    warn(`${problem}; dbq tries again for up to ${longestOutage / 1_000} s`);
  }

  /** A driver's error as a `DatabaseError` that names the server, or as an `OutcomeUnknownError`. */
  toDatabaseError(thrown: unknown, mayHaveHappened = false): unknown {
    const error = driverError(thrown);
    if (error instanceof DbqError || !(error instanceof Error)) return error;
    const problem = describe(this.#pool.name, error);
    if (mayHaveHappened) return new OutcomeUnknownError(problem, { cause: error });
    if (this.#closed) return new QueueClosedError();
    // An error that is not the driver's is a mistake in the program.
    const failure = this.#steps.failureOf(error);
    if (!("code" in error) && !("errno" in error) && failure === "permanent") return error;
    return withAnotherTry(new DatabaseError(problem, { cause: error }), anotherTryByFailure(failure));
  }
}

/** Whether the connection on which this happened is of no more use. */
export const isSpoilt = (failure: Failure): boolean => failure === "lost" || failure === "elsewhere";

const adviceOf: Readonly<Record<string, string>> = {
  ENOTFOUND: ": there is no such host, check the URL",
  EAI_AGAIN: ": the name of the host cannot be looked up now, check the URL and the network",
  ECONNREFUSED: ": no server listens there, start it or check the URL",
};

function describe(server: string, error: Error & { code?: string }): string {
  // When all addresses of a host refuse, the error has no message of its own.
  const message = error.message || String(error instanceof AggregateError ? error.errors[0]?.message : error);
  // node-postgres says this, without a code, when the server asks for a password and there is none.
  const isWithoutPassword = message.includes("client password must be a string");
  const advice = isWithoutPassword
    ? ": the URL or the pool has no password"
    : (adviceOf[error.code ?? ""] ?? "");
  return `${server}: ${message}${advice}${error.code === undefined || message.includes(error.code) ? "" : ` (${error.code})`}`;
}
