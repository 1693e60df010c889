/** Progress and log lines that the database refuses for good, such as a text that its encoding lacks: the others are written. */
import { aroundRefused } from "../base/runtime/around-refused.ts";
import { toAscii } from "../base/values/storable.ts";
import type { LogLine, TaskVersion, WorkerStore } from "../store.ts";

type Report = (error: unknown, where: string) => void;
type ProgressNote = Parameters<WorkerStore["progress"]>[0][number];

/** Tasks whose refused progress is reported once. */
const mostTold = 1_000;

interface Refused<T> {
  item: T;
  error: unknown;
}

/** Writes all at once, as a rule. Returns those that the database refuses for good. */
const writeEach = <T>(
  items: readonly T[],
  write: (some: readonly T[]) => Promise<void>,
): Promise<Refused<T>[]> =>
  aroundRefused(items, {
    act: async (some) => {
      await write(some);
      return [];
    },
    onRefused: (item, error): Refused<T>[] => [{ item, error }],
  });

/** Tries those that were refused once more, in ASCII. `drop` gets the others, one error for each task. */
async function writeOrDrop<T extends TaskVersion>(
  items: readonly T[],
  write: (some: readonly T[]) => Promise<void>,
  inAscii: (item: T) => T,
  drop: (id: number, error: unknown) => void,
): Promise<void> {
  const refused = await writeEach(items, write);
  const again = refused.map(({ item }) => inAscii(item));
  const dropped = await writeEach(again, write);
  for (const [id, error] of new Map(dropped.map(({ item, error }) => [item.id, error]))) drop(id, error);
}

/** @param told the tasks whose refused progress was reported: they may note some ten times a second */
export async function writeProgress(
  store: Pick<WorkerStore, "progress">,
  notes: readonly ProgressNote[],
  report: Report,
  told: Set<number>,
): Promise<void> {
  await writeOrDrop(
    notes,
    (some) => store.progress(some),
    (one) => ({ ...one, note: one.note && toAscii(one.note) }),
    (id, error) => {
      if (told.has(id)) return;
      if (told.size >= mostTold) told.clear();
      told.add(id);
      report(error, "writing progress");
    },
  );
}

export async function writeLines(
  store: Pick<WorkerStore, "log">,
  lines: readonly LogLine[],
  keep: number,
  report: Report,
): Promise<void> {
  await writeOrDrop(
    lines,
    (some) => store.log(some, keep),
    (one) => ({ ...one, message: toAscii(one.message) }),
    (id, error) => report(error, `writing log lines of task ${id}`),
  );
}
