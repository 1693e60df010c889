/** Which values of a row are encrypted, and for which place. Values are JSON as text, or the texts of an error. */
import { createHmac } from "node:crypto";
import type { KeptKey, ReadEncryptionOptions } from "../../base/options/encryption.ts";
import { endingIn, withEnding, withoutEnding } from "../../base/values/ending.ts";
import {
  followedArguments,
  hasSealed,
  isSealed,
  type Refusal,
  refusedText,
  sealedArgument,
  withArgument,
} from "../../base/values/sealed.ts";
import type { AttemptRecord, NewTask, StoredAttempt } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { groupFunction } from "../workflows/contract.ts";
import { type Opened, open, type Place, seal } from "./envelope.ts";

/** The arguments of a call, which stand in the row of a task or of a schedule. */
export type CallTexts = Pick<TaskRecord, "args" | "kwargs">;

export type Call = CallTexts & Pick<TaskRecord, "func">;

type CallTable = "dbq_tasks" | "dbq_schedules";

/** Kwargs that are empty stay in clear: the arguments say whether there are any. */
const noKwargs = "{}";

/** What a call is made with is for this function only. No name has a NUL. */
const rowOf = (row: string | number, func: string) => `${row}\0${func}`;

/** The place of the arguments says whether there are kwargs, which nobody can take away or add then. */
export const placeOfArgs = (table: CallTable, row: string | number, { func, kwargs }: Call): Place => ({
  column: kwargs === noKwargs ? `${table}.args` : `${table}.args with kwargs`,
  row: rowOf(row, func),
});

export const placeOfKwargs = (table: CallTable, row: string | number, { func }: Call): Place => ({
  column: `${table}.kwargs`,
  row: rowOf(row, func),
});

export const resultPlace = (id: number): Place => ({ column: "dbq_tasks.result", row: id });
export const errorPlace = (id: number): Place => ({ column: "dbq_tasks.error", row: id });

/** Whether dbq itself makes the tasks of this function, without arguments. */
const isOwn = (func: string) => func === groupFunction;

export class Sealer {
  readonly #keys: ReadonlyMap<string, KeptKey>;
  readonly #first: KeptKey;
  readonly #functions: ReadonlySet<string> | undefined;
  readonly required: boolean;

  constructor({ keys, functions, required }: ReadEncryptionOptions) {
    this.#keys = new Map(keys.map((key) => [key.id, key]));
    this.#first = keys[0] as KeptKey;
    this.#functions = functions;
    this.required = required;
  }

  /** The key that encrypts. */
  get first(): KeptKey {
    return this.#first;
  }

  get keyIds(): ReadonlySet<string> {
    return new Set(this.#keys.keys());
  }

  /** Whether the values of all functions are encrypted. */
  get coversAll(): boolean {
    return this.#functions === undefined;
  }

  covers(func: string): boolean {
    return !isOwn(func) && (this.#functions === undefined || this.#functions.has(func));
  }

  // ---- one value -----------------------------------------------------------------------------

  seal(text: string, place: Place, after?: number): string {
    return seal(text, this.#first, place, after);
  }

  sealOrNull<T extends string | null | undefined>(text: T, place: Place): T | string {
    return typeof text === "string" ? this.seal(text, place) : text;
  }

  /** What the text was sealed from. Undefined: it is not sealed. */
  opened(text: string, place: Place): Opened | undefined {
    return open(text, this.#keys, place);
  }

  /** The clear text. The text as it is if its key is missing; a refused text where it must not be used. */
  open(text: string, place: Place, required = false): string {
    const opened = open(text, this.#keys, place);
    if (opened === undefined) return required ? refused("clear", place) : text;
    if (opened === "missing") return text;
    return opened === "broken" ? refused("broken", place) : opened.text;
  }

  openOrNull<T extends string | null>(text: T, place: Place): T | string {
    return typeof text === "string" ? this.open(text, place) : text;
  }

  /** The same for the same text and key, and tells nothing about the text to who has no key. 48 bits as hexadecimal digits. */
  digest(text: string): string {
    return createHmac("sha256", this.#first.key)
      .update(`dbq: a digest of\0${text}`)
      .digest("hex")
      .slice(0, 12);
  }

  // ---- a call --------------------------------------------------------------------------------

  /** @param after the task whose result becomes the last argument */
  sealCall(table: CallTable, row: string | number, call: Call, after?: number): CallTexts {
    const { args, kwargs } = call;
    return {
      args: this.seal(args, placeOfArgs(table, row, call), after),
      kwargs: kwargs === noKwargs ? kwargs : this.seal(kwargs, placeOfKwargs(table, row, call)),
    };
  }

  openCall(table: CallTable, row: string | number, call: Call, required: boolean): CallTexts {
    const { args, kwargs } = call;
    const place = placeOfArgs(table, row, call);
    const inChain = table === "dbq_tasks" && hasSealed(args) && !isSealed(args);
    return {
      args: inChain ? this.#openFollowed(args, place, required) : this.open(args, place, required),
      kwargs: kwargs === noKwargs ? kwargs : this.open(kwargs, placeOfKwargs(table, row, call), required),
    };
  }

  /** Arguments behind which a chain has put a result. Sealed ones name the task whose result it must be. */
  #openFollowed(text: string, place: Place, required: boolean): string {
    const followed = followedArguments(text);
    if (!followed) return required ? refused("clear", place) : this.#openLast(text, place);
    const args = open(followed.args, this.#keys, place);
    if (args === undefined || args === "missing") return text;
    if (args === "broken") return refused("broken", place);
    const { result } = followed;
    if (!isSealed(result)) {
      const isClear = required && result !== "null";
      return isClear ? refused("clear", place) : withArgument(args.text, result);
    }
    if (args.after === undefined) return refused("broken", place);
    const opened = open(result, this.#keys, resultPlace(args.after));
    if (opened === undefined || opened === "missing") return text;
    return opened === "broken" ? refused("broken", place) : withArgument(args.text, opened.text);
  }

  /** Clear arguments of a chain that an app without keys has enqueued. */
  #openLast(text: string, place: Place): string {
    const last = sealedArgument(text);
    if (!last) return text;
    const of = resultOwner(last.sealed);
    const opened = of === undefined ? "broken" : open(last.sealed, this.#keys, resultPlace(of));
    if (opened === undefined || opened === "missing") return text;
    if (opened === "broken") return refused("broken", place);
    return `${last.before}${last.before === "[" ? "" : ","}${opened.text}]`;
  }

  // ---- tasks ---------------------------------------------------------------------------------

  /** The task as it is inserted: its texts follow once its id is known, in the same transaction. */
  toInsert<T extends NewTask>(task: T): T {
    if (!this.covers(task.func)) return task;
    return { ...task, ...empty, textsOf: (id: number) => this.sealCall("dbq_tasks", id, task) };
  }

  /** Results name their tasks, so that a chain can check whose they are. */
  sealResult(result: string | null, id: number): string | null {
    return result === null ? null : this.seal(result, resultPlace(id), id);
  }

  /** How the end of a task was decided stays in clear: SQL reads it. */
  sealError(error: string, place: Place): string {
    const ending = endingIn(error);
    const sealed = this.seal(withoutEnding(error), place);
    return ending ? withEnding(sealed, ending) : sealed;
  }

  openError(error: string, place: Place): string {
    const plain = withoutEnding(error);
    if (!isSealed(plain)) return error;
    const ending = endingIn(error);
    const opened = this.open(plain, place);
    // What is refused is no JSON: how the end was decided is kept all the same.
    if (!opened.startsWith("{")) return ending ? withEnding(unreadableError(opened), ending) : opened;
    return ending ? withEnding(opened, ending) : opened;
  }

  /** Opens what the record has, in place: records are made for the caller. */
  openTask<T extends TaskRecord>(task: T): T {
    const { id } = task;
    const required = this.required && this.covers(task.func);
    const { args, kwargs } = this.openCall("dbq_tasks", id, task, required);
    task.args = args;
    task.kwargs = kwargs;
    if (task.result !== null) task.result = this.open(task.result, resultPlace(id), required);
    if (typeof task.error === "string") task.error = this.openError(task.error, errorPlace(id));
    return task;
  }

  sealAttempt(attempt: AttemptRecord, taskId: number, generationId: number): AttemptRecord {
    return {
      ...attempt,
      errorMessage: this.sealOrNull(attempt.errorMessage, attemptPlace("message", taskId, generationId)),
      errorStack: this.sealOrNull(attempt.errorStack, attemptPlace("stack", taskId, generationId)),
      errorCause: this.sealOrNull(attempt.errorCause, attemptPlace("cause", taskId, generationId)),
    };
  }

  openAttempt(attempt: StoredAttempt): StoredAttempt {
    const { taskId, generationId } = attempt;
    const opened = (text: string | null, column: AttemptText) =>
      this.openOrNull(text, attemptPlace(column, taskId, generationId));
    return {
      ...attempt,
      errorMessage: opened(attempt.errorMessage, "message"),
      errorStack: opened(attempt.errorStack, "stack"),
      errorCause: opened(attempt.errorCause, "cause"),
    };
  }
}

/** In the row of a task whose texts are to follow. */
export const empty: CallTexts = { args: "[]", kwargs: "{}" };

type AttemptText = "message" | "stack" | "cause";

export const attemptPlace = (column: AttemptText, taskId: number, generationId: number): Place => ({
  column: `dbq_attempts.error_${column}`,
  row: `${taskId}:${generationId}`,
});

/** @param place of a value that must not be used */
function refused(why: Refusal, { column, row }: Place): string {
  const [, table, name] = /^(\w+)\.(\w+)/.exec(column) ?? [];
  const [named] = String(row).split("\0");
  return refusedText(
    why,
    table === "dbq_tasks" ? `the ${name} of task ${named}` : `${table}.${name} of ${named}`,
  );
}

const unreadableError = (message: string): string => JSON.stringify({ name: "Error", message });

/** The id of the task that a sealed result names. */
const resultOwner = (sealed: string): number | undefined => {
  const id = /^\{"dbq:sealed":"\d+:[\w.-]+:(\d+):/.exec(sealed)?.[1];
  return id === undefined ? undefined : Number(id);
};
