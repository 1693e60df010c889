/** Writes the tasks of an archive back into a database. */
import { callable, readOptions, signal } from "../../base/options/validators.ts";
import { setImmediate } from "../../base/runtime/timers.ts";
import { DatabaseError, InvalidArchiveError } from "../../errors.ts";
import { internalsOf, type Queue } from "../queue.ts";
import type { ArchiveStore, StoredTask } from "./contract.ts";
import { fromLine } from "./line.ts";

/** Tasks, and characters of their lines, of one transaction; a larger task is written alone. */
const batch = { tasks: 500, characters: 4 * 1_048_576 };

export interface Imported {
  /** How many tasks were written. */
  imported: number;
  /** How many lines were left out, since the database has their task already. */
  skipped: number;
}

export interface ImportProgress extends Imported {
  /** How many lines were read so far. */
  lines: number;
}

/** Options of `importTasks`. */
export interface ImportOptions {
  /** Calls off the rest: the promise rejects with `signal.reason`. What is written stays. */
  signal?: AbortSignal;
  /** Called after each transaction. The next one waits for the promise that it returns. */
  onProgress?: (progress: ImportProgress) => unknown;
}

const importReaders = { signal, onProgress: callable<(progress: ImportProgress) => unknown> };

interface ReadLine {
  number: number;
  task: StoredTask;
}

/**
 * Writes the tasks of an archive, with their ids. New tasks get ids above theirs. Each transaction writes up to 500 lines, which were
 * all checked before; what is written stays when a later line is wrong, and another call with the same lines goes on.
 * @param lines as `exportTasks` gives them; empty ones are passed over
 * @throws InvalidArchiveError that names the line and what is wrong with it, also when another task has its id; TypeError for a wrong
 * option; DatabaseError; the signal's reason
 */
export async function importTasks(
  queue: Queue,
  lines: AsyncIterable<string> | Iterable<string>,
  options?: ImportOptions,
): Promise<Imported> {
  const { store, checkOpen } = internalsOf(queue);
  const { signal: aborted, onProgress } = readOptions<ImportOptions>(options, "importTasks", importReaders);
  checkOpen();
  const done: ImportProgress = { imported: 0, skipped: 0, lines: 0 };
  const write = async (read: readonly ReadLine[], number: number) => {
    aborted?.throwIfAborted();
    const added = await addNew(store.archive, read);
    done.imported += added;
    done.skipped += read.length - added;
    done.lines = number;
    await onProgress?.({ ...done });
    await new Promise((resolve) => setImmediate(resolve));
  };
  let [some, characters, number]: [ReadLine[], number, number] = [[], 0, 0];
  for await (const line of lines) {
    if (some.length === batch.tasks || (some.length > 0 && characters + line.length > batch.characters)) {
      await write(some, number);
      [some, characters] = [[], 0];
    }
    number += 1;
    if (line.trim() === "") continue;
    some.push({ number, task: fromLine(store.archive.columns, line, number) });
    characters += line.length;
  }
  if (some.length > 0) await write(some, number);
  return { imported: done.imported, skipped: done.skipped };
}

const idOf = ({ task }: StoredTask): number => task.id as number;

/** @returns how many of the tasks were written: those that the database does not have */
async function addNew(archive: ArchiveStore, read: readonly ReadLine[]): Promise<number> {
  const known = await archive.known(read.map(({ task }) => idOf(task)));
  const present = new Map(known.map((task) => [task.id, task]));
  const added: StoredTask[] = [];
  for (const { number, task } of read) {
    const { id, func, created_at: createdAt } = task.task as { id: number; func: string; created_at: number };
    const other = present.get(id);
    if (other === undefined) {
      added.push(task);
      present.set(id, { id, func, createdAt });
    } else if (other.func !== func || other.createdAt !== createdAt) {
      const at = new Date(other.createdAt).toISOString();
      throw new InvalidArchiveError(
        number,
        `the id ${id} is that of another task, of ${other.func}, enqueued ${at}`,
      );
    }
  }
  if (added.length === 0) return 0;
  try {
    await archive.add(added);
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.code !== "DBQ_DATABASE") throw error;
    const [first, last] = [read[0]?.number, read.at(-1)?.number];
    throw new DatabaseError(`lines ${first} to ${last} were not imported: ${error.message}`, {
      cause: error,
    });
  }
  return added.length;
}
