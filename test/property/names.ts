/**
 * The property of names, the same for each database: names that are not identical are different names, whatever the
 * database's collation says, as unique keys, request ids, queues, functions and in meta.
 */
import fc from "fast-check";
import { expect, onTestFinished } from "vitest";
import { type Queue, type Task, type TaskId, task, Worker } from "../../src/index.ts";
import { temporaryQueue } from "../support/queue.ts";
import { seedOf } from "../support/random.ts";
import { allEnded } from "../worker/setup.ts";
import type { DatabaseKind } from "./databases.ts";
import { label } from "./value-fixtures.ts";

/** Names that look like the given one. */
const lookalikes = (name: string): string[] => [
  name,
  ...[
    name.toUpperCase(),
    name.toLowerCase(),
    name.normalize("NFD"),
    name.normalize("NFC"),
    name.normalize("NFKD"),
  ],
  ...[`${name} `, `${name}  `, ` ${name}`, `${name}\t`, `${name}\u200b`, `${name}\u0301`, `${name}\u00ad`],
  ...[`${name}%`, `${name}_`, `${name}\\`, `'${name}`, `"${name}"`, `${name}\u0001`, `${name}\u{1f600}`],
];

/** Similar names in any order; most begin with fixtures that have two cases and accents. */
const family: fc.Arbitrary<string[]> = fc
  .tuple(
    fc.oneof(
      label,
      label.map((any) => `Straße ﬁ é${any}`),
      fc.constant("x".repeat(253)),
    ),
    fc.nat(),
  )
  .map(([name]) => [...new Set(lookalikes(name))].filter(({ length }) => length > 0 && length <= 255))
  .chain((names) => fc.shuffledSubarray(names, { minLength: Math.min(6, names.length), maxLength: 8 }));

const returning = (name: string) => task(name, async (_: string) => name);

const named = new Map<string, ReturnType<typeof returning>>();

/** A function of this name, which returns its own name. */
function functionNamed(name: string) {
  const known = named.get(name) ?? returning(name);
  named.set(name, known);
  return known;
}

const callOf = (name: string, onDuplicate: "return" | "error" = "return") => {
  const names = { queueName: name, requestId: name, uniqueKey: name };
  const fn = functionNamed(name).with({
    ...names,
    delay: "1h",
    onDuplicate,
    meta: { is: name },
  });
  return [fn, name] as const;
};

const idsOf = (tasks: readonly Task[]) => tasks.map(({ id }) => Number(id));

/** Each name finds its own task only. */
async function foundByName(queue: Queue, names: readonly string[], ids: readonly TaskId[]): Promise<void> {
  for (const [i, name] of names.entries()) {
    const filters = [...[{ func: name }, { queueName: name }, { requestId: name }], { meta: { is: name } }];
    for (const filter of filters)
      expect(idsOf(await queue.listTasks(filter)), JSON.stringify(filter)).toEqual([ids[i]]);
    expect((await queue.countTasks({ func: name, queueName: name })).scheduled).toBe(1);
  }
  const counts = await queue.listCounts();
  expect(counts.map(({ func, queueName, count }) => [func, queueName, count]).sort()).toEqual(
    names.map((name) => [name, name, 1]).sort(),
  );
}

/** Only the holder's name finds a held key. */
async function heldByName(queue: Queue, names: readonly string[], ids: readonly TaskId[]): Promise<void> {
  expect(await queue.enqueueTasks(names.map((name) => callOf(name)))).toEqual(ids);
  expect(await Promise.all(names.map((name) => queue.enqueueTask(...callOf(name))))).toEqual(ids);
  const [name = ""] = names;
  const refusal = queue.enqueueTask(...callOf(name, "error"));
  await expect(refusal).rejects.toMatchObject({ code: "DBQ_DUPLICATE", taskId: ids[0] });
}

/** A worker runs the tasks of its own queues and functions only. */
async function runByName(
  queue: Queue,
  names: readonly string[],
  ids: readonly TaskId[],
  served: readonly [queues: readonly string[], functions: readonly string[]],
): Promise<void> {
  const [queueName, functions] = served;
  const worker = new Worker(queue, { queueName, tasks: functions.map(functionNamed) });
  const isServed = (name: string) => queueName.includes(name) && functions.includes(name);
  for (const id of ids) await queue.retryTask(id);
  await worker.start();
  const ran = await allEnded(
    queue,
    ids.filter((_, i) => isServed(names[i] as string)),
  );
  await worker.stop({ grace: 0 });
  expect(ran.map(({ result }) => result)).toEqual(names.filter(isServed));
  const { pending, completed } = await queue.countTasks();
  expect({ pending, completed }).toEqual({ pending: names.length - ran.length, completed: ran.length });
}

/** A purge of one name leaves the others. */
async function purgedByName(queue: Queue, names: readonly string[], ids: readonly TaskId[]): Promise<void> {
  for (const [i, name] of names.entries()) {
    const filter = i % 2 === 0 ? { func: name } : { queueName: name };
    expect(await queue.purgeTasks(filter)).toEqual({ purged: 1, running: 0, skipped: 0 });
    const left = [...ids.slice(i + 1)].sort((a, b) => b - a);
    expect(idsOf(await queue.listTasks())).toEqual(left);
  }
}

/** Tries this many families of names. */
export async function differentNames({ name, newDatabase }: DatabaseKind, runs: number): Promise<void> {
  const home = await newDatabase();
  onTestFinished(() => home.remove());
  const queue = await temporaryQueue({ synchronous: "normal" }, home.target);
  const names = family.chain((all) =>
    fc.tuple(fc.constant(all), fc.subarray(all, { minLength: 1 }), fc.subarray(all, { minLength: 1 })),
  );
  const property = fc.asyncProperty(names, async ([all, queues, functions]) => {
    await queue.purgeTasks();
    const ids = await queue.enqueueTasks(all.map((one) => callOf(one)));
    expect(new Set(ids).size).toBe(all.length);
    await heldByName(queue, all, ids);
    await foundByName(queue, all, ids);
    await runByName(queue, all, ids, [queues, functions]);
    await purgedByName(queue, all, ids);
  });
  await fc.assert(property, { numRuns: runs, seed: seedOf(`names on ${name}`) });
}
