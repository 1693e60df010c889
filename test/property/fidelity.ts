/**
 * The property of fidelity, the same for each database: what must happen to values that travel through a queue and a
 * worker.
 */
import fc from "fast-check";
import { expect, onTestFinished } from "vitest";
import { currentTask, NotSerializableError, type Queue, type Task, task } from "../../src/index.ts";
import { startedWorker, temporaryQueue } from "../support/queue.ts";
import { seedOf } from "../support/random.ts";
import { allEnded, reportsOf } from "../worker/setup.ts";
import type { DatabaseKind } from "./databases.ts";
import { allowed, at, same } from "./json.ts";
import {
  fixture,
  type Part,
  type Place,
  placesOfPayload,
  queueNames,
  type ValueFixture,
  valuesOf,
} from "./value-fixtures.ts";

const fixturesInRun = 25;

interface Sent extends ValueFixture {
  number: number;
}

/** The fixtures whose tasks are under way, for the handler to compare with its arguments. */
const onTheWay = new Map<number, Sent>();
const arrived = new Map<number, boolean>();

/**
 * The arguments that the handler must get: without trailing `undefined`, and with kwargs last unless they are empty.
 */
function expectedArguments({ number, parts, keys }: Sent): unknown[] {
  const { args, kwargs } = parts;
  const given = args.value === undefined ? [number] : [number, allowed(args.value)];
  return kwargs.value === undefined ? given : [...given, { ...under(keys.kwargs, allowed(kwargs.value)) }];
}

/** An object with one own property of any key. */
const under = (key: string, value: unknown): Record<string, unknown> => Object.fromEntries([[key, value]]);

function errorOf({ thrown }: ValueFixture): Error {
  const error = new Error(thrown.message);
  for (const [key, value] of Object.entries(thrown)) Object.defineProperty(error, key, { value });
  return error;
}

const post = task(
  "post",
  async (...all: unknown[]) => {
    const sent = onTheWay.get(all[0] as number) as Sent;
    currentTask().progress(sent.note.progress, sent.note.text);
    arrived.set(sent.number, same(all, expectedArguments(sent)));
    if (sent.ending === "throws") throw errorOf(sent);
    if (sent.ending === "returns") return sent.result.value;
    const { context, within } = currentTask<Queue>();
    await context.transaction((tx: Parameters<typeof within>[0]) => within(tx).complete(sent.result.value));
    return "ignored";
  },
  { maxRetries: 0 },
);

/** Makes the unique keys of all fixtures distinct. */
const namesOf = ({ number, names }: Pick<Sent, "number" | "names">) => ({
  ...names,
  uniqueKey: `${number} ${names.uniqueKey}`,
});

/** The call that enqueues a fixture, the same for each way of enqueueing. */
const callOf = ({ number, parts, keys, names }: Sent) =>
  [
    post.with({
      ...namesOf({ number, names }),
      kwargs: under(keys.kwargs, parts.kwargs.value),
      meta: under(keys.meta, parts.meta.value),
    }),
    number,
    parts.args.value,
  ] as const;

/**
 * Whether the path at the beginning of a refusal leads to the planted value, or, for any other value, to an existing
 * place.
 */
function leads(path: string, scope: unknown, part: Part): boolean {
  const found = at(path, scope);
  return part.fate === "either" || (part.fate === "refused" && Object.is(found, part.bad));
}

/** The part of the fixture that was refused. It must be one that may be refused, and the path must lead to it. */
function refusedPlace(sent: Sent, error: unknown): Place {
  expect(error).toBeInstanceOf(NotSerializableError);
  const { path } = error as NotSerializableError;
  const place = placesOfPayload.find((name) => path.startsWith(name)) as Place;
  const part = sent.parts[place];
  const scope = place === "args" ? [sent.number, part.value] : under(sent.keys[place], part.value);
  expect(leads(path, scope, part), `the path ${path}`).toBe(true);
  return place;
}

/** The path ends where the message continues with ": ", which may also be part of a key. */
function resultPathLeads(message: string, part: Part): boolean {
  const ends = [...message.matchAll(/: /g)].map(({ index }) => message.slice(0, index));
  return ends.some((path) => {
    try {
      return leads(path, part.value, part);
    } catch {
      return false;
    }
  });
}

function namesKept(sent: Sent, { queueName, requestId, uniqueKey }: Task): boolean {
  return same({ queueName, requestId, uniqueKey }, namesOf(sent));
}

/** Sends this many values. */
export async function fidelity({ name, newDatabase }: DatabaseKind, values: number): Promise<void> {
  const database = await newDatabase();
  onTestFinished(() => database.remove());
  const open = () => temporaryQueue({ synchronous: "normal" }, database.target);
  const queue = await open();
  const worker = await startedWorker(queue, { context: queue, concurrency: 25, queueName: queueNames });
  const reports = reportsOf(worker);
  const other = await open();
  const tally = { values: 0, kept: 0, refused: 0, changed: 0 };
  let lastNumber = 0;

  /** Enqueues one fixture; replaces each refused part by null and tries again. */
  async function enqueueAlone(sent: Sent): Promise<number> {
    for (;;) {
      const before = await database.inserted();
      try {
        // Both ways of enqueueing a single task.
        if (sent.number % 2 === 0) return await queue.enqueueTask(...callOf(sent));
        return await queue.transaction((_, q) => q.enqueueTask(...callOf(sent)));
      } catch (error) {
        const place = refusedPlace(sent, error);
        expect(await database.inserted()).toEqual(before);
        tally.refused += 1;
        sent.parts[place] = { fate: "kept", value: null };
        tally.kept -= 1;
      }
    }
  }

  const isSure = ({ parts }: ValueFixture) => placesOfPayload.every((place) => parts[place].fate === "kept");
  const isBad = ({ parts }: ValueFixture) => placesOfPayload.some((place) => parts[place].fate === "refused");

  /** Enqueues all in one call when all must be kept; when one must be refused, nothing may be written. */
  async function enqueueAll(sent: readonly Sent[]): Promise<number[]> {
    if (sent.some(isBad)) {
      const before = await database.inserted();
      await expect(queue.enqueueTasks(sent.map(callOf))).rejects.toThrow(NotSerializableError);
      expect(await database.inserted()).toEqual(before);
    }
    const ids = new Map<Sent, number>();
    const sure = sent.filter(isSure);
    const together = await queue.enqueueTasks(sure.map(callOf));
    for (const [i, one] of sure.entries()) ids.set(one, together[i] as number);
    for (const one of sent) if (!ids.has(one)) ids.set(one, await enqueueAlone(one));
    tally.kept += valuesOf * sent.length;
    return sent.map((one) => ids.get(one) as number);
  }

  /** The finished row holds what was sent, and ended as expected of the result. */
  async function check(sent: Sent, ended: Task): Promise<boolean> {
    const { args, kwargs, meta } = sent.parts;
    const payload = [
      [ended.args, args.value === undefined ? [sent.number] : [sent.number, allowed(args.value)]],
      [ended.kwargs, kwargs.value === undefined ? {} : under(sent.keys.kwargs, allowed(kwargs.value))],
      [ended.meta, meta.value === undefined ? {} : under(sent.keys.meta, allowed(meta.value))],
    ] as const;
    if (arrived.get(sent.number) !== true || !payload.every(([one, two]) => same(one, two))) return false;
    if (!namesKept(sent, ended) || !noteKept(sent, ended)) return false;
    if (sent.ending === "throws") return await checkThrown(sent, ended);
    if (ended.status === "completed" && sent.result.fate !== "refused")
      return same(ended.result, allowed(sent.result.value));
    tally.kept -= 1;
    tally.refused += 1;
    const refused = ended.status === "failed" && ended.error?.code === "DBQ_NOT_SERIALIZABLE";
    return refused && sent.result.fate !== "kept" && resultPathLeads(ended.error?.message ?? "", sent.result);
  }

  /** A completion inside the handler ends the task at once, without a progress noted just before. */
  function noteKept({ note, ending }: Sent, { progress, progressNote }: Task): boolean {
    if (progress === null && ending === "completes") return progressNote === null;
    return progress === note.progress && progressNote === database.plain(note.text);
  }

  /**
   * The task keeps each text as it was. The attempt's columns are plain text and replace what such a column cannot
   * hold.
   */
  async function checkThrown({ thrown }: Sent, { id, status, error }: Task): Promise<boolean> {
    const plain = (value: string) => value.replace(/[\0\p{Surrogate}]/gu, "\ufffd");
    const { name, message, stack } = thrown;
    const kept = { name: plain(name), message: plain(message), stack: plain(stack) };
    const [attempt, ...more] = await other.listAttempts(id);
    return status === "failed" && same(error, thrown) && same(attempt?.error, kept) && more.length === 0;
  }

  /** Every way of reading a task gives the same. */
  async function readByAll(id: number, ended: Task): Promise<boolean> {
    const views = [await queue.getTask(id), await other.getTask(id), await other.awaitTaskCompletion(id)];
    if (ended.status === "completed") views.push({ ...ended, result: await other.awaitTaskResult(id) });
    return views.every((view) => same(view, ended));
  }

  const property = fc.asyncProperty(
    fc.array(fixture, { minLength: fixturesInRun, maxLength: fixturesInRun }),
    async (fixtures) => {
      const sent = fixtures.map((one) => {
        lastNumber += 1;
        return { ...one, parts: { ...one.parts }, number: lastNumber };
      });
      for (const one of sent) onTheWay.set(one.number, one);
      const ids = await enqueueAll(sent);
      const ended = await allEnded(queue, ids);
      const listed = await other.listTasks({ limit: fixturesInRun });
      const inOrder = (tasks: readonly Task[]) => [...tasks].sort((a, b) => a.id - b.id);
      expect(inOrder(listed)).toEqual(inOrder(ended));
      const changed: { sent: Sent; ended: Task }[] = [];
      for (const [i, one] of sent.entries()) {
        const end = ended[i] as Task;
        if (!(await check(one, end)) || !(await readByAll(end.id, end)))
          changed.push({ sent: one, ended: end });
      }
      tally.values += valuesOf * sent.length;
      tally.changed += changed.length;
      onTheWay.clear();
      arrived.clear();
      // Each run answers for its own reports: one that no longer occurs would else look as if every smaller value failed.
      expect(reports.splice(0)).toEqual([]);
      expect(changed).toEqual([]);
    },
  );
  await fc.assert(property, {
    numRuns: values / (fixturesInRun * valuesOf),
    seed: seedOf(`fidelity on ${name}`),
    // Ends the search for the smallest value before the test's own limit, which would hide the failure.
    interruptAfterTimeLimit: 150_000,
    markInterruptAsFailure: true,
  });

  const { kept, refused, changed } = tally;
  console.log(`${name}: ${tally.values} values: ${kept} kept, ${refused} refused, ${changed} changed`);
  expect(kept + refused).toBe(values);
  // Both must have occurred, or the test shows nothing.
  expect(Math.min(kept, refused)).toBeGreaterThan(values / 20);
}
