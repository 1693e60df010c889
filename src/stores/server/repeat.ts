/** What is not fenced by a generation, and what its second time has to know of the first when the answer did not come. */
import { OutcomeUnknownError } from "../../errors.ts";
import type { DuplicatePolicy, Inserted, NewTask, NewWorker, Operated } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import type { Operations } from "../sql/operations.ts";
import type { Program } from "../sql/program.ts";
import type { Repeat, ServerRunner, ServerSteps } from "./run.ts";

/** A second time would do it twice. */
const once: Repeat = { twice: false, patient: true };

/** A turn is for many tasks: who holds the row of one must not hold up the others. Then each is settled by itself. */
export const settlingAndClaiming: Repeat = { ...once, forHeld: 3_000 };

/** Whether it happened without an answer, the table tells. */
export async function register(runner: ServerRunner, ops: Operations, worker: NewWorker): Promise<void> {
  try {
    await runner.write(() => ops.maintenance.register(worker), once);
  } catch (error) {
    if (!(error instanceof OutcomeUnknownError)) throw error;
    const known = await runner.run(() => ops.maintenance.workers());
    if (!known.some(({ id }) => id === worker.id)) await register(runner, ops, worker);
  }
}

/** A task that somebody else has moved since it was asked for is not made pending again: it may have run by now. */
export async function retry(runner: ServerRunner, ops: Operations, id: number): Promise<Operated> {
  const [before] = await runner.run(() => ops.tasks.get([id]));
  return await runner.write((tries) => ops.tasks.retry(id, tries === 0 ? undefined : before?.generationId));
}

/** A unique key tells a repeated enqueue apart; without one it is not repeated when nobody knows what became of it. */
export async function insert(
  runner: ServerRunner,
  steps: Pick<ServerSteps, "isOneInsert">,
  ops: Operations,
  tasks: readonly NewTask[],
  onDuplicate: DuplicatePolicy,
): Promise<Inserted[]> {
  const keyed = tasks.filter(({ uniqueKey }) => uniqueKey !== null).length;
  const isOneStatement = keyed === 0 && tasks.length > 0 && steps.isOneInsert(tasks);
  let made: Inserted[] = [];
  function* insertAgain(tries: number): Program<Inserted[]> {
    if (tries > 0 && (yield* areThere(ops, tasks, made))) return made;
    const before = new Set(made.filter(({ duplicate }) => !duplicate).map(({ id }) => id));
    const inserted = yield* tries === 0
      ? ops.tasks.insert(tasks, onDuplicate)
      : ops.tasks.insertByKey(tasks, onDuplicate);
    // A commit may have been on its way all the time: what holds the key then is its own.
    made = inserted.map(({ id, duplicate }) => ({ id, duplicate: duplicate && !before.has(id) }));
    return made;
  }
  return await runner[isOneStatement ? "run" : "write"](insertAgain, {
    twice: keyed === tasks.length,
    patient: true,
  });
}

/** Whether what was inserted before is there, whatever has become of it. An id may be given anew after a crash of a server. */
function* areThere(ops: Operations, tasks: readonly NewTask[], made: readonly Inserted[]): Program<boolean> {
  const own = new Map<number, NewTask>();
  for (const [i, { id, duplicate }] of made.entries()) if (!duplicate) own.set(id, tasks[i] as NewTask);
  if (own.size === 0) return false;
  const found = yield* ops.tasks.get([...own.keys()]);
  return found.length === own.size && found.every((record) => isOf(record, own.get(record.id)));
}

const isOf = (record: TaskRecord, task: NewTask | undefined) =>
  record.func === task?.func && record.args === task.args && record.uniqueKey === task.uniqueKey;
