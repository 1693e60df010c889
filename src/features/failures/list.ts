/** What `queue.listFailures()` tells: the kinds that are open or were counted of late, and what is known of each. */
import { milliseconds, moment } from "../../base/options/durations.ts";
import { integer, label, type Reader, readOptions } from "../../base/options/validators.ts";
import { failureKindOfTask } from "../../base/values/failure-kind.ts";
import { errorOf } from "../../base/values/records.ts";
import type { TaskStore } from "../../store.ts";
import type { TaskBeginning } from "../../task.ts";
import type { FailureStore, KnownFailure, OpenFailures } from "./contract.ts";
import type { Failure, FailureOptions } from "./methods.ts";

/** Kinds that a look compares: of more, those with the most failed tasks and the most attempts. */
const most = 1_000;

/** Failed tasks that are all counted; of more, a part of each kind: an index alone tells how many there are, 50,000 in about 10 ms. */
const mostOpen = 50_000;

const day = 86_400_000;

/** Reads tasks with the first characters of each JSON column. */
interface Samples {
  get(ids: readonly number[], characters: number): Promise<TaskBeginning[]>;
}

/** Characters of the JSON of an error that are read: dbq stores fewer. */
const longestError = 100_000;

type Store = Pick<TaskStore, "taskStates"> & { readonly look: Samples; readonly failures: FailureStore };

/** A kind, its failed tasks and its attempts. */
interface Counts {
  id: string;
  count: number;
  open: number;
  moreOpen: boolean;
  /** The newest failed task. */
  sample: number | null;
}

/** @throws TypeError, DatabaseError */
export async function listFailures(
  store: Store,
  given: FailureOptions | undefined,
  now: number,
): Promise<Failure[]> {
  const since: Reader<number> = (value, name) =>
    value instanceof Date ? moment(value, name) : now - milliseconds(value, name, { max: 1_000 * 365 * day });
  const readers = { since, func: label, limit: integer(1, 1_000) };
  const read = readOptions<{ since: number; func: string; limit: number }>(given, "listFailures", readers);
  const { since: from = now - day, func, limit = 50 } = read;
  const page = (await countsOf(store.failures, Math.max(0, from), func)).slice(0, limit);
  return await described(store, page);
}

/** Most failed tasks first, then most attempts. */
async function countsOf(store: FailureStore, from: number, func: string | undefined): Promise<Counts[]> {
  const counted = await store.counted(from, func, most);
  const { kinds, complete } = await store.open(func, most, mostOpen);
  const openBy = new Map(kinds.map((each) => [each.id, each]));
  const countBy = new Map(counted.map(({ id, count }) => [id, count]));
  const others = counted.map(({ id }) => id).filter((id) => !openBy.has(id));
  const missed = complete || others.length === 0 ? [] : await store.openOf(others, mostOpen);
  for (const each of missed) openBy.set(each.id, each);
  return [...new Set([...openBy.keys(), ...countBy.keys()])]
    .map((id) => countsIn(id, countBy.get(id), openBy.get(id)))
    .sort((a, b) => b.open - a.open || b.count - a.count || Number(a.id > b.id) - Number(a.id < b.id));
}

const countsIn = (id: string, count = 0, open?: OpenFailures): Counts => ({
  ...{ id, count },
  open: open?.count ?? 0,
  moreOpen: open?.more ?? false,
  sample: open?.sample ?? null,
});

async function described(store: Store, page: readonly Counts[]): Promise<Failure[]> {
  if (page.length === 0) return [];
  const known = new Map(
    (await store.failures.known(page.map(({ id }) => id))).map((each) => [each.id, each]),
  );
  const tasks = await bySample(
    store,
    page.filter(({ id }) => !known.has(id)),
  );
  const samples = page.flatMap(({ id, sample }) => (sample === null ? (known.get(id)?.sample ?? []) : []));
  const there = new Set((samples.length === 0 ? [] : await store.taskStates(samples)).map(({ id }) => id));
  return page.flatMap(({ id, count, open, moreOpen, sample }) => {
    const kind = known.get(id) ?? tasks.get(id);
    if (!kind) return [];
    const { func, errorName, message, firstAt, lastAt } = kind;
    const other = kind.sample !== null && there.has(kind.sample) ? kind.sample : null;
    return {
      ...{ id, func, errorName, message, count, open },
      ...(moreOpen && { moreOpen }),
      ...{ firstAt: new Date(firstAt), lastAt: new Date(lastAt), sample: sample ?? other },
    };
  });
}

/** Kinds without a row, by their newest failed tasks: their worker was killed before it had counted them, or their rows are too old. */
async function bySample(store: Store, kinds: readonly Counts[]): Promise<Map<string, KnownFailure>> {
  const ids = kinds.flatMap(({ sample }) => sample ?? []);
  const found = ids.length === 0 ? [] : await store.look.get(ids, longestError);
  const records = new Map(found.map((task) => [task.id, task]));
  return new Map(
    kinds.flatMap(({ id, sample }) => {
      const task = records.get(sample ?? 0);
      if (!task) return [];
      const at = task.finishedAt ?? task.updatedAt;
      const kind = failureKindOfTask(task.func, errorOf(task.error ?? "{}"));
      return [[id, { ...kind, id, firstAt: at, lastAt: at, sample: task.id }]];
    }),
  );
}
