/** Operations that no generation fences: before a second try, they find out what an earlier try without an answer has done. */
import { OutcomeUnknownError } from "../../errors.ts";
import type { Operations } from "../../features/sql.ts";
import type { DuplicatePolicy, Inserted, NewTask, NewWorker, Operated } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import type { Program } from "../sql/program.ts";
import { hasTexts } from "../sql/tasks.ts";
import { once, type RepeatPolicy, type ServerRunner, type ServerSteps } from "./run.ts";

/** One locked row must not delay the settlements of other tasks: after this time, each is settled by itself. */
export const settlingAndClaiming: RepeatPolicy = { ...once, lockedLimit: 3_000 };

/** After a lost answer, looks whether the worker's row is there. */
export async function register(runner: ServerRunner, ops: Operations, worker: NewWorker): Promise<void> {
  try {
    await runner.write(() => ops.maintenance.register(worker), once);
  } catch (error) {
    if (!(error instanceof OutcomeUnknownError)) throw error;
    const known = await runner.run(() => ops.maintenance.workers());
    if (!known.some(({ id }) => id === worker.id)) await register(runner, ops, worker);
  }
}

/** A second try does not retry a task that was moved meanwhile: it may have run by now. */
export async function retry(
  runner: Pick<ServerRunner, "run" | "write">,
  ops: Operations,
  id: number,
): Promise<Operated> {
  const [before] = await runner.run(() => ops.tasks.get([id]));
  return await runner.write((tries) => ops.tasks.retry(id, tries === 0 ? undefined : before?.generationId));
}

/** Only when every task has a unique key is an INSERT repeated after a lost answer: the keys show what it has done. */
export async function insert(
  runner: Pick<ServerRunner, "run" | "write">,
  steps: Pick<ServerSteps, "isOneInsert">,
  ops: Operations,
  tasks: readonly NewTask[],
  onDuplicate: DuplicatePolicy,
): Promise<Inserted[]> {
  const keyed = tasks.filter(({ uniqueKey }) => uniqueKey !== null).length;
  const isOneStatement = keyed === 0 && tasks.length > 0 && !tasks.some(hasTexts) && steps.isOneInsert(tasks);
  let made: Inserted[] = [];
  function* insertAgain(tries: number): Program<Inserted[]> {
    if (tries > 0 && (yield* areThere(ops, tasks, made))) return made;
    const before = new Set(made.filter(({ duplicate }) => !duplicate).map(({ id }) => id));
    const inserted = yield* tries === 0
      ? ops.tasks.insert(tasks, onDuplicate)
      : ops.tasks.insertByKey(tasks, onDuplicate);
    // The earlier try may have been committed after all: then its own task has the key.
    made = inserted.map((one) => ({ ...one, duplicate: one.duplicate && !before.has(one.id) }));
    return made;
  }
  return await runner[isOneStatement ? "run" : "write"](insertAgain, {
    repeatable: keyed === tasks.length,
    waitForServer: true,
  });
}

/** Whether the rows that an earlier try inserted are there. After a crash, a server may give their ids to other tasks. */
function* areThere(ops: Operations, tasks: readonly NewTask[], made: readonly Inserted[]): Program<boolean> {
  const own = new Map<number, NewTask>();
  for (const [i, { id, duplicate }] of made.entries()) if (!duplicate) own.set(id, tasks[i] as NewTask);
  if (own.size === 0) return false;
  const found = yield* ops.tasks.get([...own.keys()]);
  return found.length === own.size && found.every((record) => isOf(record, own.get(record.id)));
}

const isOf = (record: TaskRecord, task: NewTask | undefined) =>
  record.func === task?.func &&
  (hasTexts(task) || record.args === task.args) &&
  record.uniqueKey === task.uniqueKey;
