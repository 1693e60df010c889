/** The call of a function whose task has schemas: of what it is given, of what it returns, or of both. */
import type { TaskDefinition } from "../base/tasks/registry.ts";
import { asyncSchema, type Checks } from "../base/validation/checks.ts";
import { InvalidArgumentsError } from "../errors.ts";
import type { MaybePromise } from "../store.ts";
import { FinalFailure } from "./final-failure.ts";
import type { RunningTask } from "./task-context.ts";

/**
 * Calls the function with what the schema has made of `given`, and returns what the schema has made of its result.
 * @throws FinalFailure for invalid arguments, which the next attempt would get too; InvalidResultError; what `fn` or a schema
 * throws
 */
export async function callChecked(
  fn: (...args: unknown[]) => unknown,
  given: readonly unknown[],
  checks: Checks,
  execution: { readonly current: RunningTask },
): Promise<unknown> {
  const returned = await fn(...(await checkedArguments(given, checks, execution)));
  return await (checks.result ? checks.result(returned) : returned);
}

/**
 * What the schema makes of a result that the function settles in its own transaction.
 * @param synchronous whether the transaction cannot wait for a schema
 * @throws InvalidResultError; TypeError for an asynchronous schema in a synchronous transaction
 */
export function checkedResult(
  { name, checks }: TaskDefinition,
  value: unknown,
  synchronous: boolean,
): MaybePromise<unknown> {
  const checked = checks?.result ? checks.result(value) : value;
  if (synchronous && checked instanceof Promise) throw asyncSchema(`task "${name}": output`, checked);
  return checked;
}

async function checkedArguments(
  given: readonly unknown[],
  { args }: Checks,
  execution: { readonly current: RunningTask },
): Promise<readonly unknown[]> {
  if (args === undefined) return given;
  try {
    const checking = args(given);
    const checked = await checking;
    // The attempt may have ended meanwhile: its function must not run beside that of the next one.
    if (checking instanceof Promise) execution.current.signal.throwIfAborted();
    return checked;
  } catch (error) {
    if (!(error instanceof InvalidArgumentsError)) throw error;
    throw new FinalFailure(error.message, { cause: error });
  }
}
