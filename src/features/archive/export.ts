/** Finished tasks as lines of JSON. */
import { type CountFilter, readBulkFilter } from "../../base/options/options.ts";
import { callable, readOptions, signal, wrong } from "../../base/options/validators.ts";
import { setImmediate } from "../../base/runtime/timers.ts";
import { portionsOf } from "../../base/values/portions.ts";
import { finishedStatuses, isFinished } from "../../task.ts";
import { internalsOf, type Queue } from "../queue.ts";
import type { FoundTask } from "./contract.ts";
import { toLine } from "./line.ts";

/** Tasks that are found at a time. */
const pageRows = 500;
/** Bytes of the texts that are read at a time; a larger task is read alone. */
const chunkBytes = 4 * 1_048_576;
/** Where ids begin. Each database takes this number; only ids made up by hand are below it. */
const belowAllIds = -9_000_000_000_000_000_000;

export interface ExportProgress {
  /** How many tasks were exported so far. */
  done: number;
}

/** Options of `exportTasks`. */
export interface ExportOptions {
  /** Ends the export: the iterator throws `signal.reason`. */
  signal?: AbortSignal;
  /** Called after each group of tasks. The next one waits for the promise that it returns. */
  onProgress?: (progress: ExportProgress) => unknown;
}

const exportReaders = { signal, onProgress: callable<(progress: ExportProgress) => unknown> };

/**
 * The finished tasks that match, by id: one line of JSON for each, without a line end, with all of its columns, attempts, log lines
 * and steps, as they are stored. Tasks that end after the call of the iterator's first `next` are left out. Reads a few megabytes at
 * a time.
 * @param filter `{}` for all finished tasks
 * @throws TypeError for a wrong filter or option, and for a status that is not final; DatabaseError; the signal's reason
 */
export function exportTasks(
  queue: Queue,
  filter: CountFilter,
  options?: ExportOptions,
): AsyncGenerator<string, void, undefined> {
  const { store, checkOpen } = internalsOf(queue);
  const read = readBulkFilter(filter, "exportTasks");
  const { signal: aborted, onProgress } = readOptions<ExportOptions>(options, "exportTasks", exportReaders);
  const unfinished = read.status?.find((status) => !isFinished(status));
  if (unfinished !== undefined)
    throw wrong("exportTasks: status", `one of ${finishedStatuses.join(", ")}`, unfinished);
  return (async function* () {
    checkOpen();
    const { archive } = store;
    const bounds = await archive.bounds();
    for (let [after, done] = [belowAllIds, 0]; ; ) {
      const page = await archive.next(read, bounds, after, pageRows);
      for (const found of chunks(page)) {
        // Two synchronous drivers never yield to the event loop: signals, and all else in the process, would wait.
        await new Promise((resolve) => setImmediate(resolve));
        aborted?.throwIfAborted();
        for (const task of await archive.read(found)) {
          yield toLine(archive.columns, task);
          done += 1;
        }
        await onProgress?.({ done });
      }
      const last = page.at(-1);
      if (page.length < pageRows || !last) return;
      after = last.id;
    }
  })();
}

const chunks = (found: readonly FoundTask[]) => portionsOf(found, ({ bytes }) => bytes, { size: chunkBytes });
