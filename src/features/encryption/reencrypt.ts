/** `queue.reencrypt()`: encrypts each value anew that is in clear, or was encrypted with another key than the first one. */
import type { ReadEncryptionOptions } from "../../base/options/encryption.ts";
import { performance, setImmediate } from "../../base/runtime/timers.ts";
import { endingIn, withEnding, withoutEnding } from "../../base/values/ending.ts";
import { hasSealed, isSealed } from "../../base/values/sealed.ts";
import type { WorkerStore } from "../../store.ts";
import { pauseForWorkers } from "../operate/pause-for-workers.ts";
import {
  type ChangeRow,
  type EncryptionStore,
  type SealedRow,
  type SealedTable,
  sealedColumns,
} from "./contract.ts";
import type { Opened, Place } from "./envelope.ts";
import { messagePlace } from "./failures.ts";
import type { ReencryptOptions, ReencryptProgress, ReencryptResult } from "./methods.ts";
import { attemptPlace, errorPlace, placeOfArgs, placeOfKwargs, resultPlace, Sealer } from "./sealer.ts";
import { eventPlace, logPlace, type StepText, stepPlace } from "./steps.ts";

/** Rows of one transaction. It bounds how long other writers wait. */
const batch = 100;

const tables = Object.keys(sealedColumns) as SealedTable[];

export async function reencrypt(
  { encryption: store, workers }: Pick<WorkerStore, "workers"> & { encryption: EncryptionStore },
  keys: ReadEncryptionOptions,
  { signal, onProgress, limit = Number.POSITIVE_INFINITY }: ReencryptOptions,
): Promise<ReencryptResult> {
  signal?.throwIfAborted();
  // Rows in clear are to be encrypted here, not to be refused.
  const sealer = new Sealer({ ...keys, required: false });
  const soFar: ReencryptProgress = { changed: 0, skipped: 0, done: 0, total: 0 };
  for (const table of tables) soFar.total += await store.size(table);
  for (const table of tables)
    for (let after: string | undefined; ; ) {
      signal?.throwIfAborted();
      const left = limit - soFar.changed;
      if (left <= 0) return resultOf(soFar);
      const began = performance.now();
      const page = await rewritePage(store, sealer, table, after, Math.min(batch, left));
      soFar.changed += page.changed;
      soFar.skipped += page.skipped;
      soFar.done += page.rows;
      soFar.total = Math.max(soFar.total, soFar.done);
      await onProgress?.({ ...soFar });
      if (page.last === undefined) break;
      after = page.last;
      await pauseForWorkers({ workers }, began);
      // A synchronous driver never yields to the event loop: signals, and all else in the process, would wait.
      await new Promise((resolve) => setImmediate(resolve));
    }
  if (soFar.skipped === 0) await store.forgetOthers(sealer.first.id);
  return resultOf(soFar);
}

const resultOf = ({ changed, skipped }: ReencryptProgress): ReencryptResult => ({ changed, skipped });

async function rewritePage(
  store: EncryptionStore,
  sealer: Sealer,
  table: SealedTable,
  after: string | undefined,
  limit: number,
) {
  // By row, since the store may ask about a row again.
  const [changed, skipped] = [new Set<string>(), new Set<string>()];
  const change: ChangeRow = (row) => {
    const key = JSON.stringify([row.taskId, row.generationId, row.name, row.texts]);
    const page = new RowChange(sealer, row);
    const texts = changeOf[table](page);
    if (page.isSkipped) skipped.add(key);
    if (Object.keys(texts).length === 0) return undefined;
    changed.add(key);
    return texts;
  };
  const read = await store.rewrite(table, after, limit, change);
  return { ...read, changed: changed.size, skipped: skipped.size };
}

type Texts = Record<string, string>;

/** What becomes of one row. */
class RowChange {
  readonly sealer: Sealer;
  readonly row: SealedRow;
  isSkipped = false;

  constructor(sealer: Sealer, row: SealedRow) {
    this.sealer = sealer;
    this.row = row;
  }

  /** Whether clear values of the row are to be encrypted. */
  get isCovered(): boolean {
    const { func } = this.row;
    return func === null ? this.sealer.coversAll : this.sealer.covers(func);
  }

  /** The new text of a column; undefined: it stays. @param other a second place, from which a value may have been copied */
  renewed(text: string, place: Place, after?: number, other?: readonly Place[]): string | undefined {
    const { sealer } = this;
    const opened = [place, ...(other ?? [])].map((one) => sealer.opened(text, one));
    const good = opened.find((one) => typeof one === "object");
    if (typeof good === "object")
      return good.keyId === sealer.first.id ? undefined : sealer.seal(good.text, place, good.after);
    if (opened[0] === undefined) return this.isCovered ? sealer.seal(text, place, after) : undefined;
    this.isSkipped = true;
    return undefined;
  }

  /** The columns that change. */
  among(columns: Readonly<Record<string, Place>>, others: readonly Place[] = []): Texts {
    const texts: Texts = {};
    for (const [column, place] of Object.entries(columns)) {
      const text = this.row.texts[column];
      const renewed = text == null ? undefined : this.renewed(text, place, undefined, others);
      if (renewed !== undefined) texts[column] = renewed;
    }
    return texts;
  }

  call(table: "dbq_tasks" | "dbq_schedules", id: string | number): Texts {
    const { sealer } = this;
    const [args, kwargs] = [this.row.texts.args ?? "[]", this.row.texts.kwargs ?? "{}"];
    const isClear = !hasSealed(args) && !isSealed(kwargs);
    if (isClear && !this.isCovered) return {};
    // Its arguments would have to name the task whose result comes behind them.
    if (isClear && this.row.awaitsArgument) return this.#skip();
    const call = { func: this.row.func ?? "", args, kwargs };
    const known = sealer.opened(args, placeOfArgs(table, id, call));
    if (
      this.#isNew(known) &&
      (kwargs === "{}" || this.#isNew(sealer.opened(kwargs, placeOfKwargs(table, id, call))))
    )
      return {};
    const opened = sealer.openCall(table, id, call, false);
    if (Object.values(opened).some((text) => hasSealed(text) || isRefused(text))) return this.#skip();
    return {
      ...sealer.sealCall(
        table,
        id,
        { ...call, ...opened },
        typeof known === "object" ? known.after : undefined,
      ),
    };
  }

  #isNew(opened: Opened | undefined): boolean {
    return typeof opened === "object" && opened.keyId === this.sealer.first.id;
  }

  #skip(): Texts {
    this.isSkipped = true;
    return {};
  }

  /** An error in front of which stands how the task is to end. */
  error(text: string, place: Place): string | undefined {
    const ending = endingIn(text);
    const renewed = this.renewed(withoutEnding(text), place);
    return renewed && ending ? withEnding(renewed, ending) : renewed;
  }
}

const isRefused = (text: string) => text.startsWith("!");

const changeOf: Record<SealedTable, (page: RowChange) => Texts> = {
  dbq_tasks: (page) => {
    const id = page.row.taskId as number;
    const { result = null, error = null } = page.row.texts;
    const newResult = result === null ? undefined : page.renewed(result, resultPlace(id), id);
    const newError = error === null ? undefined : page.error(error, errorPlace(id));
    return {
      ...page.call("dbq_tasks", id),
      ...(newResult !== undefined && { result: newResult }),
      ...(newError !== undefined && { error: newError }),
    };
  },
  dbq_attempts: (page) => {
    const { taskId, generationId } = page.row;
    const place = (column: "message" | "stack" | "cause") =>
      attemptPlace(column, taskId as number, generationId as number);
    return page.among({
      error_message: place("message"),
      error_stack: place("stack"),
      error_cause: place("cause"),
    });
  },
  dbq_task_logs: (page) =>
    page.among({ message: logPlace(page.row.taskId as number, page.row.generationId as number) }),
  dbq_steps: (page) => {
    const { taskId, name } = page.row;
    const place = (column: StepText) => stepPlace(column, taskId as number, name as string);
    const others = { error: place("error"), undo_error: place("undo_error") };
    const events = [name as string, (name as string).replace(/#\d+$/, "")].map(eventPlace);
    return { ...page.among(others), ...page.among({ value: place("value") }, events) };
  },
  dbq_events: (page) =>
    page.row.texts.payload == null ? {} : page.among({ payload: eventPlace(page.row.name as string) }),
  dbq_schedules: (page) => page.call("dbq_schedules", page.row.name as string),
  dbq_failures: (page) => page.among({ message: messagePlace(page.row.name as string) }),
};
