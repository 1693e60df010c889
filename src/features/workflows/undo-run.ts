/**
 * An attempt that undoes the stored steps of a task which is to fail or to be cancelled. The function runs once more: its stored
 * steps return at once, so that it comes to each and gives its undo; whatever is not stored never settles. Then the undos run, the
 * last stored step first, and the task ends.
 */
import { clearTimeout, setTimeout } from "../../base/runtime/timers.ts";
import type { TaskDefinition } from "../../base/tasks/registry.ts";
import { decodeArgs, decodeObject } from "../../base/values/codec.ts";
import { endingIn, withEnding, withoutEnding } from "../../base/values/ending.ts";
import { errorOf } from "../../base/values/records.ts";
import { describeThrown } from "../../base/values/thrown.ts";
import type { MaybePromise } from "../../store.ts";
import { isFinished, type TaskError, type TaskRecord, type TaskUndo } from "../../task.ts";
import { callChecked } from "../../worker/checked-call.ts";
import { DecidedEnd } from "../../worker/decided-end.ts";
import { type CurrentTask, runningAttempt } from "../../worker/task-context.ts";
import { internalsOf } from "../queue.ts";
import { asStep } from "./as-step.ts";
import type { ChildStart } from "./child-start.ts";
import type { StoredStep, Wait } from "./contract.ts";
import { never, type StepUndo, settleChild, valueIn, WorkflowRun } from "./run.ts";
import { tellUndoing } from "./told.ts";
import { tried } from "./tries.ts";

/** Milliseconds in which the function comes to no stored step: then it is taken to come to no more. */
const longestQuiet = 1_000;
/** Attempts to undo that may be cut off. A function that kills its process would do so for ever. */
const mostRuns = 10;

/** The definition of a task whose end is held up: its function undoes the steps. */
export function undoing(definition: TaskDefinition): TaskDefinition {
  const { fn = () => undefined, checks } = definition;
  return {
    ...definition,
    runIn: "main",
    checks: undefined,
    fn: async (...args) => {
      const attempt = runningAttempt() as CurrentTask;
      const run = attempt.part?.((port) => new UndoRun(port)) as UndoRun;
      // The function needs the arguments as its schema makes them. Its result is dropped, so it is not checked.
      const call = () => {
        readCall(run.port.record);
        return checks ? callChecked(fn, args, { ...checks, result: undefined }, attempt) : fn(...args);
      };
      throw await run.undo(call);
    },
  };
}

/** A function is never called with arguments that cannot be read: then it comes to no step. @throws as `decodeArgs` */
function readCall({ args, kwargs }: TaskRecord): void {
  decodeArgs(args);
  decodeObject(kwargs, "kwargs");
}

class UndoRun extends WorkflowRun {
  readonly #undos = new Map<string, StepUndo>();
  #isMeeting = true;
  #heard: () => void = () => undefined;
  /** Whether the function has come to all steps that are to be undone. */
  #metAll: () => void = () => undefined;
  #left = new Set<string>();

  /** @returns how the task ends */
  async undo(call: () => unknown): Promise<DecidedEnd> {
    await this.load();
    const wanted = [...this.steps.values()].filter(({ undo }) => undo === "wanted").reverse();
    if (wanted.length > 0) tellUndoing(this.port.record);
    const runs = await this.workflows.undoRuns(this.port.record.id);
    this.#left = new Set(wanted.map(({ name }) => name));
    if (wanted.length > 0 && runs <= mostRuns) await this.#meet(call);
    this.#isMeeting = false;
    for (const step of wanted) await this.#undoStep(step);
    return await this.#end();
  }

  // ---- the function comes to its steps -------------------------------------------------------

  #meet(call: () => unknown): Promise<void> {
    return new Promise((resolve) => {
      let timer = setTimeout(resolve, longestQuiet);
      this.#heard = () => {
        clearTimeout(timer);
        timer = setTimeout(resolve, longestQuiet);
      };
      this.#metAll = () => {
        clearTimeout(timer);
        resolve();
      };
      const settled = Promise.resolve().then(call);
      settled.then(this.#metAll, this.#metAll);
    });
  }

  override async stored(name: string): ReturnType<WorkflowRun["stored"]> {
    await this.load();
    if (!this.#isMeeting) return await never();
    if (this.steps.has(name)) this.#heard();
    return await super.stored(name);
  }

  override met(name: string, undo: StepUndo): void {
    this.#undos.set(name, undo);
    this.#left.delete(name);
    if (this.#left.size === 0) this.#metAll();
  }

  /** No child begins. */
  protected override startOne(start: ChildStart): void {
    if (!this.#isMeeting || !this.steps.has(start.name)) return;
    this.#heard();
    super.startOne(start);
  }

  override begin(): Promise<never> {
    return never();
  }

  /** A child that has ended counts as stored. */
  override waitFor({ kind, target }: Wait, settle: Parameters<WorkflowRun["waitFor"]>[1]): void {
    if (kind !== "child") return;
    const look = async () => {
      const [task] = await internalsOf(this.port.queue).store.get([Number(target)]);
      if (task && isFinished(task.status) && this.#isMeeting) settleChild(settle, task);
    };
    look().catch(() => undefined);
  }

  override ending(): undefined {
    return undefined;
  }

  /** The other steps are undone all the same. */
  protected override unusable(error: Error): Promise<never> {
    return Promise.reject(error);
  }

  // ---- the steps are undone ------------------------------------------------------------------

  async #undoStep(step: StoredStep): Promise<void> {
    const undo = this.#undos.get(step.name);
    if (!undo) return await this.#mark(step, "unknown", null);
    const key = `${step.name}~${step.seq}`;
    const call = () => (undo.inTransaction ? this.#within(step, undo) : undo.undo(valueIn(step)));
    try {
      await this.traced(step.name, true, () =>
        tried(asStep(this, `undo ${key}`, call), undo, this.port.signal),
      );
    } catch (error) {
      this.port.signal.throwIfAborted();
      return await this.#mark(step, "failed", JSON.stringify(describeThrown(error)));
    }
    if (!undo.inTransaction) await this.#mark(step, "done", null);
  }

  /** What the undo writes and its mark are one transaction. */
  async #within({ name, value }: StoredStep, { undo }: StepUndo): Promise<void> {
    const call = (tx: unknown) => undo(tx, valueIn({ name, value })) as MaybePromise<unknown>;
    await this.marked(`the undo of step.within "${name}"`, undo, call, (writes) =>
      writes.storeUndo(this.port.record, name, "done", null),
    );
  }

  async #mark(step: StoredStep, state: "done" | "failed" | "unknown", error: string | null): Promise<void> {
    const { record } = this.port;
    if (await this.workflows.writes.storeUndo(record, step.name, state, error)) return;
    // Another worker has the task.
    this.lose();
    await never();
  }

  // ---- the end -------------------------------------------------------------------------------

  async #end(): Promise<DecidedEnd> {
    const { id, error } = this.port.record;
    const steps = (await this.workflows.steps(id)).filter(({ undo }) => undo !== null).reverse();
    const undo = steps.map(toTaskUndo);
    const ending = endingIn(error) ?? "failed";
    // An earlier end may have listed what was not undone then.
    const { undo: _, ...plain } = parsed(error ?? "{}");
    if (undo.every(({ status }) => status === "done")) return new DecidedEnd(ending, JSON.stringify(plain));
    return new DecidedEnd("failed", withEnding(JSON.stringify({ ...plain, undo }), ending));
  }
}

/** Another program may have changed the error: the task is to end all the same. */
function parsed(error: string): Partial<TaskError> {
  try {
    return JSON.parse(withoutEnding(error));
  } catch {
    return errorOf(error);
  }
}

function toTaskUndo({ name, undo, undoError }: StoredStep): TaskUndo {
  const status = undo as TaskUndo["status"];
  if (undoError === null) return { step: name, status };
  const { stack: _, ...error } = errorOf(undoError);
  return { step: name, status, error };
}
