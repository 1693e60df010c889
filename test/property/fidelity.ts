/**
 * What travels through a queue and a worker, and what has to become of it: the property of fidelity, the same for each
 * database.
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
  type Letter,
  letter,
  type Parcel,
  type Place,
  placesOfPayload,
  queueNames,
  valuesOf,
} from "./letters.ts";

const lettersInRun = 25;

interface Sent extends Letter {
  number: number;
}

/** What is on its way, for the handler to compare with what it gets. */
const onTheWay = new Map<number, Sent>();
const arrived = new Map<number, boolean>();

/** What the handler must get: trailing `undefined` is left out, and kwargs come last unless they are empty. */
function expectedArguments({ number, parcels, keys }: Sent): unknown[] {
  const { args, kwargs } = parcels;
  const given = args.value === undefined ? [number] : [number, allowed(args.value)];
  return kwargs.value === undefined ? given : [...given, { ...under(keys.kwargs, allowed(kwargs.value)) }];
}

/** An own property of any key. */
const under = (key: string, value: unknown): Record<string, unknown> => Object.fromEntries([[key, value]]);

function errorOf({ thrown }: Letter): Error {
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

/** No two letters have the same key. */
const namesOf = ({ number, names }: Pick<Sent, "number" | "names">) => ({
  ...names,
  uniqueKey: `${number} ${names.uniqueKey}`,
});

/** The call of a letter, for each way of enqueueing. */
const callOf = ({ number, parcels, keys, names }: Sent) =>
  [
    post.with({
      ...namesOf({ number, names }),
      kwargs: under(keys.kwargs, parcels.kwargs.value),
      meta: under(keys.meta, parcels.meta.value),
    }),
    number,
    parcels.args.value,
  ] as const;

/** Whether the path at the beginning of a refusal leads to what was planted; of any other value, that it leads somewhere. */
function leads(path: string, scope: unknown, parcel: Parcel): boolean {
  const found = at(path, scope);
  return parcel.fate === "either" || (parcel.fate === "refused" && Object.is(found, parcel.bad));
}

/** Which parcel of the letter a refusal is about. It has to be one that may be refused, and the path has to lead to it. */
function refusedPlace(sent: Sent, error: unknown): Place {
  expect(error).toBeInstanceOf(NotSerializableError);
  const { path } = error as NotSerializableError;
  const place = placesOfPayload.find((name) => path.startsWith(name)) as Place;
  const parcel = sent.parcels[place];
  const scope = place === "args" ? [sent.number, parcel.value] : under(sent.keys[place], parcel.value);
  expect(leads(path, scope, parcel), `the path ${path}`).toBe(true);
  return place;
}

/** A path ends where its message goes on with ": ", which may also be part of a key. */
function resultPathLeads(message: string, parcel: Parcel): boolean {
  const ends = [...message.matchAll(/: /g)].map(({ index }) => message.slice(0, index));
  return ends.some((path) => {
    try {
      return leads(path, parcel.value, parcel);
    } catch {
      return false;
    }
  });
}

function namesKept(sent: Sent, { queueName, requestId, uniqueKey }: Task): boolean {
  return same({ queueName, requestId, uniqueKey }, namesOf(sent));
}

/** Sends so many values. */
export async function fidelity({ name, newHome }: DatabaseKind, values: number): Promise<void> {
  const home = await newHome();
  onTestFinished(() => home.remove());
  const open = () => temporaryQueue({ synchronous: "normal" }, home.target);
  const queue = await open();
  const worker = await startedWorker(queue, { context: queue, concurrency: 25, queueName: queueNames });
  const reports = reportsOf(worker);
  const other = await open();
  const tally = { values: 0, kept: 0, refused: 0, changed: 0 };
  let lastNumber = 0;

  /** Enqueues a letter by itself; each parcel that is refused is replaced by null, and the letter tried again. */
  async function enqueueAlone(sent: Sent): Promise<number> {
    for (;;) {
      const before = await home.inserted();
      try {
        // Either way of writing a single one.
        if (sent.number % 2 === 0) return await queue.enqueueTask(...callOf(sent));
        return await queue.transaction((_, q) => q.enqueueTask(...callOf(sent)));
      } catch (error) {
        const place = refusedPlace(sent, error);
        expect(await home.inserted()).toEqual(before);
        tally.refused += 1;
        sent.parcels[place] = { fate: "kept", value: null };
        tally.kept -= 1;
      }
    }
  }

  const isSure = ({ parcels }: Letter) => placesOfPayload.every((place) => parcels[place].fate === "kept");
  const isBad = ({ parcels }: Letter) => placesOfPayload.some((place) => parcels[place].fate === "refused");

  /** All in one call, when all must be kept; when one must not be, none is written. */
  async function enqueueAll(sent: readonly Sent[]): Promise<number[]> {
    if (sent.some(isBad)) {
      const before = await home.inserted();
      await expect(queue.enqueueTasks(sent.map(callOf))).rejects.toThrow(NotSerializableError);
      expect(await home.inserted()).toEqual(before);
    }
    const ids = new Map<Sent, number>();
    const sure = sent.filter(isSure);
    const together = await queue.enqueueTasks(sure.map(callOf));
    for (const [i, one] of sure.entries()) ids.set(one, together[i] as number);
    for (const one of sent) if (!ids.has(one)) ids.set(one, await enqueueAlone(one));
    tally.kept += valuesOf * sent.length;
    return sent.map((one) => ids.get(one) as number);
  }

  /** The row as it ended holds what was sent, and ended as the result's fate says. */
  async function check(sent: Sent, ended: Task): Promise<boolean> {
    const { args, kwargs, meta } = sent.parcels;
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

  /** What completes by itself ends at once: what was noted a moment before is no more of interest. */
  function noteKept({ note, ending }: Sent, { progress, progressNote }: Task): boolean {
    if (progress === null && ending === "completes") return progressNote === null;
    return progress === note.progress && progressNote === home.plain(note.text);
  }

  /** The task keeps each text as it was; the attempt, whose columns are plain text, marks what such a column cannot hold. */
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
    fc.array(letter, { minLength: lettersInRun, maxLength: lettersInRun }),
    async (letters) => {
      const sent = letters.map((one) => {
        lastNumber += 1;
        return { ...one, parcels: { ...one.parcels }, number: lastNumber };
      });
      for (const one of sent) onTheWay.set(one.number, one);
      const ids = await enqueueAll(sent);
      const ended = await allEnded(queue, ids);
      const listed = await other.listTasks({ limit: lettersInRun });
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
      expect(reports).toEqual([]);
      expect(changed).toEqual([]);
    },
  );
  await fc.assert(property, {
    numRuns: values / (lettersInRun * valuesOf),
    seed: seedOf(`fidelity on ${name}`),
  });

  const { kept, refused, changed } = tally;
  console.log(`${name}: ${tally.values} values: ${kept} kept, ${refused} refused, ${changed} changed`);
  expect(kept + refused).toBe(values);
  // Both must have been tried, else this has shown nothing.
  expect(Math.min(kept, refused)).toBeGreaterThan(values / 20);
}
