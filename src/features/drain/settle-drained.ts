/** `queue.settleDrained`: the system that got the message of a drain says how the task ended, and this ends it so. */
import { show } from "../../base/options/durations.ts";
import { integer } from "../../base/options/validators.ts";
import { isOfDrain, readMessageId } from "../../base/tasks/drained.ts";
import { definitionNamed, hasChecks } from "../../base/tasks/registry.ts";
import { checkSize, encode } from "../../base/values/codec.ts";
import { toTask } from "../../base/values/records.ts";
import { describeThrown, failureOf } from "../../base/values/thrown.ts";
import { TaskNotFoundError } from "../../errors.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { TaskStore } from "../../store.ts";
import { isFinished } from "../../task.ts";
import type { Feature } from "../../worker/feature.ts";
import { internalsOf } from "../queue.ts";
import type { DrainedOutcome } from "./contract.ts";
import type { DrainedResult, DrainMethods } from "./methods.ts";

/** Gives a queue `settleDrained`. */
export function settleDrained(queue: CoreQueue): Feature {
  const { store, wakeups, options } = internalsOf(queue);
  let origin: string | undefined;
  const methods: DrainMethods = {
    settleDrained: async <R>(id: number | string, given: DrainedResult<R>) => {
      origin ??= await store.drains.origin();
      const task = drainedTask(id, origin);
      const outcome = drainedOutcome(await checkedResult(store, task.id, given), options.maxPayload);
      const operated = await store.drains.settle(task.id, outcome, task.retries);
      if (!operated) throw new TaskNotFoundError(task.id);
      const { record, changed } = operated;
      if (!isFinished(record.status) && !isOfDrain(record.workerId))
        throw new TypeError(`settleDrained: no drain has sent the task ${task.id}: it is ${record.status}`);
      if (changed) wakeups.taskChanged([task.id]);
      return toTask<R>(record);
    },
  };
  return { methods };
}

/** The task, and how often it had been retried by hand when its message was sent; undefined: not known. */
interface DrainedTask {
  id: number;
  retries: number | undefined;
}

/**
 * @param given a task's id or a message's
 * @param origin of this database
 * @throws TypeError for what is neither, or the id of a message of another database
 */
function drainedTask(given: unknown, origin: string): DrainedTask {
  if (typeof given !== "string")
    return {
      id: integer(Number.MIN_SAFE_INTEGER)(given, "settleDrained: id"),
      retries: undefined,
    };
  const read = readMessageId(given);
  if (!read) throw new TypeError(`settleDrained: ${show(given)} is not the id of a message of a drain`);
  if (read.origin === origin) return read;
  throw new TypeError(
    `settleDrained: ${show(given)} is the id of a message of another database: this one has the origin ${origin}`,
  );
}

/**
 * The outcome with what the schema of the task's function makes of its result, where this process has registered one.
 * @throws InvalidResultError
 */
async function checkedResult(
  store: Pick<TaskStore, "get">,
  id: number,
  given: DrainedResult,
): Promise<DrainedResult> {
  if (!hasChecks() || typeof given !== "object" || given === null || !("result" in given)) return given;
  const [row] = await store.get([id]);
  const check = row && definitionNamed(row.func)?.checks?.result;
  return check ? { ...given, result: await check(given.result) } : given;
}

/** @throws TypeError, NotSerializableError, PayloadTooLargeError */
function drainedOutcome(given: unknown, maxPayload: number): DrainedOutcome {
  const keys = typeof given === "object" && given !== null ? Object.keys(given) : [];
  const [key] = keys;
  if (keys.length !== 1 || (key !== "result" && key !== "error"))
    throw new TypeError(`settleDrained: expected { result } or { error }, got ${shown(given, keys)}`);
  const { result, error } = given as { result?: unknown; error?: unknown };
  if (key === "error") return { kind: "failed", ...failureOf("failed", describeThrown(error)) };
  const text = encode(result, "result") ?? null;
  if (text !== null) checkSize("the result of settleDrained", maxPayload, text);
  return { kind: "completed", result: text };
}

const shown = (given: unknown, keys: readonly string[]): string =>
  keys.length === 0 ? show(given) : `{ ${keys.join(", ")} }`;
